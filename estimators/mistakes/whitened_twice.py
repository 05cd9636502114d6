"""Whitening what was whitened already."""

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from estimators.batch import Batch
from estimators.mistakes.group_split import parts
from estimators.mistakes.mistake import Mistake, Whiten, dense
from estimators.mistakes.rank_whitening import kernel
from estimators.moments import values_by_scope
from estimators.reconciliation import Hints
from estimators.shape import Shape, after, composed, of_all
from estimators.whitening import Affine, Whitening


def variants(batch: Batch, hints: Hints) -> Iterator[Whiten]:
    firsts: list[tuple[str, str, Tensor | None]] = [
        ("", "over the batch", None),
        (":group", "inside every group", batch.group),
    ]
    firsts += [
        (detail or ":rank", f"inside every {text}", dense(part)) for detail, text, part in parts(batch)
    ]
    if batch.data_source is not None:
        firsts.append((":data_source", "inside every task", batch.data_source))
    text = "divided by the spread of each group already, and whitened over the batch on top"
    yield Whiten("whitened_twice", text, _normalised)
    for detail, text, ids in firsts:
        if ids is None or int(ids.max()) > 0:
            label = f"whitened_twice{detail}"
            yield _twice(label, f"whitened {text}, and the result again over the batch", ids)


def _normalised(shape: Shape, own: Whitening) -> Affine | None:
    """Whitened over the batch, where the raw advantages have mean 0 and spread 1 in their groups already."""
    count, mean, _ = shape.moments
    kept = (count > 0) & torch.isfinite(mean)
    if own.scope != "none" or not bool(kept.any()):
        return None
    number, centre, squares = values_by_scope(
        mean[kept], shape.batch.group[kept], int(shape.batch.group.max()) + 1
    )
    live = (number > 1) & (squares > 0)
    spread = torch.minimum(
        (squares / number.clamp(min=1) - 1).abs(), (squares / (number - 1).clamp(min=1) - 1).abs()
    )
    if not bool(live.any()) or float((spread[live] < 1e-2).double().mean()) < 0.8:
        return None
    return shape.whitened(kernel(own)) if float(centre[live].abs().median()) < 1e-2 else None


def _twice(label: str, text: str, ids: Tensor | None) -> Whiten:
    def affine(shape: Shape, own: Whitening) -> Affine | None:
        setting = replace(kernel(own), scope="batch")
        first = shape.whitened(setting) if ids is None else shape.whitened_over(ids, setting)
        if first is None or bool((first.factor == 0).any()):
            return None
        count, mean, m2 = after(first, shape.moments)
        if setting.unit == "response":
            count, m2 = (count > 0).double(), torch.zeros_like(m2)
        return composed(first, of_all((count, mean, m2), setting))

    return Whiten(label, text, affine, ids)


MISTAKE = Mistake(
    "whitened_twice",
    "Advantages that are whitened already are whitened again.",
    variants,
    beside_match=True,
)
