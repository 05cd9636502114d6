"""Rows that were added to make a batch divisible: nothing to train on, no prompt, no reward.

They are no rollouts of the policy, so they are set aside from the statistics, and `empty_response` says so.
"""

from dataclasses import replace

import numpy as np

from app.findings.prompts import read_prompts
from app.findings.view import Bools, Floats, Ints, View
from storage.database import AnySession
from storage.models import Batch
from storage.rollouts import Columns


def fillers(view: View) -> Bools:
    """`[B]` which rollouts only fill up the batch; none where no prompts were read, or none are recorded."""
    return _which(view.prompts.number, view.valid, view.reward)


def fillers_of(session: AnySession, batch: Batch, columns: Columns) -> Bools:
    """The same of a batch that is there; read anew only where its statistics say that there are some."""
    if not batch.statistics.get("fillers"):
        return np.zeros(columns.rollouts, dtype=bool)
    number = read_prompts(session, batch.id, columns.index, columns.group_no).number
    return _which(number, columns.valid, columns.reward)


def _which(prompt: Ints, valid: Ints, reward: Floats) -> Bools:
    if prompt.size != valid.size or not (prompt >= 0).any():
        return np.zeros(valid.size, dtype=bool)
    found: Bools = (valid == 0) & (prompt < 0) & (np.nan_to_num(reward) == 0)
    return found


def without(view: View, left_out: Bools) -> View:
    """The numbers of the other rollouts and of their groups; what was read of tokens and texts is not cut."""
    kept = ~left_out
    groups, group = np.unique(view.group[kept], return_inverse=True)
    arrays = ("index", "reward", "nonfinite", "length", "valid", "source", "advantage", "truncated")
    own = {name: getattr(view, name)[kept] for name in arrays}
    return replace(
        view, **own, group=group.astype(np.int64), group_ids=[view.group_ids[i] for i in groups.tolist()]
    )


def sampled(view: View) -> View:
    """The view without the rows that only fill up the batch: see `without`."""
    aside = fillers(view)
    return without(view, aside) if aside.any() else view
