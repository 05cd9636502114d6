"""One number per rollout under every whitening scope, side by side, from per-rollout moments alone.

What is whitened is either the reward itself (`source=reward`), so that "group" is GRPO's step and "batch" is
REINFORCE++'s, or an estimate's advantages before its own whitening (`source=advantage`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray

from app.figures import chosen as choosing
from app.figures.chosen import Chosen, Floats
from app.figures.figure import ESTIMATE, Option
from app.figures.kept import columns_of
from app.figures.subject import grouped, source_codes
from app.figures.wording import setting as setting_words
from app.figures.wording import stated
from estimators.moments import Moments
from estimators.refused import Refused
from estimators.whitening import Scope, Whitening, whiten_rollouts
from storage import estimates, rollouts, runs
from storage.database import ReadSession
from storage.models import Batch

SCOPES: tuple[str, ...] = ("none", "group", "batch", "data_source", "running")
LABELS = {
    "none": "raw",
    "group": "group",
    "batch": "batch",
    "data_source": "data source",
    "running": "running",
}
#: Options that every whitening figure has.
OPTIONS = {
    "estimate": ESTIMATE,
    "source": Option(
        "choice",
        "What is whitened; the default is the reward for estimators with one advantage per rollout, else the "
        "advantage.",
        None,
        ("reward", "advantage"),
    ),
    "unit": Option(
        "choice",
        "What counts once in a scope's mean and std; the default is the estimate's own, else each response.",
        None,
        ("token", "response"),
    ),
}


@dataclass(frozen=True, slots=True)
class Base:
    """What is whitened, `[B]` in storage order, and how.

    mean, m2, count  moments of each rollout's own values; count 0: it takes no part
    label            what it is, for a caption; `name`: the same in a word, for an axis
    history          moments of the run's earlier steps in the setting's unit; `no_history` why there are none
    why              there is nothing to whiten, and why
    """

    columns: rollouts.Columns
    mean: Floats
    m2: Floats
    count: Floats
    group: NDArray[np.int64] | None
    source: NDArray[np.int64] | None
    sources: list[str]
    setting: Whitening
    label: str
    name: str
    history: tuple[Moments, ...]
    no_history: str
    why: str | None = None

    @property
    def live(self) -> NDArray[np.bool_]:
        """`[B]` takes part."""
        return self.count > 0


def read_base(
    session: ReadSession, batch: Batch, options: Mapping[str, Any], *, earlier: bool = True
) -> Base:
    """What the options `estimate`, `source` and `unit` ask for; without `earlier` steps there is no running
    scope. Raises as `chosen.choose`."""
    chosen = choosing.choose(session, batch, options["estimate"])
    columns = columns_of(session, batch)
    source = options["source"] or _natural(chosen, columns)
    whitening = chosen.request.get("whitening") or {}
    known = {name: whitening[name] for name in ("ddof", "eps", "eps_placement") if name in whitening}
    own_unit = whitening.get("unit") if whitening.get("scope", "none") != "none" else None
    setting = replace(Whitening(**known), unit=options["unit"] or own_unit or "response")
    weight = _weights(columns, setting)
    if source == "reward":
        mean, m2, label = columns.reward, np.zeros(columns.rollouts), "rewards"
    else:
        mean, m2 = _raw(session, batch, chosen, columns)
        label = f"advantages before whitening of {stated(chosen)}" if chosen.estimate else chosen.label
    history, why_not = _earlier(session, batch, chosen, setting, source) if earlier else ((), "not asked for")
    live = np.isfinite(mean) & (weight > 0)
    codes, names = source_codes(columns)
    return Base(
        columns=columns,
        mean=np.where(live, mean, np.nan),
        m2=np.where(live & np.isfinite(m2), m2, 0.0),
        count=np.where(live, weight, 0.0),
        group=np.unique(columns.group_no, return_inverse=True)[1].astype(np.int64)
        if grouped(batch, columns)
        else None,
        source=np.where(codes < 0, len(names), codes) if names else None,
        sources=names,
        setting=setting,
        label=label,
        name="reward" if source == "reward" else "advantage",
        history=history,
        no_history=why_not,
        why=None if live.any() else _nothing(source, chosen),
    )


def _natural(chosen: Chosen, columns: rollouts.Columns) -> str:
    """An estimator that compares siblings has whitened within the group: there the reward is of interest."""
    per_token = chosen.estimate is not None and bool(chosen.estimate.per_token)
    return "advantage" if per_token or not np.isfinite(columns.reward).any() else "reward"


def _weights(columns: rollouts.Columns, setting: Whitening) -> Floats:
    """`[B]` tokens (or 1) that a rollout counts for: 1 where lengths are not known, 0 if all is masked."""
    tokens = np.where(columns.valid >= 0, columns.valid, np.where(columns.length >= 0, columns.length, 1))
    return tokens.astype(np.float64) if setting.unit == "token" else (tokens > 0).astype(np.float64)


def _raw(
    session: ReadSession, batch: Batch, chosen: Chosen, columns: rollouts.Columns
) -> tuple[Floats, Floats]:
    if chosen.estimate is None:
        return choosing.per_rollout(session, batch, chosen, columns), np.zeros(columns.rollouts)
    mean = choosing.column(session, chosen.estimate, columns, "advantage_raw")
    return mean, choosing.column(session, chosen.estimate, columns, "raw_m2")


def _nothing(source: str, chosen: Chosen) -> str:
    return (
        "no values recorded: reward."
        if source == "reward"
        else chosen.why or "no values recorded: advantages."
    )


def _earlier(
    session: ReadSession, batch: Batch, chosen: Chosen, setting: Whitening, source: str
) -> tuple[tuple[Moments, ...], str]:
    if source == "reward":
        return _reward_history(session, batch, setting)
    return _history(session, batch, chosen, setting)


def _history(
    session: ReadSession, batch: Batch, chosen: Chosen, setting: Whitening
) -> tuple[tuple[Moments, ...], str]:
    if chosen.estimate is None:
        return (), "no moments of earlier steps are kept for recorded advantages"
    key = estimates.moments_key(chosen.request)
    kept = estimates.history(session, batch.run_id, batch.split, batch.step, key, setting.unit, before=True)
    return tuple(Moments(*each) for each in kept), _why_no_history(batch, "this estimate")


def _reward_history(
    session: ReadSession, batch: Batch, setting: Whitening
) -> tuple[tuple[Moments, ...], str]:
    """Moments of the rewards of earlier steps, from their statistics: one reward counts once."""
    if setting.unit == "token":
        return (), "the rewards of earlier steps are kept by response only"
    # Several figures of one page ask; what a session reads is one snapshot.
    kept: dict[str, tuple[Moments, ...]] = session.info.setdefault("rewards of earlier steps", {})
    if batch.id not in kept:
        kept[batch.id] = tuple(_rewards_before(session, batch))
    return kept[batch.id], _why_no_history(batch, "rewards")


def _rewards_before(session: ReadSession, batch: Batch) -> list[Moments]:
    found = []
    steps = (
        [] if batch.step is None else runs.statistics_before(session, batch.run_id, batch.split, batch.step)
    )
    for statistics in steps:
        said = statistics.get("reward") or {}
        if said.get("n"):
            count = float(said["n"])
            found.append(Moments(count, float(said["mean"]), (said["std"] or 0.0) ** 2 * (count - 1)))
    return found


def _why_no_history(batch: Batch, what: str) -> str:
    if batch.step is None:
        return "the batch has no step"
    return f"the run has no earlier step with moments of {what}"


def under(base: Base, scope: str) -> Floats | None:
    """Every rollout's value under a scope, `[B]`, NaN where it takes no part; None without that scope."""
    ids = {"group": base.group, "data_source": base.source}.get(scope)
    if (scope in ("group", "data_source") and ids is None) or (scope == "running" and not base.history):
        return None
    setting = replace(base.setting, scope=cast(Scope, scope))
    mean, m2, count = (torch.from_numpy(part) for part in (base.mean, base.m2, base.count))
    try:
        members = None if ids is None else torch.from_numpy(ids)
        after = whiten_rollouts(mean, m2, count, members, setting, base.history)
    except Refused:
        return None
    found: Floats = after.numpy().astype(np.float64)
    return found


def why_not(base: Base, scope: str) -> str:
    """Why `under` gives None."""
    if scope == "group":
        return "the batch has no prompt groups"
    if scope == "data_source":
        return "no values recorded: data_source"
    if scope == "running" and not base.history:
        return base.no_history
    return "there are too few values for a std"


def how(base: Base) -> str:
    """What was whitened and how, for a caption."""
    return f"{base.label}, whitened {settings(base)}"


def settings(base: Base) -> str:
    """Unit, ddof and eps in words."""
    return setting_words({name: getattr(base.setting, name) for name in FIELDS})


FIELDS = ("unit", "ddof", "eps", "eps_placement")
