"""What the checks see of a batch: numpy arrays, one entry per rollout, read once."""

from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.configured import Configured
from storage.rollouts import Columns

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

#: Words in a file's `adv_estimator` that stand for estimators without prompt groups.
UNGROUPED = (
    "gae", "reinforce_plus_plus", "reinforce++", "remax", "ppo", "vtrace", "rae", "running", "reward_to_go",
    "td_error",
)  # fmt: skip
#: Rewards of a group that differ by less than this share of their size are equal but for float32 rounding.
ROUNDING = 2.4e-7


def groups_exist(how: str, group_no: Ints) -> bool:
    """The groups mean something. `how` the batch has its `group_id`: not when it is absent, or derived
    because
    rows without one stand alone and no row has a sibling."""
    if how == "absent":
        return False
    return how != "derived:alone" or np.unique(group_no).size < group_no.size


@dataclass(slots=True)
class Prompts:
    """Which rollouts have the same prompt, whatever their group id says; each `[B]`.

    number   equal for equal prompt texts, −1 without one
    other    the prompt differs from that of the group's first rollout
    stamped  it differs only in a time, a seed or a generated id
    grows    it differs because one of the two continues the other: turns of a conversation
    example  the number of a group with different prompts, and some of them
    """

    number: Ints
    other: Bools
    grows: Bools
    stamped: Bools
    example: tuple[int, list[str]] | None = None


def _no_prompts() -> Prompts:
    none = np.empty(0, dtype=bool)
    return Prompts(np.empty(0, dtype=np.int64), none, none, none)


def _no_columns() -> Columns:
    empty: dict[str, Any] = {field.name: np.empty(0) for field in fields(Columns)}
    return Columns(**{**empty, "components": {}, "known": {}})


@dataclass(slots=True)
class TokenFacts:
    """Sums over the tokens of each rollout, `[B]`; None where the field is not in the batch.

    masked_reward       Σ|r| on masked tokens, and trainable_reward Σr on the others
    masked_rewarded     masked tokens with a reward other than 0
    reward_field        which field these come from
    advantage, advantage_spread
                        mean of the recorded advantages over unmasked tokens, and their max − min
    bad                 field -> {"NaN" | "Infinity" | "-Infinity" | "null": tokens `[B]`}; null on masked
                        tokens is not counted, the others are wherever they stand
    """

    reward_field: str | None = None
    masked_reward: Floats | None = None
    masked_rewarded: Ints | None = None
    trainable_reward: Floats | None = None
    advantage: Floats | None = None
    advantage_spread: Floats | None = None
    bad: dict[str, dict[str, Ints]] = field(default_factory=dict)
    bad_on_mask: Ints | None = None


@dataclass(frozen=True, slots=True)
class Said:
    """A problem of the upload: about one row (`place` in the view, −1 where it is none of the batch's) or,
    with `row` None, about the file."""

    code: str
    field: str | None
    row: int | None
    place: int
    severity: str
    message: str


