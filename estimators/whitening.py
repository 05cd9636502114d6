"""Whitening: subtract a mean and divide by a spread, over a scope, whatever the advantages came from.

    out = (x − μ) · scale        scale = 1/(√var + ε), 1/√(var + ε) or 1/√max(var, ε)

A scope needs only counts, means and squared deviations, so those of rollouts merge into those of a group, a
task, a rank, a batch or a whole run (`moments`): another scope can be tried without going back to the tokens.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import torch
from torch import Tensor

from estimators.batch import Batch
from estimators.moments import Moments, by_scope, merge_all, merged
from estimators.parameters import About, read_settings
from estimators.refused import Refused

Scope = Literal["none", "group", "batch", "data_source", "rank", "running"]


@dataclass(frozen=True, slots=True)
class Whitening:
    """How to whiten. The default kernel is the one most frameworks share: ddof 1, 1e-8 under the root."""

    scope: Annotated[
        Scope, About("what shares one mean and spread; running: all steps so far and this one")
    ] = "none"
    unit: Annotated[
        Literal["token", "response"],
        About("what counts once: every unmasked token, or every rollout with its mean advantage"),
    ] = "token"
    ddof: Annotated[int, About("1 divides the squared deviations by n − 1, 0 by n", minimum=0, maximum=1)] = 1
    eps: Annotated[float, About("ε", minimum=0)] = 1e-8
    eps_placement: Annotated[
        Literal["added", "under_root", "floor"],
        About("ε added to the std, added to the variance, or the least the variance can be"),
    ] = "under_root"
    count_eps: Annotated[float, About("added to the count in mean and variance, as verl does", minimum=0)] = (
        0.0
    )
    scale: Annotated[bool, About("false subtracts the mean only")] = True
    shift_mean: Annotated[bool, About("false puts the mean back after scaling")] = True
    zero_masked: Annotated[
        bool, About("true sets masked tokens to 0, false leaves there what the framework leaves")
    ] = True
    mean_scope: Annotated[
        Literal["same", "none", "group", "batch", "cells"],
        About(
            "whose mean is subtracted, where not the scope's; the spread is then around that mean. cells: "
            "of the whole padded matrix, masked tokens and padding included"
        ),
    ] = "same"
    too_few: Annotated[
        Literal["refuse", "skip"],
        About("a batch with too few values for a spread: refused, or left as it is"),
    ] = "refuse"
    clip: Annotated[
        float | None, About("bound of the absolute advantage, after all else; null: none", minimum=0)
    ] = None

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> "Whitening":
        """From JSON; raises ValueError that names the field."""
        return read_settings(cls(), given, "whitening")


#: The kernels in use, by framework. Masked tokens hold the whitened remains of the recursion but in AReaL's.
W_VERL = Whitening("batch", count_eps=1e-8, zero_masked=False)
W_TRL = Whitening("batch", zero_masked=False)
W_POP = Whitening("batch", ddof=0, eps_placement="floor", zero_masked=False)
W_AREAL = Whitening("batch", eps=1e-5, eps_placement="added")
#: torchrl: the least the std can be is 1e-4.
W_TORCHRL = Whitening("batch", eps=1e-8, eps_placement="floor", zero_masked=False)


@dataclass(frozen=True, slots=True)
class Affine:
    """`(x − centre)·factor + back`, `[S]` float64 each: per scope, per rollout, or one for all."""

    centre: Tensor
    factor: Tensor
    back: Tensor

    def apply(self, values: Tensor) -> Tensor:
        """Of one value per scope, rollout …, in its own dtype."""
        centre, factor, back = (part.to(values.dtype) for part in (self.centre, self.factor, self.back))
        return (values - centre).mul_(factor).add_(back)

    def leaving(self, apart: Tensor) -> "Affine":
        """With nothing done to the rollouts `apart` `[B]` bool."""
        return Affine(
            torch.where(apart, 0.0, self.centre),
            torch.where(apart, 1.0, self.factor),
            torch.where(apart, 0.0, self.back),
        )


def affine_of(count: Tensor, mean: Tensor, m2: Tensor, setting: Whitening) -> Affine:
    """What the setting does to each scope with these moments, `[S]` each.

    A scope with too few values for a spread is centred only.
    """
    centre = mean * (count / (count + setting.count_eps).clamp(min=1e-300))
    squares = m2 + count * (mean - centre).square()
    room = count - setting.ddof
    bessel = torch.where(room > 0, count / room.clamp(min=1e-300), torch.nan)
    variance = squares / (count + setting.count_eps).clamp(min=1e-300) * bessel
    if setting.eps_placement == "added":
        divisor = variance.sqrt() + setting.eps
    elif setting.eps_placement == "under_root":
        divisor = (variance + setting.eps).sqrt()
    else:
        divisor = variance.clamp(min=setting.eps).sqrt()
    usable = (divisor > 0) & setting.scale
    factor = torch.where(usable, 1.0 / divisor, 1.0)
    return Affine(centre, factor, torch.zeros_like(centre) if setting.shift_mean else centre)


def scope_ids(batch: Batch, scope: Scope) -> Tensor | None:
    """The number of each rollout's scope, `[B]`, or None where all share one."""
    if scope == "group":
        return batch.group
    if scope in ("data_source", "rank"):
        ids: Tensor | None = getattr(batch, scope)
        if ids is None:
            raise Refused(f"Whitening over {scope} needs {scope} for every rollout, and this batch has none.")
        return ids
    return None


