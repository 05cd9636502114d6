"""What a mistake is: a change to the batch, to the whitening or to the numbers, so that it combines with
every convention of the catalogue."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor

from estimators.batch import Batch
from estimators.estimator import Raw
from estimators.reconciliation import Hints
from estimators.shape import Shape
from estimators.whitening import Affine, Whitening

#: The name of what `once` keeps.
_CHANGED = "changed"
#: In place of an estimator's own `run`.
Run = Callable[[Batch, Any, torch.dtype], Raw]


@dataclass(frozen=True, slots=True)
class Setup:
    """What is computed: an estimator with its parameters on a batch. `run`: computed so instead."""

    batch: Batch
    estimator: str
    params: Any
    run: Run | None = None


@dataclass(frozen=True, slots=True)
class Input:
    """A mistake in what the estimator is given. `alter` gives None where it does not apply.

    rows  `alter` needs the whole batch (who is whose sibling …). Else it works rollout by rollout, also on a
          part of the batch.
    groups  it changes who is whose sibling and nothing else
    scores  it changes what the rewards of a rollout come to
    shared  it does the same to the batch whatever the formula
    settings  names of the parameters that are all it changes, if it changes no more
    mask_of  where all it changes is the mask: the mask of these rollouts `[M]` alone, from the whole batch
    """

    label: str
    text: str
    alter: Callable[[Setup], Setup | None]
    rows: bool = False
    groups: bool = False
    scores: bool = False
    shared: bool = False
    settings: tuple[str, ...] = ()
    mask_of: Callable[[Batch, Tensor], Tensor] | None = None


@dataclass(frozen=True, slots=True)
class Whiten:
    """A mistake in the whitening: from the moments of the raw advantages and the convention's own whitening
    to what is done to every rollout, `Affine` of `[B]` or `[1]`; None where it does not apply.

    ids  `[B]`: the scopes that the whitening has besides groups
    """

    label: str
    text: str
    affine: Callable[[Shape, Whitening], Affine | None]
    ids: Tensor | None = None


@dataclass(frozen=True, slots=True)
class Rescale:
    """What was done to the finished advantages: from computed and recorded numbers `[M]` that belong together
    to (label, text, factor, offset), or None where no such change makes them agree."""

    fit: Callable[[Tensor, Tensor], tuple[str, str, float, float] | None]


@dataclass(frozen=True, slots=True)
class Solve:
    """A mistake in one parameter that is read off the numbers: from what the formula gives some rollouts with
    the parameter 0, with it 1, and what is recorded of them, `[M]` each, to the mistake of having used the
    one that agrees; None where no one does."""

    setting: str
    solve: Callable[[Tensor, Tensor, Tensor], Input | None]


Variant = Input | Whiten | Rescale | Solve


@dataclass(frozen=True, slots=True)
class Mistake:
    """`name`: what labels begin with. `variants`: the ways of making it that this batch allows.

    beside_match  worth naming also where a convention does the very same without any mistake
    """

    name: str
    title: str
    variants: Callable[[Batch, Hints], Iterable[Variant]]
    beside_match: bool = False


def rows_changed(batch: Batch, **changes: Any) -> Batch:
    """`replace` for fields of rollouts: what was worked out from mask and offsets is kept."""
    changed = replace(batch, **changes)
    changed.derived.update({name: kept for name, kept in batch.derived.items() if name != _CHANGED})
    return changed


def once(setup: Setup, name: str, change: Callable[[Batch], Batch | None]) -> Setup | None:
    """The setup with its batch changed; None where the change does not apply. The last changed batch is kept
    with the one as it is: every formula asks for it in turn, and shares what is worked out of it."""
    batch = setup.batch
    own = [getattr(batch, each.name) for each in fields(Batch) if each.name != "derived"]
    kept: tuple[str, list[Any], Batch | None] | None = batch.derived.get(_CHANGED)
    if kept is None or kept[0] != name or any(a is not b for a, b in zip(kept[1], own, strict=True)):
        kept = batch.derived[_CHANGED] = name, own, change(batch)
    return None if kept[2] is None else replace(setup, batch=kept[2])


def in_file_order(batch: Batch) -> Tensor:
    """Place of each rollout in the file, 0 … B−1 without gaps, `[B]` int64."""
    if batch.index is None:
        return torch.arange(batch.rollouts, device=batch.group.device)
    return torch.argsort(torch.argsort(batch.index, stable=True), stable=True)


def dense(keys: Tensor) -> Tensor:
    """Dense numbers of equal entries of `keys` `[B]`, int64."""
    found: Tensor = torch.unique(keys, return_inverse=True)[1]
    return found


def same_partition(one: Tensor, other: Tensor) -> bool:
    """Whether two numberings `[B]` put the same rollouts together."""
    pairs = torch.unique(dense(one) * one.shape[0] + dense(other)).shape[0]
    return bool(pairs == torch.unique(one).shape[0] == torch.unique(other).shape[0])


def regrouped(label: str, text: str, group: Tensor) -> Input:
    """The mistake of comparing the rollouts of `group` `[B]` with each other."""

    def alter(setup: Setup) -> Setup | None:
        return once(setup, f"{label} {id(group)}", lambda batch: rows_changed(batch, group=group))

    return Input(label, text, alter, rows=True, groups=True, shared=True)


def another_mask(label: str, text: str, mask: Callable[[Batch], Tensor | None], key: str = "") -> Input:
    """The mistake of another mask `[N]`, worked out rollout by rollout; None where it is the same one.

    key  tells mistakes of one label apart
    """

    def made(batch: Batch) -> Batch | None:
        changed = mask(batch)
        return None if changed is None else replace(batch, response_mask=changed)

    return Input(label, text, lambda setup: once(setup, label + key, made), shared=True)


def with_params(label: str, text: str, rows: bool = True, **changes: Any) -> Input:
    """The mistake of other settings; applies where the estimator has all of them and one is different."""

    def alter(setup: Setup) -> Setup | None:
        if not all(hasattr(setup.params, name) for name in changes):
            return None
        if all(getattr(setup.params, name) == value for name, value in changes.items()):
            return None
        return replace(setup, params=replace(setup.params, **changes))

    return Input(label, text, alter, rows, settings=tuple(changes))