@dataclass(slots=True)
class View:
    """A batch of `B` rollouts in `G` prompt groups, in storage order.

    index      `[B]` number of the rollout in its batch
    group      `[B]` 0 … G−1, row of `group_ids`
    reward     `[B]`, NaN where there is none that can be used
    nonfinite  `[B]` object: "NaN", "Infinity", "-Infinity" or None
    scalars    field (or reward component) -> {"NaN" | "Infinity" | "-Infinity": places in the view}
    length, valid
               `[B]` response tokens and unmasked ones; −1 where no token field says so
    source     `[B]` 0 … S−1, row of `sources`; −1 where none is named
    advantage  `[B]` recorded per rollout (or the mean of the recorded tokens), NaN where none
    digest     `[B]` object: equal where everything recorded is equal
    texts, blank, characters
               `[B]` the response's text is there; has nothing but white space; its length
    truncated  `[B]` 1 cut off by the length limit, 0 not, −1 unknown
    grouped    the groups mean something (recorded or derived, not just cut for storage)
    facts      code of a finding -> what its `observe` gathered from the tokens
    columns    the light columns as stored (rank, micro_batch, rollout_id, segment, finish_reason, …), `[B]`
    longer_values
               place in the view -> critic values with an entry more than the response has tokens, of the
               first rollouts that have such a list among the fields that are kept as they are
    prompts    who was asked the same
    problems   what the reader said of the upload's rows
    files      names of the files that the rollouts come from
    split      the batch's split, None where none is named
    said       what the header says was configured, once a check has asked (`settings.said_by`)
    alone      the upload has no other batch, so what its file says of itself is about this one
    """

    index: Ints
    group: Ints
    group_ids: list[str]
    reward: Floats
    nonfinite: NDArray[np.object_]
    scalars: dict[str, dict[str, Ints]]
    length: Ints
    valid: Ints
    source: Ints
    sources: list[str]
    advantage: Floats
    digest: NDArray[np.object_]
    blank: Bools
    texts: Bools
    characters: Ints
    truncated: Ints
    grouped: bool
    fields: dict[str, str]
    header: dict[str, Any]
    tokens: TokenFacts
    facts: dict[str, Any] = field(default_factory=dict)
    columns: Columns = field(default_factory=_no_columns)
    longer_values: dict[int, Floats] = field(default_factory=dict)
    prompts: Prompts = field(default_factory=_no_prompts)
    problems: list["Said"] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    alone: bool = True
    split: str | None = None
    said: Configured | None = None

    @property
    def rollouts(self) -> int:
        return int(self.index.size)

    @property
    def groups(self) -> int:
        return len(self.group_ids)

    @property
    def scored(self) -> Bools:
        """`[B]` has a finite reward."""
        return np.isfinite(self.reward)

    @property
    def uses_groups(self) -> bool:
        """Groups are there, and not just single rollouts beside a critic or an estimator without groups."""
        if not self.grouped:
            return False
        named = str(self.header.get("adv_estimator", "")).lower()
        needless = self.fields.get("values") == "recorded" or any(word in named for word in UNGROUPED)
        return not (needless and 2 * int((self.sizes == 1).sum()) > self.groups)

    @property
    def live_groups(self) -> Bools:
        """`[G]` has a rollout that is not masked as a whole; the others only fill up the batch."""
        found: Bools = np.bincount(self.group[self.valid != 0], minlength=self.groups) > 0
        return found

    @property
    def sizes(self) -> Ints:
        """`[G]` rollouts per group."""
        return np.bincount(self.group, minlength=self.groups)


@dataclass(frozen=True, slots=True)
class GroupStatistics:
    """Of the finite rewards of each group, `[G]`; NaN where there are too few. `std` has ddof 1."""

    scored: Ints
    mean: Floats
    std: Floats
    low: Floats
    high: Floats

    @property
    def range(self) -> Floats:
        return self.high - self.low

    @property
    def constant(self) -> Bools:
        """At least two scored rollouts, all with the same reward (but for float32 rounding)."""
        size = np.maximum(np.abs(self.low), np.abs(self.high))
        with np.errstate(invalid="ignore"):
            return (self.scored >= 2) & (self.range <= ROUNDING * size)

    @property
    def differing(self) -> Bools:
        """At least two scored rollouts whose rewards differ."""
        return (self.scored >= 2) & ~self.constant


def group_statistics(reward: Floats, group: Ints, groups: int) -> GroupStatistics:
    """Two-pass statistics of `reward` `[B]` (NaN: not scored) by `group` `[B]` in 0 … groups−1."""
    scored = np.isfinite(reward)
    value, member = reward[scored], group[scored]
    count = np.bincount(member, minlength=groups)
    low, high = np.full(groups, np.inf), np.full(groups, -np.inf)
    np.minimum.at(low, member, value)
    np.maximum.at(high, member, value)
    low[count == 0] = high[count == 0] = np.nan
    with np.errstate(invalid="ignore", divide="ignore"):
        # The smallest reward as pivot: a constant group then has a mean and deviations that are exact.
        mean = low + np.bincount(member, value - low[member], minlength=groups) / count
        squares = np.bincount(member, (value - mean[member]) ** 2, minlength=groups)
        std = np.sqrt(np.where(count >= 2, squares / (count - 1), np.nan))
    return GroupStatistics(count, mean, std, low, high)