def rollout_affine(
    mean: Tensor,
    m2: Tensor,
    count: Tensor,
    ids: Tensor | None,
    setting: Whitening,
    history: Sequence[Moments] = (),
    groups: Tensor | None = None,
    of_cells: float | None = None,
) -> Affine:
    """What whitening does to each rollout, `[B]`, or to all, `[1]`: from the moments of their raw advantages.

    mean, m2, count  `[B]`: of the finite advantages on its unmasked tokens; count 0 takes no part
    ids              `[B]` scope numbers, None: all share one
    history          running scope: the moments of earlier steps, in the setting's unit; this batch is added
    groups, of_cells `[B]` group numbers, and the mean of the padded matrix, for a `mean_scope` of that name

    Raises Refused where all share one scope and it has too few values for a spread.
    """
    if setting.unit == "response":
        m2, count = torch.zeros_like(m2), (count > 0).double()
    if setting.mean_scope != "same":
        return _around_other_means((count, mean, m2), ids, groups, setting, of_cells)
    if ids is None:
        whole = merged(mean, m2, count)
        if setting.scope == "running":
            whole = merge_all([*history, whole])
        if whole.count <= setting.ddof and setting.too_few == "skip":
            return Affine(mean.new_zeros(1), mean.new_ones(1), mean.new_zeros(1))
        _enough(whole, setting)
        _within(setting, whole.m2, whole.mean)
        count, mean, m2 = (mean.new_full((1,), part) for part in (whole.count, whole.mean, whole.m2))
        return affine_of(count, mean, m2, setting)
    scopes = int(ids.max()) + 1 if ids.numel() else 1
    total, centre, squares = by_scope(mean, m2, count, ids, scopes)
    spoilt = torch.isnan(centre)
    _within(setting, float(squares[~spoilt].sum()), 0.0)
    affine = affine_of(total, centre, squares, setting)
    return Affine(affine.centre[ids], affine.factor[ids], affine.back[ids])


def _around_other_means(
    parts: tuple[Tensor, Tensor, Tensor],
    ids: Tensor | None,
    groups: Tensor | None,
    setting: Whitening,
    of_cells: float | None,
) -> Affine:
    """Centred by `mean_scope`, over the spread around that centre in the scope (AReaL's levels, SkyRL)."""
    count, mean, m2 = parts
    mean, m2 = torch.where(count > 0, mean, 0.0), torch.where(count > 0, m2, 0.0)
    everyone = torch.zeros(mean.shape[0], dtype=torch.int64, device=mean.device)
    if (setting.mean_scope, groups) == ("group", None) or (setting.mean_scope, of_cells) == ("cells", None):
        raise Refused("This mean_scope needs the tokens and groups of the batch, and they are not at hand.")
    level = groups if setting.mean_scope == "group" and groups is not None else everyone
    centre = torch.full_like(mean, of_cells or 0.0)
    if setting.mean_scope in ("group", "batch"):
        centre = by_scope(mean, m2, count, level, int(level.max()) + 1 if level.numel() else 1)[1][level]
    scope = everyone if ids is None else ids
    size = int(scope.max()) + 1 if scope.numel() else 1
    total = mean.new_zeros(size).index_add_(0, scope, count)
    squares = mean.new_zeros(size).index_add_(0, scope, m2 + count * (mean - centre).square())
    # All of the spread is around 0 now: `affine_of` only has to divide.
    factor = affine_of(total, torch.zeros_like(total), squares, setting).factor[scope]
    return Affine(centre, factor, torch.zeros_like(centre) if setting.shift_mean else centre)


def _within(setting: Whitening, squares: float, mean: float) -> None:
    """Refuses where the squares overflow, but not where the mean is not finite: that was recorded so."""
    if setting.scale and math.isfinite(mean) and not math.isfinite(squares):
        raise Refused(
            "The squares of the advantages overflow: their spread is beyond what double precision holds. "
            "Clip or rescale what they come from, or ask for the scope none."
        )


def _enough(whole: Moments, setting: Whitening) -> None:
    if whole.count > setting.ddof:
        return
    unit = "unmasked token" if setting.unit == "token" else "response"
    unit += "s" if setting.ddof else ""
    raise Refused(
        f"Whitening over the {setting.scope} needs at least {setting.ddof + 1} {unit} with an advantage; "
        f"there {'is' if whole.count == 1 else 'are'} {whole.count:g}. Ask for the scope none."
    )


def whiten_rollouts(
    mean: Tensor,
    m2: Tensor,
    count: Tensor,
    ids: Tensor | None,
    setting: Whitening,
    history: Sequence[Moments] = (),
) -> Tensor:
    """Every rollout's mean advantage under another whitening, `[B]` float64, from per-rollout moments alone.

    Arguments as in `rollout_affine`; NaN for a rollout of count 0.
    """
    mean, m2, count = mean.double(), m2.double(), count.double()
    known = torch.where(count > 0, mean, torch.nan)
    if setting.scope == "none" or not mean.numel():
        return known
    return rollout_affine(mean, m2, count, ids, setting, history).apply(known)
