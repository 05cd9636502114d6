"""Groups of which one differs in more reward components than the other, and that get the same advantages.

Where components are added up and the sum is divided by the group's std, a group in which one component
differs (sums 0 and 1) and one in which two do (0 and 2) both get ±0.707: how much there was to learn is lost.
Held against each other are groups whose z-scores are the same, in which other components differ and whose
std is apart by 1.5 times or more.

Said where the recorded advantages of these groups are the same, or where none are recorded and the header's
estimator divides by the group's std; and where such groups are a tenth of those with a spread. info; warning
from half of them on. With more siblings it is rare by itself, as groups then seldom have the same z-scores.

Seen as: many correct and well formed answers that weigh no more than well formed ones, the motivating case
of GDPO (trl#4785, ms-swift#7348, GDPO#3).

Remedy: normalise each component within the group, add, and whiten over the batch (GDPO); or do not divide by
the std (Dr. GRPO). Either is computed on the batch and said with its numbers; one that does not tell the
groups apart is not named.

Evidence: `groups_alike`, `compared_groups`, `share`, `example`: by group its `components` that differ, the
`std_ddof1` of the sum, and the largest advantage as `z_score`, `gdpo` (before whitening) and `dr_grpo`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from app.findings import components
from app.findings.components import Components
from app.findings.finding import Finding, report
from app.findings.settings import said_by
from app.findings.view import Floats, Ints, View
from app.formatting import number, percent, plural

APART, SHARE, MOST = 1.5, 0.1, 0.5
#: Recorded advantages that are equal so far are the same: an ε beside the std, float32.
DIGITS = 2


@dataclass(frozen=True, slots=True)
class Alike:
    """`groups` `[A]` that have a counterpart with the same z-scores; `pair`: two of them, the wider last."""

    groups: Ints
    pair: tuple[int, int]


def check(view: View) -> dict[str, Any] | None:
    parts = components.read(view)
    if parts is None or not _divided(view):
        return None
    std = components.deviation(parts.total, parts.group, view.groups)
    spread = np.flatnonzero(std > 0)
    found = _alike(view, parts, std, spread)
    if found is None or found.groups.size < SHARE * spread.size:
        return None
    return _report(view, parts, std, found, spread.size)


def _divided(view: View) -> bool:
    """The header's estimator divides by the group's std; or its own numbers tell, where they are there."""
    if np.isfinite(view.advantage).any():
        return True
    said = said_by(view)
    scaled = said.params.get("scale_rewards", "group") == "group"
    return said.estimator == "grpo" and scaled and said.params.get("norm_adv_by_std_in_grpo", True) is True


def _alike(view: View, parts: Components, std: Floats, spread: Ints) -> Alike | None:
    """Groups are held against the least and the largest std of those with the same z-scores (and recorded
    advantages) in which other components differ."""
    varies = components.varies(parts.centred * parts.weights, parts.group, view.groups)
    classes: dict[Any, dict[Any, list[int]]] = {}
    for g, same in _classes(view, parts, std):
        classes.setdefault(same, {}).setdefault(varies[g].tobytes(), []).append(g)
    found: list[int] = []
    pair: tuple[int, int] | None = None
    for kinds in classes.values():
        if len(kinds) < 2:
            continue
        ends = {kind: (min(of, key=std.item), max(of, key=std.item)) for kind, of in kinds.items()}
        for kind, groups in kinds.items():
            others = [end for other, both in ends.items() if other != kind for end in both]
            for g in groups:
                far = next((h for h in others if max(std[g], std[h]) >= APART * min(std[g], std[h])), None)
                if far is not None:
                    found.append(g)
                    pair = pair or ((g, far) if std[g] < std[far] else (far, g))
    return None if pair is None else Alike(np.array(sorted(found), dtype=np.int64), pair)


def _classes(view: View, parts: Components, std: Floats) -> Iterator[tuple[int, Any]]:
    """Every group with a spread whose rollouts all count, and what is equal for groups that look alike."""
    z = components.z_scores(parts.total, parts.group, view.groups)
    advantage = view.advantage[parts.places]
    recorded = bool(np.isfinite(view.advantage).any())
    order = np.lexsort((z, parts.group))
    groups, starts = np.unique(parts.group[order], return_index=True)
    for g, own in zip(groups.tolist(), np.split(order, starts[1:]), strict=True):
        if std[g] > 0 and own.size == view.sizes[g]:
            told = tuple(np.round(np.sort(advantage[own]), DIGITS).tolist()) if recorded else ()
            yield g, (tuple(np.round(z[own], 3).tolist()), told)


def _report(view: View, parts: Components, std: Floats, found: Alike, compared: int) -> dict[str, Any]:
    shown = {view.group_ids[g]: _numbers(view, parts, std, g) for g in found.pair}
    (small, one), (wide, other) = shown.items()
    share = found.groups.size / compared
    helps = [
        f"{what} gives {number(one[key])} and {number(other[key])}"
        for key, what in (("gdpo", "GDPO (before its whitening over the batch)"), ("dr_grpo", "Dr. GRPO"))
        if other[key] >= 1.2 * one[key]
    ]
    return report(
        view,
        "warning" if share >= MOST else "info",
        f"{found.groups.size} of {plural(compared, 'group')} with a spread ({percent(share)}) get the same "
        f"advantages as groups with other components: in {small!r} {_names(one)}, in {wide!r} "
        f"{_names(other)}, both up to {number(one['z_score'])}.",
        explanation="The components are added up and the sum is divided by the group's own std, which takes "
        "out how much the siblings differ: being better in several components counts no more than in one.",
        remedy=f"On these two groups {'; '.join(helps)}: normalise the components before adding them, or do "
        "not divide by the std."
        if helps
        else "Weigh the components so that the sums tell the groups apart; neither GDPO nor leaving the std "
        "out does on these groups.",
        evidence={
            "groups_alike": found.groups.size,
            "compared_groups": compared,
            "share": share,
            "example": shown,
        },
        groups=found.groups,
        rollouts=parts.places[np.isin(parts.group, found.groups)],
    )


def _names(said: dict[str, Any]) -> str:
    names = said["components"]
    verb = "differs" if len(names) == 1 else "differ"
    return f"{' and '.join(repr(name) for name in names)} {verb} (std {number(said['std_ddof1'])})"


def _numbers(view: View, parts: Components, std: Floats, group: int) -> dict[str, Any]:
    """What the group has, and its largest advantage by three ways."""
    own = np.flatnonzero(parts.group == group)
    weighted = parts.centred[own] * parts.weights
    varies = np.abs(weighted).max(axis=0) > 0
    each = parts.centred[own][:, varies]
    apart = (each / each.std(axis=0, ddof=1)) @ parts.weights[varies]
    return {
        "components": [name for name, moves in zip(parts.names, varies.tolist(), strict=True) if moves],
        "std_ddof1": float(std[group]),
        "z_score": float(np.abs(parts.total[own]).max() / std[group]),
        "gdpo": float(np.abs(apart).max()),
        "dr_grpo": float(np.abs(parts.total[own]).max()),
    }


FINDING = Finding("component_scale_lost", "Groups with other components and the same advantages", check)
