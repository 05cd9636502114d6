"""Rollouts that differ in their reward components and are told apart by nothing in their sum.

* Cancelled: in a group the components differ and the total does not, so it has no signal although the
  components have (right without the format, wrong with it).
* Merged: in groups with a signal, rollouts with different components have the same total.

Components that never differ in the batch do not count. Said where cancelled groups are at least a tenth of
the groups (and two, or all there are), or where at least half of all pairs of siblings with different
components have the same total. warning; critical where every group is cancelled.

A tenth is more than a rare coincidence of a batch, and less than what any filter of constant groups would
hide.

Seen as: no signal in spite of busy components, multi-reward runs that learn one reward only, the motivation
of GDPO (verl-recipe#125, trl#5233, open-r1#213, gym-anything#38).

Remedy: what tells these rollouts apart on this batch, of two that are tried: each component normalised within
the group and then added (GDPO), and the component that judges the answer at twice its weight. GDPO does not
where two components of equal weight cancel: their z-scores cancel, too.

Evidence: `cancelled_groups`, `compared_groups`, `pairs_of_equal_total`, `pairs_of_different_components`,
`share_of_pairs`, `example` (two rollouts by component, and their total), `tried` (by remedy: `helps`, in how
many of the named `groups` it tells rollouts apart, the `largest_advantage` there, and in how many better
answers would get less than worse ones, `groups_against_the_answer`).
"""

from typing import Any

import numpy as np

from app.findings import components, remedies
from app.findings.finding import Finding, report
from app.findings.remedies import Tried
from app.findings.view import ROUNDING, Floats, Ints, View, group_statistics
from app.formatting import number, percent, plural

SHARE, PAIRS = 0.1, 0.5
LEAST_PAIRS = 8


def check(view: View) -> dict[str, Any] | None:
    raw = view.columns.components
    if len(raw) < 2 or not view.grouped:
        return None
    names = [name for name, values in raw.items() if np.unique(values[np.isfinite(values)]).size > 1]
    table = np.stack([raw[name] for name in names], axis=1) if names else np.empty((view.rollouts, 0))
    rows = np.flatnonzero(view.scored & np.isfinite(table).all(axis=1) & (view.valid != 0))
    if len(names) < 2 or rows.size < 2:
        return None
    kind, total = _kinds(table[rows]), _kinds(view.reward[rows, None])
    group = view.group[rows]
    different, merged = _pairs(group, kind, total, view.groups)
    groups = group_statistics(view.reward, view.group, view.groups)
    cancelled = np.flatnonzero(groups.constant & (different > 0))
    compared = int((groups.scored >= 2).sum())
    many = cancelled.size > 0 and cancelled.size >= max(SHARE * compared, min(2, compared))
    pairs, equal = int(different.sum()), int(merged.sum())
    if not many and not (pairs >= LEAST_PAIRS and equal >= PAIRS * pairs):
        return None
    concerned = cancelled if many else np.flatnonzero(merged > 0)
    return _report(view, (names, table, rows, total), concerned, cancelled, compared, pairs, equal, many)


def _kinds(values: Floats) -> Ints:
    """`[R]` equal numbers for equal rows, but for float32 rounding."""
    scale = np.abs(values).max(axis=0, initial=0.0)
    unit = np.where(scale > 0, ROUNDING * scale, 1.0)
    _, found = np.unique(np.round(values / unit / 4), axis=0, return_inverse=True)
    return found.reshape(-1).astype(np.int64)


