"""What a reconciliation is asked and what it answers: recorded advantages against the catalogue."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from torch import Tensor

Verdict = Literal["match", "ambiguous", "no_match", "nothing_recorded"]
Level = Literal["token", "rollout"]


class TooLong(Exception):
    """The time for the search was over before it was."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """The advantages that a file holds: one per token `[N]`, or one per rollout `[B]`; NaN: not recorded.

    Both in the order of the batch. Masked tokens are never looked at.
    """

    advantages: Tensor
    per_token: bool


@dataclass(frozen=True, slots=True)
class Hints:
    """What else is known of the run. All of it may be left out.

    params      configured values, named as in a request's `params` (`gamma`, `lam`, `kl_coef`, `epsilon`, …)
    convention  the configured convention, `framework` that of the file: either breaks ties
    foreign     the file names a framework or an estimator that is not known: what fits is then a fact, and no
                mistake
    group       `[B]` int64: dense number of each rollout as the configured convention has it, where that is
                not as recorded
    prompt      `[B]` int64: dense number of each rollout's prompt text, for "grouped by prompt"
    padding     `[N]` bool: tokens that are padding by their id or text, for "padding counted"
    """

    params: Mapping[str, Any] = field(default_factory=dict)
    convention: str | None = None
    framework: str | None = None
    foreign: bool = False
    group: Tensor | None = None
    prompt: Tensor | None = None
    padding: Tensor | None = None


@dataclass(frozen=True, slots=True)
class Contradiction:
    """One setting of the configured convention that the recorded numbers contradict.

    name        of a parameter, or of a setting of the whitening after `whitening.`
    configured  what was configured, or the convention's own where nothing was said (`said` False)
    recorded    what the recorded numbers were made with
    """

    name: str
    configured: Any
    recorded: Any
    said: bool


@dataclass(frozen=True, slots=True)
class Candidate:
    """One way of computing advantages and how near the recorded ones it comes, over unmasked tokens.

    convention        name in the catalogue
    mistake           what has to be done wrong to get these numbers: `name` or `name:detail`; None: nothing
    matched           every compared rollout agrees within the precision of the recorded numbers
    rollouts_matched  of `rollouts` compared ones: with a recorded advantage and an unmasked token
    explanation       a sentence for a person
    whitening         "own": as the convention whitens; "none": before its whitening; "other": another kernel
    request           body of an estimate that shows these numbers as far as a request can (no mistakes)
    same_as           other conventions that are the same formula with the same settings
    failing           rollouts (places in the batch) that do not agree, the furthest off first, at most 20
    contradicts       settings that are not as configured: where the convention is the configured one
    proved            the mistake is the only reading that is left, and larger than what rounding can make.
                      False without a mistake, and for one that fits but has other readings
    """

    convention: str
    mistake: str | None
    matched: bool
    max_abs_error: float
    p99_abs_error: float
    rollouts_matched: int
    rollouts: int
    explanation: str
    whitening: Literal["own", "none", "other"]
    request: dict[str, Any]
    same_as: tuple[str, ...] = ()
    failing: tuple[int, ...] = ()
    contradicts: tuple[Contradiction, ...] = ()
    proved: bool = False


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """`candidates` best first. With `ambiguous`, those that the data cannot tell apart come first.

    precision         of the recorded numbers: float64, float32, bfloat16, float16 or decimals:N
    explanation       the verdict in a sentence
    deciding          ambiguous: what would tell the candidates apart, in a sentence
    deciding_rollout  ambiguous: the rollout of this batch (place in it) on which they differ most, if they do
    """

    recorded: Level
    verdict: Verdict
    candidates: tuple[Candidate, ...]
    precision: str
    explanation: str
    deciding: str | None = None
    deciding_rollout: int | None = None
