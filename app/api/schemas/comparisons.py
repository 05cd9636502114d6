"""Estimates compared."""

from typing import Annotated, Any

from pydantic import Field

from app.api.schemas.common import Number, Shape

Matrix = Annotated[
    list[list[int]],
    Field(
        description="Rows: signs −, 0, + of `a`; columns: those of `b`.",
        examples=[[[3, 0, 1], [0, 4, 0], [2, 0, 6]]],
    ),
]


class Agreement(Shape):
    """Of what has a number in both; `sampled` of them stand for the ranks and the quantile."""

    count: int
    sampled: int
    spearman: Number = Field(description="Spearman's ρ; null for fewer than three, or a constant side.")
    sign_agreement: Number = Field(description="Share with the same sign: −, 0 or +.")
    max_abs_difference: Number
    p99_abs_difference: Number
    sign_matrix: Matrix


class Compared(Shape):
    """One side: an estimate, or `recorded`."""

    id: str
    convention: str | None
    estimator: str | None
    request: dict[str, Any] | None
    per_token: bool | None


class ComparedRollout(Shape):
    """Means over the rollout's unmasked tokens; `sign_change`: one is negative, the other positive."""

    index: int
    a: Number
    b: Number
    sign_change: bool


class ComparedRollouts(Shape):
    items: list[ComparedRollout]
    next: str | None
    total: int


class Comparison(Agreement):
    """Two sets of advantages of one batch. The numbers of the object itself are over rollouts, each counting
    once with its mean; `tokens` are over unmasked tokens, where an estimate has one number for each."""

    batch: str
    a: Compared
    b: Compared
    tokens: Agreement | None
    rollouts: ComparedRollouts