def _pairs(group: Ints, kind: Ints, total: Ints, groups: int) -> tuple[Ints, Ints]:
    """`[G]` pairs of siblings with different components, and those of them with the same total."""

    def same(*keys: Ints) -> Ints:
        _, first, counts = np.unique(np.stack(keys), axis=1, return_index=True, return_counts=True)
        found: Ints = np.zeros(groups, dtype=np.int64)
        np.add.at(found, group[first], counts * (counts - 1) // 2)
        return found

    equal_kind = same(group, kind)
    return same(group) - equal_kind, same(group, total) - same(group, total, kind)


def _report(
    view: View,
    read: tuple[list[str], Floats, Ints, Ints],
    concerned: Ints,
    cancelled: Ints,
    compared: int,
    pairs: int,
    equal: int,
    many: bool,
) -> dict[str, Any]:
    names, table, rows, total = read
    tried = _tried(view, names, table[rows], rows, concerned)
    one, other = _example(view, table, rows, total, int(concerned[0]))
    what = (
        f"In {cancelled.size} of {plural(compared, 'group')} the components differ and their sum does not: "
        "no signal."
        if many
        else f"{percent(equal, pairs)} of the siblings with different components ({plural(equal, 'pair')}) "
        "have the same total."
    )
    return report(
        view,
        "critical" if cancelled.size == compared else "warning",
        what,
        explanation="Only the sum reaches the advantage: what is right without the format and what is wrong "
        f"with it count the same (total {number(float(view.reward[one]))}), so the step cannot "
        "prefer either.",
        remedy=remedies.advice(
            tried, "Decide which outcome counts more, and give the components rewards that say so."
        ),
        evidence={
            "cancelled_groups": cancelled.size,
            "compared_groups": compared,
            "pairs_of_equal_total": equal,
            "pairs_of_different_components": pairs,
            "share_of_pairs": equal / pairs if pairs else None,
            "example": {
                f"rollout {view.index[place]}": dict(zip(names, table[place], strict=True))
                for place in (one, other)
            },
            "tried": remedies.numbers_of(tried),
        },
        groups=concerned,
        rollouts=rows[np.isin(view.group[rows], concerned)],
    )


def _tried(view: View, names: list[str], values: Floats, rows: Ints, concerned: Ints) -> list[Tried]:
    """Other rewards of the rollouts `rows` `[R]` with components `values` `[R, K]`."""
    group, reward = view.group[rows], view.reward[rows]
    centred = components.centre(values, group, view.groups)
    total = components.centre(reward[:, None], group, view.groups)[:, 0]
    found = components.weigh(centred, total)
    weights = np.ones(len(names)) if found is None else found
    main, named = components.main_of(names, weights * centred.std(axis=0))
    judged = centred[:, main] * np.sign(weights[main] or 1.0) if named else np.zeros(rows.size)
    doubled = remedies.standardised(reward + weights[main] * values[:, main], group, view.groups)
    kind, among = _kinds(values), np.isin(np.arange(view.groups), concerned)
    _, before = _pairs(group, kind, _kinds(reward[:, None]), view.groups)
    ways = {
        "gdpo": ("Normalise each component within its group and add then (GDPO)", "it would give"),
        "double_weight": (f"Count {names[main]} twice", "a z-score of the group would give"),
    }
    made = []
    for name, scores in (
        ("gdpo", remedies.gdpo(values, weights, group, view.groups)),
        ("double_weight", doubled),
    ):
        _, after = _pairs(group, kind, _kinds(scores[:, None]), view.groups)
        better = among & (after < before)
        wrong = int((remedies.against(scores, judged, group, view.groups) & among).sum())
        largest = float(np.abs(scores[better[group]]).max(initial=0.0))
        what, gives = ways[name]
        sentence = (
            f"{what}: {gives} up to ±{number(largest)} in {int(better.sum())} of "
            f"{plural(concerned.size, 'such group')} and tell these rollouts apart."
        )
        numbers = {"groups": int(better.sum()), "of": concerned.size, "largest_advantage": largest}
        helps = 2 * int(better.sum()) >= concerned.size and not wrong
        made.append(Tried(name, helps, sentence, {**numbers, "groups_against_the_answer": wrong}))
    return made


def _example(view: View, table: Floats, rows: Ints, total: Ints, group: int) -> tuple[int, int]:
    """Two places of the group with different components and one total."""
    mine = np.flatnonzero(view.group[rows] == group)
    kind = _kinds(table[rows])
    for one in mine.tolist():
        for other in mine.tolist():
            if kind[one] != kind[other] and total[one] == total[other]:
                return int(rows[one]), int(rows[other])
    return int(rows[mine[0]]), int(rows[mine[-1]])


FINDING = Finding("reward_component_collapse", "Components differ where their sum does not", check)
