"""What the advantages of a formula obey on every batch: numbers that break it need not be computed again.

Most formulas that compare siblings give, inside each group, a line of the scores, a·s + b. Most recursions
over tokens are linear from one token to the next,

    A_t = γλ·A_{t+1} + (r_t − V_t) + γ·V_{t+1} − β·kl_t + c     (without a critic: A_t = γ·A_{t+1} + r_t + c)

and both stay so whatever whitening comes after. Which formulas do is found out once, on a batch of our own.
"""

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from estimators.batch import Batch
from estimators.estimator import Raw
from estimators.masked import repeated, segment_least
from estimators.mistakes.mistake import Setup
from estimators.reconcile_recorded import View
from estimators.reconcile_stack import stacked
from estimators.refused import Refused
from estimators.registry import ESTIMATORS
from estimators.rewards import TokenRewardParams, token_kl, token_rewards

#: Tokens of a rollout that are looked at, and how many more than unknowns there must be to tell.
STEPS, MORE = 192, 2
#: Groups whose scores lie closer together than this, in their own size, may hold rounding only.
CLOSE = 1e-2
_ROLLOUTS, _WIDTH, _TASKS = 24, 16, 2


@dataclass(frozen=True, slots=True)
class Rules:
    """per_token  the formula gives a number per token
    grouped    who is whose sibling matters
    lined      in every group, a line of the scores
    stepped    linear from one token to the next
    apart      rollouts of no common group do not touch each other's numbers
    """

    per_token: bool
    grouped: bool
    lined: bool
    stepped: bool
    apart: bool


_known: dict[str, Rules | None] = {}


def rules_of(estimator: str, params: Any, key: str) -> Rules | None:
    """The rules of an estimator with these parameters, `key` their name; None where it refuses our batch."""
    if key not in _known:
        _known[key] = _tried(estimator, params)
    return _known[key]


def _tried(estimator: str, params: Any) -> Rules | None:
    found = _on(_sounding(), estimator, params)
    if found is not None:
        return found
    # One that refuses tasks may keep each apart, so that a group has several lines.
    found = _on(replace(_sounding(), data_source=None), estimator, params)
    return None if found is None else replace(found, lined=False)


