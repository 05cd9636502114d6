"""Correct advantages: by slow independent loops where there are any, by torch in float32 where a framework
computes in it, else by the estimators themselves."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from estimators import CONVENTIONS, ESTIMATORS, Batch, Refused, Request, estimate, missing
from tests.estimators.build import batch_of
from tests.truth import loops, single
from tests.truth.options import header_of, options_of
from tests.truth.shapes import KINDS, Row, only, rows_of

#: How recorded numbers were written.
WRITTEN = ("float64", "float32", "decimals", "per_rollout")
TOLD = ("all", "none", "estimator", "all")
TOKENS = ("token_level_rewards", "values", "old_log_probs", "ref_log_probs", "sum_pi_squared")


@dataclass(frozen=True, slots=True)
class Made:
    """One correct batch: rows with advantages in them, and what is true of it.

    advantages  per row, one number per token (or one, where `written` is "per_rollout")
    """

    convention: str
    seed: int
    kind: str
    options: dict[str, Any]
    written: str
    told: str
    rows: list[Row]
    header: dict[str, Any]
    advantages: list[list[float]] = field(default_factory=list)

    @property
    def name(self) -> str:
        said = f"{self.kind}, {self.written}, header {self.told}, {self.options or 'defaults'}"
        return f"{self.convention} seed {self.seed} ({said})"


def made(name: str, seed: int) -> Made | None:
    """The batch of that seed; None where the convention refuses its shape, or has nothing to say of it."""
    kind = KINDS[seed % len(KINDS)]
    several = options_of(name)
    random = np.random.default_rng([seed, len(several)])
    options = several[int(random.integers(len(several)))]
    written, told = (each[int(random.integers(len(each)))] for each in (WRITTEN, TOLD))
    convention = CONVENTIONS[name]
    request = Request.from_dict({"convention": name, "params": params_of(name, options)})
    rows = only(rows_of(kind, seed), fields_of(request))
    batch = batch_from(rows)
    if missing(batch, request):
        return None
    try:
        found = computed(name, rows, batch, request, written == "float32")
    except Refused:
        return None
    header = header_of(name, options) if told != "none" else {}
    if told == "estimator":
        header = {"adv_estimator": convention.estimator}
    advantages = recorded(rows, found, written)
    return Made(name, seed, kind, options, written, told, rows, header, advantages)


def params_of(name: str, options: dict[str, Any]) -> dict[str, Any]:
    """The configuration as a request of the convention takes it; what only chooses the convention is left."""
    convention = CONVENTIONS[name]
    own = {*convention.params.__dataclass_fields__, *convention.aliases, *convention.inert}
    nested = options.get("reward_norm")
    flat = options if "reward_norm" in own or not isinstance(nested, dict) else {**options, **nested}
    return {key: value for key, value in flat.items() if key in own}


def fields_of(request: Request) -> tuple[str, ...]:
    """The optional fields that the convention's trainer has."""
    needs = {*ESTIMATORS[request.estimator].needs}
    if request.estimator == "gdpo":
        needs.add("reward_components")
    if "token_level_rewards" not in needs and getattr(request.params, "masked_tokens", None) is not None:
        needs.add("token_level_rewards")
    if request.params.truncation != "keep":
        needs.add("truncated")
    return tuple(needs)


def batch_from(rows: Sequence[Row]) -> Batch:
    """The rows as the estimators take them."""
    more: dict[str, Any] = {
        name: [row[name] for row in rows]
        for name in (*TOKENS, "reward_baseline", "truncated", "data_source", "rank")
        if all(name in row for row in rows)
    }
    components = {
        name: [row["reward_components"][name] for row in rows]
        for name in rows[0].get("reward_components", {})
    }
    return batch_of(
        [row["response_mask"] for row in rows],
        [row["group_id"] for row in rows],
        [row["reward"] for row in rows],
        components,
        **more,
    )


def computed(name: str, rows: list[Row], batch: Batch, request: Request, narrow: bool) -> list[list[float]]:
    """Per row one number per token."""
    per_row = (single.advantages if narrow else loops.advantages)(name, rows, request)
    if per_row is not None:
        return [[value * m for m in row["response_mask"]] for row, value in zip(rows, per_row, strict=True)]
    if narrow:
        body = {**request.to_dict(), "precision": "float32"}
        request = Request.from_dict(body)
    result = estimate(batch, request)
    values = result.advantages.double()
    if not result.per_token:
        values = values.repeat_interleave(batch.lengths) * batch.response_mask
    return _rows(values, batch)


def _rows(values: Tensor, batch: Batch) -> list[list[float]]:
    return [part.tolist() for part in torch.split(values, batch.lengths.tolist())]


def recorded(rows: list[Row], found: list[list[float]], written: str) -> list[list[float]]:
    """The numbers as the file has them, put into the rows."""
    mask = [np.asarray(row["response_mask"]) > 0 for row in rows]
    alike = all(np.ptp(np.asarray(v)[m]) == 0 for v, m in zip(found, mask, strict=True) if m.any())
    kept = []
    for row, values, inside in zip(rows, found, mask, strict=True):
        if written == "float32":
            values = np.asarray(values, np.float32).astype(np.float64).tolist()
        elif written == "decimals":
            values = [round(value, 7) for value in values]
        if written == "per_rollout" and alike:
            value = np.asarray(values)[inside][0].item() if inside.any() else 0.0
            row["advantage"], values = value, [value]
        else:
            row["advantages"] = values
        kept.append(values)
    return kept
