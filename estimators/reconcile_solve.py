"""γ, λ and the coefficient of the KL penalty, read off the recorded advantages.

With A the raw advantages and rec = (A − c)/s recorded, a step of the recursion is linear in what is unknown:

    r_t − V_t = s·rec_t − γλs·rec_{t+1} − γ·V_{t+1} + c·(1 − γλ) [+ β·kl_t]

so least squares over neighbouring unmasked tokens give γ, λ, β and the whitening at once. Without a critic:
r_t = s·rec_t − γs·rec_{t+1} + c·(1 − γ).
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from estimators.masked import repeated, set_positions
from estimators.mistakes.mistake import Setup
from estimators.reconcile_recorded import View
from estimators.rewards import TokenRewardParams, token_kl, token_rewards

_MOST = 4096
_DIGITS = (2, 3, 4, 6)
_GAMMAS = (1.0, 0.99, 0.95, 0.9)
_LAMS = (1.0, 0.95, 0.9, 0.98, 0.97, 0.99, 0.8, 0.5, 0.0)


def settings(setup: Setup, view: View, grid: bool) -> Iterator[Any]:
    """The parameters to try for this setup: as given, then as solved; or those of a small grid."""
    params, seen = setup.params, [repr(setup.params)]
    if not grid:
        yield params
    if not hasattr(params, "gamma") or not isinstance(params, TokenRewardParams) or not view.informative:
        return
    for changed in _grid(params) if grid else solved(setup, view):
        if repr(changed) not in seen:
            seen.append(repr(changed))
            yield changed


def _grid(params: Any) -> Iterator[Any]:
    for gamma in _GAMMAS:
        for lam in _LAMS if hasattr(params, "lam") else (None,):
            yield replace(params, gamma=gamma) if lam is None else replace(params, gamma=gamma, lam=lam)


def solved(setup: Setup, view: View) -> Iterator[Any]:
    """Parameters that the recorded numbers fit, rounded and as solved."""
    batch, params = setup.batch, setup.params
    if not view.recorded.per_token or (hasattr(params, "masked_tokens") and batch.values is None):
        return
    columns = _columns(setup, view)
    if columns is None:
        return
    for gamma, lam, beta in _solutions(*columns, critic=hasattr(params, "masked_tokens")):
        known = {"gamma": gamma} | ({"lam": lam} if hasattr(params, "lam") else {})
        if beta is not None:
            known["kl_coef"] = beta
        if not all(0 <= value <= 1 + 1e-4 for value in known.values()):
            continue
        for digits in _DIGITS:
            yield replace(params, **{name: min(round(value, digits), 1.0) for name, value in known.items()})


def _columns(setup: Setup, view: View) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor | None] | None:
    """(r_t − V_t, rec_t, rec_{t+1}, V_{t+1}, kl_t) of neighbouring tokens that both are compared."""
    batch, params = setup.batch, setup.params
    mode = getattr(params, "masked_tokens", "skip" if setup.run is None else "plain")
    at = set_positions(batch.response_mask) if mode == "skip" else torch.arange(batch.tokens)
    owner = repeated(torch.arange(batch.rollouts), batch.lengths)
    here, there = at[:-1], at[1:]
    kept = (owner[here] == owner[there]) & view.taken[here] & view.taken[there]
    here, there = here[kept], there[kept]
    if here.shape[0] < 2:
        return None
    if here.shape[0] > _MOST:
        step = here.shape[0] // _MOST
        here, there = here[::step], there[::step]
    rewards = token_rewards(batch, params, torch.float64).double()
    values = batch.values.double() if batch.values is not None and hasattr(params, "masked_tokens") else None
    if mode == "zero":
        rewards = torch.where(batch.response_mask, rewards, 0.0)
        values = None if values is None else torch.where(batch.response_mask, values, 0.0)
    after = torch.zeros_like(rewards[there]) if values is None else values[there]
    now = rewards[here] - (0.0 if values is None else values[here])
    kl = _kl(setup)
    recorded = view.values.double()
    columns = now, recorded[here], recorded[there], after
    finite = torch.isfinite(torch.stack(columns)).all(dim=0)
    y, a, b, c = (column[finite] for column in columns)
    return y, a, b, c, None if kl is None else kl[here][finite]


def _kl(setup: Setup) -> Tensor | None:
    batch = setup.batch
    if getattr(setup.params, "kl_coef", 0) or (batch.kl is None and batch.ref_log_probs is None):
        return None
    if batch.kl is None and batch.old_log_probs is None:
        return None
    return token_kl(batch, setup.params)


def _solutions(
    y: Tensor, now: Tensor, then: Tensor, after: Tensor, kl: Tensor | None, critic: bool
) -> Iterator[tuple[float, float, float | None]]:
    """(γ, λ, β) of each model that fits: as recorded, whitened, with a KL penalty, with both."""
    ones = torch.ones_like(y)
    if _hopeless([now, then, ones, *([after] if critic else []), *([] if kl is None else [kl])], y, y - now):
        return
    for whitened in (False, True):
        for penalty in (None, kl) if kl is not None else (None,):
            columns = [-then, -after] if critic else [-then]
            target = y if whitened else y - now
            columns += [now, ones] if whitened else []
            columns += [] if penalty is None else [penalty]
            found = _least_squares(torch.stack(columns, dim=1), target)
            if found is None:
                continue
            scale = found[len(columns) - 2 - (penalty is not None)] if whitened else 1.0
            if scale == 0:
                continue
            product = found[0] / scale
            gamma = found[1] if critic else product
            lam = product / gamma if critic and gamma else (0.0 if critic else 1.0)
            yield gamma, lam, None if penalty is None else found[-1]


def _least_squares(columns: Tensor, target: Tensor) -> list[float] | None:
    """The solution where it explains the target, else None. Columns are scaled first; short ones give 0."""
    if columns.shape[0] < columns.shape[1] or not _finite(columns, target):
        return None
    size = columns.abs().amax(dim=0).clamp(min=1e-300)
    answer = torch.linalg.lstsq(columns / size, target.unsqueeze(1), driver="gelsd").solution.squeeze(1)
    error = (columns / size @ answer - target).abs().max()
    bound = 1e-4 * float(torch.maximum(target.abs().max(), (columns.abs()).max())) + 1e-12
    return (answer / size).tolist() if bool(error <= bound) else None


def _finite(*given: Tensor) -> bool:
    """Whether all are numbers: the solver raises where one is not."""
    return all(bool(torch.isfinite(each).all()) for each in given)


def _hopeless(columns: list[Tensor], target: Tensor, other: Tensor) -> bool:
    """Whether not even all columns together explain the target: then no model made of some of them does. The
    largest error of a model is no less than its mean square one, which is least with all columns."""
    every = torch.stack(columns, dim=1)
    if not _finite(every, target):
        return True
    if every.shape[0] <= every.shape[1]:
        return False
    size = every.abs().amax(dim=0).clamp(min=1e-300)
    answer = torch.linalg.lstsq(every / size, target.unsqueeze(1), driver="gelsd").solution
    error = (every / size @ answer).squeeze(1) - target
    largest = float(torch.stack([part.abs().max() for part in (every, target, other)]).max())
    return float(error.square().mean().sqrt()) > 1.01 * (1e-4 * largest + 1e-12)
