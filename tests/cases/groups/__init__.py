"""Functions that compare a rollout with others, a file per framework."""

from tests.cases.build import Builder
from tests.cases.groups import (
    areal,
    atropos,
    nemo,
    open_instruct,
    openrlhf,
    prime_rl,
    rllm,
    roll,
    skyrl,
    slime,
    tinker,
    torchrl,
    trl,
    verl,
)

BUILDERS: dict[str, Builder] = {
    name: build
    for framework in (
        areal,
        atropos,
        nemo,
        open_instruct,
        openrlhf,
        prime_rl,
        rllm,
        roll,
        skyrl,
        slime,
        tinker,
        torchrl,
        trl,
        verl,
    )
    for name, build in framework.BUILDERS.items()
}
