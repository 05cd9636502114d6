"""Where each field of a batch comes from, and what would record the ones that are not there."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.ingest import FORMATS

#: Fields that views depend on, in the order in which a reader looks for them, and what they give.
SHOWN = {
    "group_id": "which rollouts are siblings",
    "reward": "one number per response",
    "reward_components": "the parts of the reward",
    "prompt": "text of the prompt",
    "response": "text of the response",
    "response_tokens": "text of every token",
    "response_ids": "id of every token",
    "response_mask": "which tokens are trained on",
    "token_level_rewards": "reward per token, after KL",
    "token_level_scores": "reward per token, before KL",
    "values": "the critic's V per token",
    "old_log_probs": "log p before the update",
    "ref_log_probs": "log p of the reference",
    "rollout_log_probs": "log p of the sampler",
    "entropies": "entropy per token",
    "advantages": "the trainer's advantage per token",
    "advantage": "the trainer's advantage per response",
    "returns": "the critic's target per token",
    "data_source": "the task",
    "ground_truth": "the right answer",
    "finish_reason": "why the response ended",
}

_CANONICAL = "add {field} to the rows that you write"
#: Format -> what a person would have to set or write to get a field recorded.
_REMEDIES = {
    "verl-jsonl": "trainer.rollout_data_dir writes text and score only; write canonical rows with {field} "
    "after compute_advantage",
    "trl-parquet": "log_completions=True writes text, rewards and one advantage; write canonical rows with "
    "{field} from the trainer's generation step",
}
_ABOUT = {known.name: known.about for known in FORMATS}


@dataclass(frozen=True, slots=True)
class FieldLine:
    """`kind`: "recorded", "derived" (by `rule`) or "absent"; `remedy`: what would record it."""

    name: str
    gives: str
    kind: str
    rule: str
    remedy: str


def field_lines(fields: Mapping[str, Any], format: str) -> tuple[FieldLine, ...]:
    """The known fields first, then whatever else the batch has."""
    others = [name for name in fields if name not in SHOWN and str(fields[name]) != "absent"]
    return tuple(line_of(name, str(fields.get(name, "absent")), format) for name in [*SHOWN, *sorted(others)])


def line_of(name: str, told: str, format: str) -> FieldLine:
    kind, _, rule = told.partition(":")
    remedy = remedy_of(name, format) if kind == "absent" else ""
    return FieldLine(name, SHOWN.get(name, ""), kind, rule, remedy)


def remedy_of(field: str, format: str) -> str:
    """How the field would come into the next file."""
    if format in _REMEDIES:
        return _REMEDIES[format].format(field=field)
    about = _ABOUT.get(format)
    if about is None:
        return _CANONICAL.format(field=field)
    known = about.absent.get(field, "").replace("`", "")
    return known or f"no setting of the trainer is known that records it; write canonical rows with {field}"


def is_there(fields: Mapping[str, Any], name: str) -> bool:
    return str(fields.get(name, "absent")) != "absent"
