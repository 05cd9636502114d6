"""Whose tokens the loss listens to: each rollout's share of the gradient under a way of averaging.

A token's share of the gradient is its weight in the loss times |A|, as long as no ratio is clipped; without
advantages it is its weight in the loss.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from app.figures import chosen as choosing
from app.figures.chosen import Chosen, Floats
from app.figures.figure import ESTIMATE, Option
from app.figures.kept import columns_of
from estimators.loss_weights import LOSS_MODES, Counts, LossMode
from storage.database import ReadSession
from storage.models import Batch
from storage.rollouts import Columns

DEFAULT = "token-mean"
#: Options that say which loss is meant.
OPTIONS = {
    "estimate": ESTIMATE,
    "mode": Option(
        "choice",
        "How the loss is averaged; default: what the file's header says, else token-mean.",
        None,
        tuple(LOSS_MODES),
    ),
    "scale": Option(
        "number",
        "The constant W of the modes that divide by one; default: the longest response of the batch.",
        None,
        least=1e-9,
    ),
}


@dataclass(frozen=True, slots=True)
class Loss:
    """What is known before a mode is chosen, `[B]` in storage order.

    tokens     unmasked tokens L_i; 0 where there are none
    size       Σ|A| over them; None without advantages
    direction  mean advantage, NaN where there is none
    width      the longest response, masked tokens included
    why        there is nothing to weigh, and why
    """

    columns: Columns
    chosen: Chosen
    tokens: NDArray[np.int64]
    size: Floats | None
    direction: Floats
    width: float
    why: str | None = None


def read_loss(session: ReadSession, batch: Batch, options: Mapping[str, Any]) -> Loss:
    """Raises as `chosen.choose`."""
    columns = columns_of(session, batch)
    chosen = choosing.choose(session, batch, options["estimate"], per_token=True)
    tokens = np.maximum(np.where(columns.valid >= 0, columns.valid, columns.length), 0)
    direction = choosing.per_rollout(session, batch, chosen, columns)
    size = None if chosen.why is not None else _size(session, batch, chosen, columns, direction, tokens)
    why = (
        None
        if tokens.any()
        else "no values recorded: response tokens, so what the loss averages over is not known."
    )
    return Loss(columns, chosen, tokens, size, direction, float(max(columns.length.max(initial=1), 1)), why)


def _size(
    session: ReadSession,
    batch: Batch,
    chosen: Chosen,
    columns: Columns,
    direction: Floats,
    tokens: NDArray[np.int64],
) -> Floats:
    """Σ|A| over the unmasked tokens of each rollout; 0 where it has no advantage."""
    if chosen.estimate is not None:
        found = choosing.column(session, chosen.estimate, columns, "total_abs")
        # One number per rollout: it stands at each of its unmasked tokens.
        found = found if chosen.estimate.per_token else np.abs(direction) * tokens
        return np.nan_to_num(found, posinf=0.0, neginf=0.0)
    read = None if chosen.field is None else choosing.tokens(session, batch, chosen.field)
    if read is None:
        return np.nan_to_num(np.abs(direction) * tokens, posinf=0.0)
    values, lengths, mask = read
    sizes = np.where(mask & np.isfinite(values), np.abs(values), 0.0)
    owner = np.repeat(np.arange(columns.rollouts), lengths)
    return np.bincount(owner, sizes, minlength=columns.rollouts).astype(np.float64)


def mode_of(batch: Batch, asked: Any) -> LossMode:
    """What is asked for, else what the file says of itself, else the default."""
    told = batch.header.get("loss_agg_mode")
    name = asked or (told if isinstance(told, str) and told in LOSS_MODES else DEFAULT)
    return LOSS_MODES[str(name)]


def token_weights(loss: Loss, mode: LossMode, scale: float | None = None) -> Floats:
    """Weight of one unmasked token of each rollout in the loss, `[B]`; 0 where it has none."""
    _, groups = np.unique(loss.columns.group_no, return_inverse=True)
    counts = Counts(
        torch.from_numpy(loss.tokens.astype(np.float64)),
        torch.from_numpy(groups.astype(np.int64)),
        loss.width if scale is None else float(scale),
    )
    weight = torch.as_tensor(mode.weight(counts), dtype=torch.float64)
    spread: Floats = torch.broadcast_to(weight, counts.lengths.shape).numpy()
    weights: Floats = np.where(loss.tokens > 0, spread, np.float64(0.0))
    return weights


def shares(loss: Loss, weights: Floats) -> Floats:
    """Each rollout's share of the gradient, `[B]`; all 0 where every advantage is 0."""
    amount = weights * (loss.tokens if loss.size is None else loss.size)
    total = float(amount.sum())
    return amount / total if total > 0 else np.zeros_like(amount)


def effective(share: Floats) -> float:
    """So many equally heavy responses would be as uneven: 1 / Σ share²."""
    return float(1.0 / np.square(share).sum()) if share.any() else 0.0
