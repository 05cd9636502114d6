"""Runs, batches, rollouts and groups."""

from typing import Any, Literal

from pydantic import ConfigDict, Field

from app.api.schemas.common import (
    Nonfinite,
    NonfiniteFields,
    Number,
    Numbers,
    Shape,
    Time,
    UncheckedItem,
)
from app.api.schemas.uploads import UploadProblem

Signal = Literal["mixed", "fail", "pass", "single", "unscored"]
Codes = dict[str, str]


class RunItem(Shape):
    id: str
    name: str
    created: Time
    batches: int
    rollouts: int
    tokens: int
    first_step: int | None
    last_step: int | None
    newest: float | None = Field(description="When its last batch was stored, in Unix seconds.")


class RunPage(Shape):
    items: list[RunItem]
    next: str | None
    total: int


class RunFindingItem(Shape):
    """A change over the steps of the run, with the numbers that prove it."""

    code: str = Field(examples=["signal_lost"])
    severity: Literal["critical", "warning", "info"]
    split: str | None
    title: str
    explanation: str
    remedy: str
    evidence: dict[str, Any]
    step: int | None = Field(description="Where it begins; null where it is of no one step.")
    batch: str | None = Field(description="The batch of that step.")


class RunDetail(RunItem):
    splits: list[str | None]
    findings: list[RunFindingItem] = Field(description="Worst first, from the steps' statistics.")
    unchecked: list[UncheckedItem] = Field(description="Checks of the run that could not be done.")


class StepItem(Shape):
    """A batch of the run. `reward`, `length` and `advantage` (recorded) have mean, std, min, max and
    quantiles."""

    batch: str
    step: int | None
    split: str | None
    newest: bool = Field(description="No later batch of this step and split is there.")
    format: str
    rollouts: int
    groups: int
    tokens: int
    created: Time
    reward: dict[str, Any] | None
    zero_signal_share: Number = Field(
        description="Groups whose rewards are all equal, of those with at least two scored rollouts."
    )
    signal: dict[str, Any] | None
    length: dict[str, Any] | None
    advantage: dict[str, Any] | None
    findings: Codes = Field(description="Code -> severity.", examples=[{"zero_variance_groups": "warning"}])


class StepPage(Shape):
    items: list[StepItem]
    next: str | None
    total: int


class BatchItem(Shape):
    id: str
    run: str
    run_id: str
    step: int | None
    split: str | None
    format: str
    rollouts: int
    groups: int
    tokens: int
    created: Time
    findings: Codes = Field(description="Code -> severity.")


class BatchPage(Shape):
    items: list[BatchItem]
    next: str | None
    total: int


class Provenance(Shape):
    """Where the batch comes from. `header` is what the file said of itself."""

    upload: str
    filename: str
    sha256: str
    header: dict[str, Any]


class BatchDetail(BatchItem):
    fields: dict[str, str] = Field(
        description="Field -> `recorded`, `derived:<rule>` or `absent`.",
        examples=[{"values": "recorded", "group_id": "derived:prompt", "ref_log_probs": "absent"}],
    )
    provenance: Provenance
    statistics: dict[str, Any]
    unchecked: list[UncheckedItem] = Field(description="Checks of the batch that could not be done.")
    problems: list[UploadProblem]
    problem_counts: dict[str, int]


class RolloutItem(Shape):
    """`advantage`: the mean of the chosen estimate over the unmasked tokens, else the recorded number."""

    index: int
    row: int
    group_no: int
    group_id: str
    data_source: str | None
    reward: Number
    nonfinite: NonfiniteFields
    length: int | None
    valid: int | None = Field(description="Tokens that response_mask counts.")
    finish_reason: str | None
    advantage: Number


class RolloutPage(Shape):
    items: list[RolloutItem]
    next: str | None
    total: int


class RolloutDetail(Shape):
    """A rollout with everything that was recorded of it. Arrays that were not recorded are not there."""

    model_config = ConfigDict(extra="forbid")

    batch: str
    index: int
    row: int
    file: str | None
    group_no: int
    group_id: str
    sample_index: int | None
    sample_id: str | None
    data_source: str | None
    prompt: str | None
    prompt_messages: list[Any] | None
    response: str | None
    messages: list[Any] | None
    reward: Number
    reward_components: dict[str, Number] | None
    advantage: Number
    length: int | None
    valid: int | None
    ground_truth: str | None
    finish_reason: str | None
    truncated: bool | None
    terminated: bool | None
    policy_version: int | None
    reward_baseline: Number
    bootstrap_value: Number
    rollout_id: str | None
    segment: int | None
    rank: int | None
    micro_batch: int | None
    extra: dict[str, Any] | None
    nonfinite: NonfiniteFields
    prompt_ids: list[int] | None = Field(None, description="Token ids of the prompt.")
    response_ids: list[int | None] | None = None
    response_tokens: list[str] | None = None
    response_mask: list[int] | None = None
    token_level_rewards: Numbers | None = None
    token_level_scores: Numbers | None = None
    values: Numbers | None = None
    old_log_probs: Numbers | None = None
    ref_log_probs: Numbers | None = None
    rollout_log_probs: Numbers | None = None
    entropies: Numbers | None = None
    advantages: Numbers | None = None
    returns: Numbers | None = None
    loss_weight: Numbers | None = None
    kl: Numbers | None = None
    sum_pi_squared: Numbers | None = None
    next_values: Numbers | None = None
    rollout_is_weights: Numbers | None = None


class Track(Shape):
    """Values `start` … `end` (not included) of a per-token array of `length` values. Texts are for
    response_tokens."""

    name: str
    start: int
    end: int
    length: int
    values: list[float | int | str | None]
    nonfinite: Nonfinite


class GroupItem(Shape):
    """Statistics of the scored rollouts of a prompt group. `total_abs`: Σ|A| under the estimate that was
    asked for."""

    group_no: int
    group_id: str
    data_source: str | None
    size: int
    scored: int
    mean: Number
    std: Number
    ddof: int
    min: Number
    max: Number
    signal: Signal = Field(description="`fail`, `pass`: all rewards are equal; `single`: only one is there.")
    total_abs: Number
    excerpt: str | None = Field(description="The beginning of the prompt.")


class GroupPage(Shape):
    items: list[GroupItem]
    next: str | None
    total: int


class Member(Shape):
    index: int
    row: int
    reward: Number
    length: int | None
    valid: int | None
    finish_reason: str | None
    advantage: Number


class GroupDetail(Shape):
    """A prompt group. `rewards` and `members` are in the same order."""

    group_no: int
    group_id: str
    data_source: str | None
    origin: str = Field(
        description="`recorded`, or the rule that made the group.", examples=["derived:prompt"]
    )
    size: int
    scored: int
    mean: Number
    std: Number
    ddof: int
    min: Number
    max: Number
    signal: Signal
    prompt: str | None
    messages: list[Any] | None
    rewards: list[Number]
    nonfinite: Nonfinite
    members: list[Member]


class FindingItem(Shape):
    """Something about the batch that a person should know, with the numbers that prove it."""

    code: str = Field(examples=["zero_variance_groups"])
    severity: Literal["critical", "warning", "info"]
    title: str
    explanation: str
    remedy: str
    evidence: dict[str, Any]
    groups: list[str]
    groups_total: int
    rollouts: list[int]
    rollouts_total: int
