"""Functions that give every token its own advantage, a file per framework."""

from tests.cases.build import Builder
from tests.cases.tokens import open_instruct, openrlhf, skyrl, verl

BUILDERS: dict[str, Builder] = {
    **open_instruct.BUILDERS,
    **openrlhf.BUILDERS,
    **skyrl.BUILDERS,
    **verl.BUILDERS,
}
