"""The tables: one per framework, of what the keys of its configuration do to advantages."""

from app.configured.effects import Framework
from app.configured.frameworks.nemo import NEMO
from app.configured.frameworks.openrlhf import OPENRLHF
from app.configured.frameworks.recipes import ATROPOS, OPEN_INSTRUCT, PRIME, RLLM, TINKER, TORCHRL
from app.configured.frameworks.systems import AREAL, ROLL, SKYRL, SLIME
from app.configured.frameworks.trl import SWIFT, TRL, UNSLOTH
from app.configured.frameworks.verl import EASYR1, VERL

__all__ = ["CALLED", "FRAMEWORKS"]

FRAMEWORKS: tuple[Framework, ...] = (
    VERL, EASYR1, TRL, UNSLOTH, SWIFT, OPENRLHF, NEMO, SKYRL, SLIME, AREAL, ROLL, RLLM, PRIME, OPEN_INSTRUCT,
    TORCHRL, TINKER, ATROPOS,
)  # fmt: skip
#: What a header may call a framework, lower case and with dashes -> its table.
CALLED: dict[str, Framework] = {name: each for each in FRAMEWORKS for name in each.called}
