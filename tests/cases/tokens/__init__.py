"""Functions that give every token its own advantage, a file per framework."""

from tests.cases.build import Builder
from tests.cases.tokens import areal, nemo, open_instruct, openrlhf, roll, skyrl, slime, torchrl, trl, verl

BUILDERS: dict[str, Builder] = {
    name: build
    for framework in (areal, nemo, open_instruct, openrlhf, roll, skyrl, slime, torchrl, trl, verl)
    for name, build in framework.BUILDERS.items()
}
