"""Ugly batches for Hypothesis: no rollouts, empty and fully masked ones, lone members, groups in any order,
numbers that are missing or not finite."""

import math
import os
from dataclasses import dataclass
from typing import TypeVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from estimators import Batch
from tests.estimators.build import batch_of

#: VANTAGE_LAWS=10 looks ten times as hard, from another seed every time.
TIMES = int(os.environ.get("VANTAGE_LAWS", "1"))
law = settings(
    max_examples=30 * TIMES,
    deadline=None,
    derandomize=TIMES == 1,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)

T = TypeVar("T")

#: On a grid, so that constant groups and exact ties happen; wide, so that rounding shows.
NUMBERS = st.integers(-64, 64).map(lambda x: x / 16)
UGLY = st.sampled_from([math.nan, math.inf, -math.inf])
GROUPS = st.sampled_from(["q-7", "01", "1", "solo", ""])


@dataclass(frozen=True)
class Rows:
    """One list per rollout, as a framework would have them before padding."""

    mask: list[list[bool]]
    rewards: list[list[float]]
    values: list[list[float]]
    scores: list[float]
    groups: list[str]

    def batch(self) -> Batch:
        """With token rewards, values, and what the token baselines and ReMax need beside them."""
        return batch_of(
            self.mask,
            self.groups,
            self.scores,
            token_level_rewards=self.rewards,
            values=self.values,
            old_log_probs=[[-abs(value) for value in row] for row in self.values],
            ref_log_probs=[[value / 2 for value in row] for row in self.values],
            components={"first": self.scores, "length": [float(len(row)) for row in self.mask]},
            sum_pi_squared=[[abs(math.sin(value)) for value in row] for row in self._finite_values()],
            reward_baseline=self.scores,
        )

    def _finite_values(self) -> list[list[float]]:
        return [[value if math.isfinite(value) else 0.5 for value in row] for row in self.values]

    def scored(self) -> Batch:
        """With one score per rollout and the mask only."""
        return batch_of(self.mask, self.groups, self.scores)

    def take(self, order: list[int]) -> "Rows":
        def picked(rows: list[T]) -> list[T]:
            return [rows[i] for i in order]

        return Rows(
            picked(self.mask),
            picked(self.rewards),
            picked(self.values),
            picked(self.scores),
            picked(self.groups),
        )


@st.composite
def rows(draw: st.DrawFn, *, finite: bool = False, least: int = 0) -> Rows:
    """Up to seven rollouts of up to 70 tokens: across two chunk borders."""
    count = draw(st.integers(least, 7))
    lengths = draw(
        st.lists(st.sampled_from([0, 1, 2, 5, 31, 32, 33, 64, 70]), min_size=count, max_size=count)
    )
    if draw(st.booleans()):
        lengths = [draw(st.sampled_from([1, 32, 64]))] * count
    numbers = NUMBERS if finite else st.one_of(NUMBERS, NUMBERS, NUMBERS, NUMBERS, NUMBERS, UGLY)
    whole = draw(st.booleans())
    random = draw(st.randoms(use_true_random=False))

    def row(length: int, strategy_pool: list[float]) -> list[float]:
        return [random.choice(strategy_pool) for _ in range(length)]

    pool = draw(st.lists(numbers if draw(st.booleans()) else NUMBERS, min_size=1, max_size=12))
    masks = [[whole or random.random() < random.choice([0.0, 0.5, 0.9]) for _ in range(n)] for n in lengths]
    return Rows(
        mask=masks,
        rewards=[row(n, pool) for n in lengths],
        values=[row(n, pool) for n in lengths],
        scores=draw(st.lists(numbers, min_size=count, max_size=count)),
        groups=draw(st.lists(GROUPS, min_size=count, max_size=count)),
    )
