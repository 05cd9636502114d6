"""The packed batch: the response tokens of all rollouts end to end, masked ones included. No padding."""

from dataclasses import dataclass, field, fields, replace
from typing import Any

import torch
from torch import Tensor

from estimators.masked import valid_counts

#: Per-token float fields a batch may carry, each `[N]`.
TOKEN_FIELDS = (
    "token_level_rewards",
    "token_level_scores",
    "kl",
    "values",
    "old_log_probs",
    "ref_log_probs",
    "rollout_log_probs",
    "sum_pi_squared",
    "next_values",
    "rollout_is_weights",
)
#: Optional numbers of a rollout a batch may carry, each `[B]`.
ROLLOUT_FIELDS = (
    "reward_baseline",
    "bootstrap_value",
    "truncated",
    "terminated",
    "index",
    "data_source",
    "rank",
    "micro_batch",
    "rollout_id",
    "segment",
    "prompt_length",
    "reward_nan",
)


@dataclass(frozen=True, slots=True)
class Batch:
    """`B` rollouts with `N` response tokens in all.

    offsets        `[B+1]` int64: rollout i owns tokens offsets[i]:offsets[i+1]
    response_mask  `[N]` bool: the policy chose the token and it is trained on
    group          `[B]` int64: dense number of the prompt group, 0 … G-1, in any order
    scores         `[B]` float64: one reward per rollout before any grouping; NaN where none was recorded
    token fields   `[N]` float, or None where not recorded; NaN for a rollout that lacks the field.
                   `token_level_scores` are the rewards before a KL penalty, `token_level_rewards` after it
    data_source    `[B]` int64 dense number of the task, or None; `rank`, `micro_batch`, `rollout_id` likewise
    segment        `[B]` int64 order of the segment within its rollout_id, or None
    prompt_length  `[B]` int64 tokens of the prompt, or None
    tasks          what each number of `data_source` stands for; empty where that does not matter
    index          `[B]` int64 place of the rollout in the file, or None: as they stand
    reward_baseline, bootstrap_value  `[B]` float64, NaN where not recorded, or None
    truncated, terminated             `[B]` bool, False where not recorded, or None
    reward_nan     `[B]` bool: NaN in `scores` is the recorded reward, not a missing one; None: never
    components     reward function -> `[B]` float64, NaN where not applicable
    lengths_known  False where no token field was recorded: each rollout then stands as one unmasked token
    """

    offsets: Tensor
    response_mask: Tensor
    group: Tensor
    scores: Tensor
    token_level_rewards: Tensor | None = None
    values: Tensor | None = None
    old_log_probs: Tensor | None = None
    ref_log_probs: Tensor | None = None
    rollout_log_probs: Tensor | None = None
    data_source: Tensor | None = None
    rank: Tensor | None = None
    components: dict[str, Tensor] = field(default_factory=dict)
    lengths_known: bool = True
    token_level_scores: Tensor | None = None
    kl: Tensor | None = None
    sum_pi_squared: Tensor | None = None
    next_values: Tensor | None = None
    rollout_is_weights: Tensor | None = None
    reward_baseline: Tensor | None = None
    bootstrap_value: Tensor | None = None
    truncated: Tensor | None = None
    terminated: Tensor | None = None
    index: Tensor | None = None
    micro_batch: Tensor | None = None
    rollout_id: Tensor | None = None
    segment: Tensor | None = None
    prompt_length: Tensor | None = None
    reward_nan: Tensor | None = None
    tasks: tuple[str, ...] = ()
    #: What was worked out from mask and offsets and is kept with the batch, by name. `replace` starts afresh.
    derived: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        rollouts, tokens = self.group.shape[0], self.response_mask.shape[0]
        if self.offsets.shape != (rollouts + 1,) or self.scores.shape != (rollouts,):
            raise ValueError(f"offsets and scores must be for {rollouts} rollouts")
        for name in TOKEN_FIELDS:
            value = getattr(self, name)
            if value is not None and value.shape != (tokens,):
                raise ValueError(f"{name} has shape {tuple(value.shape)}, response_mask has {tokens} tokens")
        for name in ROLLOUT_FIELDS:
            value = getattr(self, name)
            if value is not None and value.shape != (rollouts,):
                raise ValueError(f"{name} has shape {tuple(value.shape)}, there are {rollouts} rollouts")

    @property
    def rollouts(self) -> int:
        return int(self.group.shape[0])

    @property
    def tokens(self) -> int:
        return int(self.response_mask.shape[0])

    @property
    def lengths(self) -> Tensor:
        """Tokens per rollout, `[B]` int64, masked ones included."""
        return self.offsets[1:] - self.offsets[:-1]

    @property
    def unmasked(self) -> Tensor:
        """Unmasked tokens per rollout, `[B]` int64; kept with the batch."""
        found: Tensor | None = self.derived.get("unmasked")
        if found is None:
            found = self.derived["unmasked"] = valid_counts(self.response_mask, self.offsets)
        return found

    @property
    def trained(self) -> Tensor:
        """Which rollouts have an unmasked token, `[B]` bool: at once where the first token of each is one."""
        some = self.lengths > 0
        if "unmasked" in self.derived or not bool(self.response_mask[self.offsets[:-1][some]].all()):
            return self.unmasked > 0
        return some

    @property
    def rollout_of_token(self) -> Tensor:
        """Number of the rollout that owns each token, `[N]` int64."""
        return torch.repeat_interleave(torch.arange(self.rollouts, device=self.offsets.device), self.lengths)

    def to(self, device: torch.device | str) -> "Batch":
        """The same batch on another device."""
        moved: dict[str, Any] = {
            f.name: value.to(device)
            for f in fields(self)
            if isinstance(value := getattr(self, f.name), Tensor)
        }
        components = {name: value.to(device) for name, value in self.components.items()}
        return replace(self, **moved, components=components)
