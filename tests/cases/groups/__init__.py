"""Functions that compare a rollout with others, a file per framework."""

from tests.cases.build import Builder
from tests.cases.groups import skyrl, trl, verl

BUILDERS: dict[str, Builder] = {**skyrl.BUILDERS, **trl.BUILDERS, **verl.BUILDERS}
