"""Every known mistake, made by hand in plain loops, is named."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor

from estimators import Batch
from estimators.mistakes import MISTAKES
from estimators.reconcile import Hints, Reconciliation, Recorded, reconcile
from tests.estimators.reconcile_batches import generated
from tests.estimators.test_reconcile import WRONG

GAMMA, LAM = 0.97, 0.9
NO_HINTS = Hints()


def bare(seed: int = 3, **changes: Any) -> Batch:
    """Scores, masks and groups, nothing else."""
    fields = dict.fromkeys(
        ("values", "old_log_probs", "ref_log_probs", "sum_pi_squared", "reward_baseline", "rank")
    )
    changed: dict[str, Any] = {**fields, "components": {}, **changes}
    return replace(generated(seed, groups=4, size=5, width=12), **changed)


def critic(seed: int = 3, **changes: Any) -> Batch:
    """The same with values."""
    return bare(seed, values=generated(seed, groups=4, size=5, width=12).values, **changes)


def spans(batch: Batch) -> list[slice]:
    ends = batch.offsets.tolist()
    return [slice(first, last) for first, last in pairwise(ends)]


def on_tokens(batch: Batch, per_rollout: Sequence[float]) -> Tensor:
    return torch.tensor(per_rollout, dtype=torch.float64).repeat_interleave(batch.lengths)


def standard(scores: Sequence[float], groups: Sequence[int], ddof: int = 1, eps: float = 1e-6) -> list[float]:
    """Each score less the mean of its group, over its spread; 0 for one alone."""
    found = []
    for score, group in zip(scores, groups, strict=True):
        own = [each for each, of in zip(scores, groups, strict=True) if of == group]
        mean = sum(own) / len(own)
        if len(own) < 2:
            found.append(0.0)
            continue
        spread = (sum((each - mean) ** 2 for each in own) / (len(own) - ddof)) ** 0.5
        found.append((score - mean) / (spread + eps))
    return found


def whitened(values: Tensor, counted: Tensor, ddof: int = 1) -> Tensor:
    mean = values[counted].mean()
    squares = (values[counted] - mean).square().sum()
    return (values - mean) / (squares / (counted.sum() - ddof) + 1e-8).sqrt()


def gae(rewards: Tensor, values: Tensor, mask: Sequence[bool], reset: bool = False) -> list[float]:
    """Backwards over the unmasked tokens; a masked one has the number of the next. `reset`: each stretch of
    unmasked tokens for itself."""
    found, last, following = [0.0] * len(mask), 0.0, 0.0
    for t in reversed(range(len(mask))):
        if mask[t]:
            last = float(rewards[t]) + GAMMA * following - float(values[t]) + GAMMA * LAM * last
            following = float(values[t])
        elif reset:
            last = following = 0.0
        found[t] = last
    return found


def gae_of(batch: Batch, rewards: Tensor, mask: Tensor, reset: bool = False) -> Tensor:
    assert batch.values is not None
    parts = [gae(rewards[s], batch.values[s], mask[s].tolist(), reset) for s in spans(batch)]
    return torch.tensor([x for part in parts for x in part], dtype=torch.float64)


@dataclass(frozen=True)
class Made:
    """A batch with the advantages that somebody got wrong on it."""

    batch: Batch
    advantages: Tensor
    hints: Hints = NO_HINTS


def _masked_out(batch: Batch, rows: Sequence[int]) -> Batch:
    mask = batch.response_mask.clone()
    for row in rows:
        mask[spans(batch)[row]] = False
    return replace(batch, response_mask=mask)


def _left_out() -> Made:
    batch = _masked_out(bare(), (1, 7))
    kept = [row for row in range(26) if row not in (1, 7)]
    made = standard([float(batch.scores[row]) for row in kept], [int(batch.group[row]) for row in kept])
    by_row = dict(zip(kept, made, strict=True))
    return Made(batch, on_tokens(batch, [by_row.get(row, 0.0) for row in range(26)]))


def _unscored() -> Made:
    batch = bare(token_level_rewards=None)
    scores = batch.scores.clone()
    scores[[2, 9]] = torch.nan
    made = on_tokens(batch, standard(scores.nan_to_num(0.0).tolist(), batch.group.tolist()))
    return Made(replace(batch, scores=scores), made)


def _shifted_groups() -> Made:
    batch = _masked_out(bare(group=torch.arange(26) // 5), (1, 7))
    kept = [row for row in range(26) if row not in (1, 7)]
    groups = {row: place // 5 for place, row in enumerate(kept)}
    scores = standard([float(batch.scores[row]) for row in kept], [groups[row] for row in kept])
    by_row = dict(zip(kept, scores, strict=True))
    return Made(batch, on_tokens(batch, [by_row.get(row, 0.0) for row in range(26)]))


def _every_nth() -> Made:
    batch = bare(group=torch.arange(26) // 5)
    return Made(batch, on_tokens(batch, standard(batch.scores.tolist(), [row % 5 for row in range(26)])))


def _segments(last: bool) -> Made:
    rollout = [row // 2 for row in range(26)]
    batch = bare(group=torch.tensor([each // 4 for each in rollout]), rollout_id=torch.tensor(rollout))
    ends = {each: row for row, each in enumerate(rollout)}
    voting = sorted(ends.values()) if last else list(range(26))
    own = [ends[each] for each in rollout] if last else list(range(26))
    scores, eps = [float(batch.scores[row]) for row in voting], 1e-4 if last else 1e-6
    by_row = dict(
        zip(voting, standard(scores, [int(batch.group[row]) for row in voting], eps=eps), strict=True)
    )
    return Made(batch, on_tokens(batch, [by_row[row] for row in own]))


def _twice() -> Made:
    batch = bare()
    once = on_tokens(batch, standard(batch.scores.tolist(), batch.group.tolist()))
    return Made(batch, whitened(once, batch.response_mask))


def _by_part(name: str) -> Made:
    part = torch.arange(26) % 3
    changed: dict[str, Any] = {name: part}
    batch = replace(bare(), **changed)
    raw = on_tokens(batch, [score - 0.1 for score in batch.scores.tolist()])
    of, found = part.repeat_interleave(batch.lengths), torch.zeros_like(raw)
    for number in range(3):
        inside = of == number
        found[inside] = whitened(raw, inside & batch.response_mask)[inside]
    return Made(batch, found)


def _mask_of_neighbour() -> Made:
    batch = critic()
    rows = spans(batch)
    mask = batch.response_mask.clone()
    for row, span in enumerate(rows):
        theirs = batch.response_mask[rows[row - 1]].tolist()
        own = span.stop - span.start
        mask[span] = torch.tensor((theirs + [False] * own)[:own])
    return Made(batch, gae_of(batch, _rewards(batch), mask))


def _rewards(batch: Batch) -> Tensor:
    assert batch.token_level_rewards is not None
    return batch.token_level_rewards


def _ending_masked(batch: Batch) -> Batch:
    """Every other rollout ends with two masked tokens."""
    mask = batch.response_mask.clone()
    for span in spans(batch)[::2]:
        mask[span.stop - 2 : span.stop] = False
    return replace(batch, response_mask=mask)


def _on(batch: Batch, unmasked: bool) -> Tensor:
    rewards = torch.zeros(batch.tokens, dtype=torch.float64)
    for span, score in zip(spans(batch), batch.scores.tolist(), strict=True):
        places = [t for t in range(span.start, span.stop) if bool(batch.response_mask[t]) or not unmasked]
        rewards[places[-1]] = score
    return rewards


def _reward_moved(to_unmasked: bool) -> Made:
    batch = _ending_masked(critic())
    batch = replace(batch, token_level_rewards=_on(batch, not to_unmasked))
    used = _on(batch, to_unmasked)
    mask = batch.response_mask if to_unmasked else torch.ones_like(batch.response_mask)
    return Made(batch, gae_of(batch, used, mask))


def _mask_unseen(in_whitening: bool) -> Made:
    batch = critic()
    every = torch.ones_like(batch.response_mask)
    if in_whitening:
        return Made(batch, whitened(gae_of(batch, _rewards(batch), batch.response_mask), every))
    return Made(batch, gae_of(batch, _rewards(batch), every))


def _reset() -> Made:
    batch = critic()
    return Made(batch, gae_of(batch, _rewards(batch), batch.response_mask, reset=True))


def _by_prompt() -> Made:
    batch = bare()
    prompt = batch.group // 2
    made = on_tokens(batch, standard(batch.scores.tolist(), prompt.tolist()))
    return Made(batch, made, Hints(prompt=prompt))


def _population() -> Made:
    batch = bare()
    return Made(batch, on_tokens(batch, standard(batch.scores.tolist(), batch.group.tolist(), 0, 1e-4)))


def _coarse() -> Made:
    batch = bare(token_level_rewards=None)
    scores = (batch.scores * 3).tolist()
    rounded = torch.tensor(scores, dtype=torch.bfloat16).double().tolist()
    made = on_tokens(batch, standard(rounded, batch.group.tolist()))
    return Made(replace(batch, scores=torch.tensor(scores, dtype=torch.float64)), made)


MADE: dict[str, Callable[[], Made]] = {
    "prompt_grouping": _by_prompt,
    "stride_grouping:mod_5": _every_nth,
    "rejected_shift:5": _shifted_groups,
    "rejected_left_out": _left_out,
    "missing_as_zero": _unscored,
    "segments_counted": lambda: _segments(last=False),
    "segments_counted:last": lambda: _segments(last=True),
    "mask_ignored": lambda: _mask_unseen(in_whitening=False),
    "mask_ignored:whitening": lambda: _mask_unseen(in_whitening=True),
    "rank_whitening": lambda: _by_part("rank"),
    "rank_whitening:micro_batch": lambda: _by_part("micro_batch"),
    "whitened_twice": _twice,
    "reset_at_observations": _reset,
    "reward_on_last_response": lambda: _reward_moved(to_unmasked=False),
    "reward_on_last_unmasked": lambda: _reward_moved(to_unmasked=True),
    "other_mask:1": _mask_of_neighbour,
    "bf16_rewards": _coarse,
    "wrong_ddof:0": _population,
}


#: Labels that do not begin with the name of their mistake.
OF = {"rejected_left_out": "rejected_vote", "missing_as_zero": "rejected_vote", "other_mask": "mask_shifted"}
#: What is a framework's own way of doing it, so that a convention agrees without any mistake.
OWN_WAY = ("mask_ignored", "segments_counted", "whitened_twice")


def traced(made: Made) -> Reconciliation:
    return reconcile(made.batch, Recorded(made.advantages, True), made.hints)


@pytest.mark.parametrize("label", MADE)
def test_a_mistake_made_by_hand_is_named(label: str) -> None:
    found = traced(MADE[label]())
    agreeing = [each.mistake for each in found.candidates if each.matched]
    assert label in agreeing
    assert label in OWN_WAY or set(agreeing[: agreeing.index(label) + 1]) == {label}
    assert found.verdict == "match" or found.deciding


def test_every_known_mistake_is_made_by_hand() -> None:
    names = {label.split(":")[0] for label in (*MADE, *WRONG)}
    assert {OF.get(name, name) for name in names} == set(MISTAKES)


def test_rows_dealt_out_in_turn_are_said_to_be() -> None:
    first = traced(MADE["stride_grouping:mod_5"]()).candidates[0]
    assert "every 5th row of the file was put together" in first.explanation
    assert first.request["grouping"] == "group_id"