def _on(batch: Batch, estimator: str, params: Any) -> Rules | None:
    assert batch.values is not None
    regrouped = replace(batch, group=torch.arange(_ROLLOUTS) // 6)
    other = replace(regrouped, values=batch.values.flip(0), response_mask=batch.response_mask.flip(0))
    run = ESTIMATORS[estimator].run
    try:
        raw, again, third, both = (
            run(each, params, torch.float64) for each in (batch, regrouped, other, stacked([batch, other]))
        )
    except Refused:
        return None
    parts = torch.cat([raw.advantages, third.advantages])
    return Rules(
        raw.per_token,
        grouped=not torch.equal(raw.advantages, again.advantages),
        lined=_is_lined(batch, raw),
        stepped=_is_stepped(batch, estimator, params, raw),
        apart=bool(torch.allclose(both.advantages, parts, 1e-9, 1e-9, equal_nan=True)),
    )


def _sounding() -> Batch:
    """Four groups of six in a mixed order, tasks across them, several rewards a rollout, masked stretches."""
    draw = torch.Generator().manual_seed(11)
    tokens = _ROLLOUTS * _WIDTH

    def some(count: int) -> Tensor:
        return torch.rand(count, generator=draw, dtype=torch.float64)

    scores, place = some(_ROLLOUTS), torch.arange(tokens) % _WIDTH
    rewards = torch.where(place % 3 == 1, some(tokens), 0.0)
    return Batch(
        offsets=torch.arange(_ROLLOUTS + 1) * _WIDTH,
        response_mask=~((place > 8) & (place < 11)) | (torch.arange(tokens) % 5 == 0),
        group=torch.arange(_ROLLOUTS) * 7 % 4,
        scores=rewards.view(_ROLLOUTS, -1).sum(dim=1),
        token_level_rewards=rewards,
        token_level_scores=rewards,
        values=some(tokens),
        old_log_probs=-some(tokens),
        ref_log_probs=-some(tokens),
        rollout_log_probs=-some(tokens),
        sum_pi_squared=some(tokens),
        rollout_is_weights=some(tokens),
        reward_baseline=some(_ROLLOUTS),
        data_source=torch.arange(_ROLLOUTS) % _TASKS,
        components={"one": scores, "two": some(_ROLLOUTS)},
    )


def _is_lined(batch: Batch, raw: Raw) -> bool:
    if raw.per_token:
        return False
    away, y = _away_from_lines(batch.scores.numpy(), raw.advantages.numpy(), batch.group.numpy())
    return bool((away <= 1e-9 * max(float(np.abs(y).max()), 1e-300)).all())


def _is_stepped(batch: Batch, estimator: str, params: Any, raw: Raw) -> bool:
    if not raw.per_token or not isinstance(params, TokenRewardParams):
        return False
    found = _steps(Setup(batch, estimator, params), raw.advantages, batch.response_mask)
    size = raw.advantages.abs().max().clamp(min=1e-300)
    return found is not None and bool((found[1] <= 1e-9 * float(size)).all())


# Lines inside groups --------------------------------------------------------------------------------------


def broken_groups(scores: Tensor, group: Tensor, view: View, counted: Tensor) -> tuple[int, int]:
    """How many groups hold numbers that are no line of `scores` `[B]`, of how many that can tell."""
    recorded = view.values.double() if not view.recorded.per_token else view.per_rollout
    kept = counted & (view.counts > 0) & torch.isfinite(scores)
    if recorded is None or not bool(kept.any()):
        return 0, 0
    x, y, of = scores[kept].numpy(), recorded[kept].numpy(), group[kept].numpy()
    away, _ = _away_from_lines(x, y, of)
    allowed = view.precision.rtol * np.abs(y) + 2 * view.slack[kept].numpy()
    allowed = 2 * (allowed + view.precision.floor * np.abs(y).max())
    count = int(of.max()) + 1
    wrong = np.bincount(of, ~(away <= allowed), count) > 0
    telling = (np.bincount(of, minlength=count) > 2) & ~_rounded(x, of, count)
    return int((wrong & telling).sum()), int(telling.sum())


def _rounded(x: NDArray[np.float64], of: NDArray[np.int64], count: int) -> NDArray[np.bool_]:
    """Groups whose scores differ so little that a framework's single precision leaves noise of them."""
    low, high = np.full(count, np.inf), np.full(count, -np.inf)
    np.minimum.at(low, of, x)
    np.maximum.at(high, of, x)
    return np.asarray(high - low < CLOSE * np.maximum(np.abs(low), np.abs(high)))


def _away_from_lines(
    x: NDArray[np.float64], y: NDArray[np.float64], of: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """How far each `y` lies from the line through its group, and `y` from the mean of its group, `[B]`."""
    counts = np.maximum(np.bincount(of), 1)
    dx = x - (np.bincount(of, x) / counts)[of]
    dy = y - (np.bincount(of, y) / counts)[of]
    xx, xy = np.bincount(of, dx * dx), np.bincount(of, dx * dy)
    slope = np.divide(xy, xx, out=np.zeros_like(xx), where=xx > 0)
    return np.abs(dy - slope[of] * dx), dy


# Steps from token to token --------------------------------------------------------------------------------


def broken_steps(setup: Setup, view: View) -> bool:
    """Whether more than a tenth of the rollouts have numbers that no recursion over this setup gives."""
    taken = view.taken & setup.batch.response_mask
    found = _steps(setup, view.values, taken)
    if found is None:
        return False
    rollouts, away = found
    _, allowed, _ = view.centred
    # What each of two neighbours may be off.
    most = -segment_least(-allowed, view.batch.offsets)[rollouts]
    return int((away > 2.5 * most).sum()) > 0.1 * int((view.counts > 2).sum())


def step_key(params: TokenRewardParams) -> str:
    """What the steps of a setup depend on besides its batch."""
    names = [each.name for each in fields(TokenRewardParams)]
    return repr([getattr(params, name) for name in names]) + str(hasattr(params, "masked_tokens"))


def _steps(setup: Setup, values: Tensor, taken: Tensor) -> tuple[Tensor, Tensor] | None:
    """Rollouts with enough neighbouring tokens to tell, and the root mean squared error of the best step,
    each rollout with numbers of its own; None where there are none."""
    batch = setup.batch
    owner = repeated(torch.arange(batch.rollouts), batch.lengths)
    here = torch.nonzero(taken[:-1] & taken[1:] & (owner[:-1] == owner[1:])).squeeze(1)
    columns = _columns(setup, values, here)
    if columns is None or not here.numel():
        return None
    whose = owner[here]
    counts = torch.bincount(whose, minlength=batch.rollouts)
    place = torch.arange(here.shape[0]) - (torch.cumsum(counts, 0) - counts)[whose]
    enough = counts >= columns.shape[1] + MORE
    number = torch.cumsum(enough, 0) - 1
    kept = enough[whose] & (place < STEPS)
    if not bool(kept.any()):
        return None
    width = int(place[kept].max()) + 1
    stacked = torch.zeros((int(enough.sum()), width, columns.shape[1]), dtype=torch.float64)
    stacked[number[whose[kept]], place[kept]] = columns[kept]
    table = stacked.numpy()
    basis = np.linalg.qr(table[:, :, 1:])[0]
    target = table[:, :, :1]
    error = target - basis @ (basis.transpose(0, 2, 1) @ target)
    rms = np.sqrt((error**2).sum(axis=(1, 2)) / np.minimum(counts[enough].numpy(), width))
    return torch.nonzero(enough).squeeze(1), torch.from_numpy(rms)


def _columns(setup: Setup, values: Tensor, here: Tensor) -> Tensor | None:
    """Each step as a row: the number at a token, then what it is made of: the next one, 1, what is new."""
    batch, params = setup.batch, setup.params
    try:
        rewards = token_rewards(batch, params, torch.float64).double()
    except Refused:
        return None
    recorded = values.double()
    parts = [recorded[here], recorded[here + 1], torch.ones_like(here, dtype=torch.float64)]
    if hasattr(params, "masked_tokens") and batch.values is not None and setup.estimator != "reward_to_go":
        own = batch.values.double()
        parts += [own[here], own[here + 1]]
    parts.append(rewards[here])
    if not params.beta and _has_kl(batch):
        parts.append(token_kl(batch, params)[here])
    columns = torch.stack(parts, dim=1)
    return None if not bool(torch.isfinite(columns).all()) else columns


def _has_kl(batch: Batch) -> bool:
    return batch.kl is not None or (batch.old_log_probs is not None and batch.ref_log_probs is not None)
