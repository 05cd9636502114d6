"""Small batches, each with one thing in it on which conventions part: what would tell candidates apart."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace
from typing import Any

import torch
from torch import Tensor

from estimators.batch import ROLLOUT_FIELDS, TOKEN_FIELDS, Batch
from estimators.estimate import missing
from estimators.reconcile_found import Found
from estimators.refused import Refused
from estimators.registry import ESTIMATORS
from estimators.request import Request
from estimators.shape import Shape

_WIDTH = 6


def _batch(scores: Sequence[Sequence[float]], like: Batch) -> Batch:
    """Groups of rollouts with these scores, on the last token each, with the fields that `like` has."""
    count, sizes = sum(map(len, scores)), [len(group) for group in scores]
    tokens = count * _WIDTH
    wave = torch.sin(torch.arange(tokens, dtype=torch.float64) * 1.7)
    flat = torch.tensor([score for group in scores for score in group], dtype=torch.float64)
    rewards = torch.zeros(tokens, dtype=torch.float64)
    rewards[_WIDTH - 1 :: _WIDTH] = flat
    some: dict[str, Any] = {
        "token_level_rewards": rewards,
        "token_level_scores": rewards,
        "values": 0.4 + 0.3 * wave,
        "kl": 0.1 * wave.abs(),
        "old_log_probs": -1 - 0.5 * wave.abs(),
        "ref_log_probs": -1 - 0.4 * wave.cos().abs(),
        "rollout_log_probs": -1 - 0.5 * wave.abs(),
        "sum_pi_squared": 0.5 + 0.3 * wave,
        "rollout_is_weights": 1 + 0.1 * wave,
        "reward_baseline": torch.full((count,), 0.4, dtype=torch.float64),
        "bootstrap_value": torch.full((count,), 0.3, dtype=torch.float64),
        "truncated": torch.zeros(count, dtype=torch.bool),
        "terminated": torch.ones(count, dtype=torch.bool),
    }
    names = (*TOKEN_FIELDS, *ROLLOUT_FIELDS)
    there = {name: some[name] for name in names if name in some and getattr(like, name) is not None}
    return Batch(
        offsets=torch.arange(count + 1) * _WIDTH,
        response_mask=torch.ones(tokens, dtype=torch.bool),
        group=torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes)),
        scores=flat,
        components={name: flat for name in like.components},
        **there,
    )


_PLAIN = ((1.0, 0.1, 0.5, 0.25), (2.0, 0.5, 0.2, 0.75))


def _masked(batch: Batch, places: Sequence[int]) -> Batch:
    mask = batch.response_mask.clone()
    mask[list(places)] = False
    return replace(batch, response_mask=mask)


def _unscored(batch: Batch) -> Batch:
    changes: dict[str, Tensor] = {"scores": batch.scores.clone()}
    changes["scores"][0] = torch.nan
    for name in ("token_level_rewards", "token_level_scores"):
        value = getattr(batch, name)
        if value is not None:
            changes[name] = value.clone()
            changes[name][:_WIDTH] = torch.nan
    return replace(batch, **changes)  # type: ignore[arg-type] # tensors of the fields they replace


def _truncated(batch: Batch) -> Batch:
    cut = torch.zeros(batch.rollouts, dtype=torch.bool)
    cut[0] = True
    return replace(batch, truncated=cut, terminated=~cut)


_Probe = tuple[str, Callable[[Batch], Batch]]
PROBES: tuple[_Probe, ...] = (
    ("two groups of different spread", lambda like: _batch(_PLAIN, like)),
    ("a group of one rollout", lambda like: _batch((*_PLAIN, (0.7,)), like)),
    ("a reward of exactly 0", lambda like: _batch((*_PLAIN, (0.0, 0.4, 0.6, 0.9)), like)),
    ("groups of different sizes", lambda like: _batch((*_PLAIN, (0.7, 0.1), (0.3, 0.2, 0.9)), like)),
    ("a group whose rewards hardly differ", lambda like: _batch((*_PLAIN, (0.3, 0.30001, 0.3, 0.3)), like)),
    ("a group whose rewards are all equal", lambda like: _batch((*_PLAIN, (0.3,) * 4), like)),
    ("a group where one reward differs", lambda like: _batch((*_PLAIN, (1.0, 0.0, 0.0, 0.0)), like)),
    ("a group of negative rewards", lambda like: _batch((*_PLAIN, (-1.0, -0.5, -2.0, -0.1)), like)),
    ("a masked token between unmasked ones", lambda like: _masked(_batch(_PLAIN, like), (2, 9, 10))),
    ("a rollout whose last token is masked", lambda like: _masked(_batch(_PLAIN, like), (5, 10, 11))),
    ("a rollout without an unmasked token", lambda like: _masked(_batch(_PLAIN, like), range(_WIDTH))),
    ("a rollout without a reward", lambda like: _unscored(_batch(_PLAIN, like))),
    ("a rollout that was cut off", lambda like: _truncated(_batch(_PLAIN, like))),
)


def computed(found: Found, batch: Batch) -> Tensor | None:
    """What a candidate without its mistake gives on a probe, `[N]` or `[B]`; None where it refuses."""
    request = Request(found.convention.estimator, found.params, found.whitening)
    if missing(batch, request):
        return None
    try:
        raw = ESTIMATORS[request.estimator].run(batch, found.params, torch.float64)
        affine = Shape(batch, raw).whitened(found.whitening)
    except Refused:
        return None
    if affine is None:
        return None
    values = raw.advantages if raw.per_token else raw.advantages.repeat_interleave(batch.lengths)
    spread = (
        part if part.shape[0] == 1 else part.repeat_interleave(batch.lengths)
        for part in (affine.centre, affine.factor, affine.back)
    )
    centre, factor, back = spread
    return ((values - centre) * factor + back)[batch.response_mask]


def telling(candidates: Sequence[Found], like: Batch) -> Iterator[tuple[str, Found, Found]]:
    """What two of the candidates part on, and the two: the first one and the first that differs from it."""
    for text, make in PROBES:
        batch = make(like)
        first = computed(candidates[0], batch)
        for other in candidates[1:]:
            if not _same(first, computed(other, batch)):
                yield text, candidates[0], other
                break


def _same(one: Tensor | None, other: Tensor | None) -> bool:
    if one is None or other is None:
        return one is other
    if one.shape != other.shape:
        return False
    return bool(torch.allclose(one, other, rtol=1e-5, atol=1e-7, equal_nan=True))


def same_formula(one: Found, other: Found) -> bool:
    """Whether both are one computation on every batch: the settings are equal, one by one."""
    if one.convention.estimator != other.convention.estimator or one.whitening != other.whitening:
        return False
    return all(getattr(one.params, f.name) == getattr(other.params, f.name) for f in fields(one.params))
