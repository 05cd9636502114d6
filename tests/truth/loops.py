"""Group estimators in plain Python loops, one group at a time: what the estimators are held against."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from estimators import CONVENTIONS, Request
from tests.oracles import estimators as plain
from tests.oracles import groups
from tests.truth.shapes import Row


@dataclass(frozen=True, slots=True)
class Given:
    """What the loops see of a batch."""

    scores: Sequence[float]
    groups: Sequence[str]
    lengths: Sequence[int]


def _relative(over: str, epsilon: float, ddof: int, singleton: str) -> Callable[[Given], list[float]]:
    def loop(given: Given) -> list[float]:
        return plain.group_relative(
            given.scores,
            given.groups,
            [True] * len(given.scores),
            over=over,
            epsilon=epsilon,
            ddof=ddof,
            singleton=singleton,
        )

    return loop


#: Conventions at their own settings.
LOOPS: dict[str, Callable[[Given], list[float]]] = {
    "grpo/verl": _relative("group", 1e-6, 1, "raw"),
    "grpo/skyrl": _relative("group", 1e-6, 1, "raw"),
    "grpo/trl-group": _relative("group", 1e-4, 1, "zero"),
    "grpo/trl-batch": _relative("batch", 1e-4, 1, "zero"),
    "grpo/openrlhf": _relative("group", 1e-9, 1, "zero"),
    "grpo/open-instruct": _relative("group", 1e-8, 0, "zero"),
    "grpo/rllm": _relative("group", 1e-6, 0, "raw"),
    "dr_grpo/verl": _relative("none", 0.0, 1, "raw"),
    "dr_grpo/skyrl": _relative("none", 0.0, 1, "raw"),
    "dr_grpo/trl": _relative("none", 0.0, 1, "zero"),
    "dr_grpo/prime-rl": _relative("none", 0.0, 1, "zero"),
    "dr_grpo/tinker": _relative("none", 0.0, 1, "zero"),
    "grpo/nemo-loo": lambda given: groups.leave_one_out(given.scores, given.groups, 1e-6),
    "rloo/verl": lambda given: groups.rloo(given.scores, given.groups, raw=True),
    "rloo/rllm": lambda given: groups.rloo(given.scores, given.groups, raw=True),
    "rloo/skyrl": lambda given: groups.rloo(given.scores, given.groups, raw=False),
    "rloo/nemo": lambda given: groups.rloo(given.scores, given.groups, raw=False),
    "opo/verl": lambda given: groups.opo(given.scores, given.groups, given.lengths),
    "gpg/verl": lambda given: groups.gpg(given.scores, given.groups, 1.0),
    "maxrl/prime-rl": lambda given: groups.maxrl(given.scores, given.groups),
    "batch_z/rllm": lambda given: groups.batch_z(given.scores, 0, 1e-6),
    "batch_z/areal": lambda given: groups.batch_z(given.scores, 1, 1e-5),
}


def advantages(name: str, rows: Sequence[Row], request: Request) -> list[float] | None:
    """One number per row; None where there is no loop for what was asked."""
    convention = CONVENTIONS[name]
    as_named = request.params == convention.params and request.whitening == convention.whitening
    refusing = getattr(request.params, "singleton", None) == "refuse"
    loop = LOOPS.get(name)
    if loop is None or not as_named or refusing or len(rows) < 2:
        return None
    lengths = [sum(row["response_mask"]) for row in rows]
    return loop(Given([row["reward"] for row in rows], [row["group_id"] for row in rows], lengths))
