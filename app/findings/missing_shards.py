"""Rollouts that should be in the batch by its own numbers, and are not.

* Ranks: `rank` is recorded, and numbers between 0 and the largest (or the header's `world_size`, `dp_size`,
  …) do not occur. Every k-th rank alone is no gap: one rank of each tensor-parallel group writes.
* Files: the names count (`00001-of-00004`, `rank_3`), and numbers of the series are not there.
* Counts: the header declares more rollouts or groups (`num_rollouts`, `num_groups`, …) or larger groups
  (`group_size`, `num_generations`) than there are. Only for a batch that has its file to itself.
* Positions: `sample_index` numbers the rollouts of a group, or of the batch, with gaps inside groups. Whole
  groups that are missing were filtered, which is no fault.

warning; info where less than 2 % of the rollouts are missing.

Seen as: statistics over a part of the batch, groups of odd sizes, advantages that do not sum to 0, the last
rank's file not yet written (slime#1519, miles#2581, open-instruct#1406, verl#7785).

Remedy: upload all files of the step together once the last is written; look at why rows were dropped.

Evidence: `missing` by kind (`ranks`, `files`, `rollouts`, `groups`, `siblings`, `positions`), `present`,
`declared`, `share_missing`.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from app.findings import shards
from app.findings.finding import Finding, report
from app.findings.view import View
from app.formatting import plural

FEW = 0.02
SHOWN = 20


@dataclass(slots=True)
class Gaps:
    """What is missing: sentences, numbers by kind, the share of the batch, and the groups with holes."""

    words: list[str] = field(default_factory=list)
    missing: dict[str, Any] = field(default_factory=dict)
    present: dict[str, int] = field(default_factory=dict)
    share: float = 0.0
    groups: Any = ()

    def add(self, kind: str, words: str, missing: Any, present: int, share: float) -> None:
        self.words.append(words)
        self.missing[kind], self.present[kind] = missing, present
        self.share = max(self.share, share)


def check(view: View) -> dict[str, Any] | None:
    if not view.rollouts:
        return None
    gaps = Gaps()
    _series(view, gaps)
    _declared(view, gaps)
    if "siblings" not in gaps.missing:
        _positions(view, gaps)
    if not gaps.words:
        return None
    return report(
        view,
        "info" if gaps.share < FEW else "warning",
        f"Something is missing: {'; '.join(gaps.words)}.",
        explanation="Means, whitening and group baselines of this batch are those of a part of it, and "
        "groups that lost a rollout compare fewer siblings than the trainer did.",
        remedy="Upload all files of the step together, after the last one is written; else look at why rows "
        "were dropped (failed, filtered, unfinished).",
        evidence={"missing": gaps.missing, "present": gaps.present, "share_missing": gaps.share,
                  "declared": _declarations(view)},
        groups=gaps.groups,
        rollouts=np.flatnonzero(np.isin(view.group, gaps.groups)) if len(gaps.groups) else (),
    )  # fmt: skip


def _series(view: View, gaps: Gaps) -> None:
    known = view.columns.known.get("rank")
    ranks = [] if known is None else view.columns.rank[known].tolist()
    found = {
        "ranks": shards.series("rank", ranks, shards.declared(view.header, shards.WORLD)) if ranks else None,
        "files": shards.in_file_names(view.files),
    }
    for kind, missing in found.items():
        if missing is not None:
            gone, count = missing.missing, len(missing.missing)
            names = ", ".join(map(str, gone[:6])) + (" …" if count > 6 else "")
            said = f" of {missing.present + count}" if missing.declared else ""
            gaps.add(
                kind,
                f"{missing.what} {names} ({count}{said}) {'is' if count == 1 else 'are'} not here",
                gone[:SHOWN],
                missing.present,
                count / (missing.present + count),
            )


def _declared(view: View, gaps: Gaps) -> None:
    if view.alone:
        for kind, names, there in (
            ("rollouts", shards.ROLLOUTS, view.rollouts),
            ("groups", shards.GROUPS, view.groups if view.grouped else 0),
        ):
            said = shards.declared(view.header, names)
            if said is not None and there and said > there and said != _usual(view):
                gone = said - there
                gaps.add(kind, f"the header says {said} {kind}, {there} are here", gone, there, gone / said)
    size = shards.declared(view.header, shards.GROUP_SIZE)
    if size is None or not view.grouped or _usual(view) < 2:
        return
    small = np.flatnonzero((view.sizes < size) & view.live_groups)
    if small.size:
        lost = int((size - view.sizes[small]).sum())
        gaps.groups = small
        gaps.add(
            "siblings",
            f"{small.size} of {plural(view.groups, 'group')} have fewer than the {size} rollouts that the "
            f"header says ({lost} are missing)",
            lost,
            view.rollouts,
            lost / (lost + view.rollouts),
        )


def _positions(view: View, gaps: Gaps) -> None:
    known = view.columns.known.get("sample_index")
    if known is None or not known.all() or not view.grouped or _usual(view) < 2:
        return
    position = view.columns.sample_index
    holes, size = shards.holes_in_groups(position, view.group, view.groups)
    if size:
        short = np.flatnonzero(holes)
        lost = int(holes.sum())
        if lost:
            gaps.groups = short
            gaps.add(
                "siblings",
                f"{plural(short.size, 'group')} lack {plural(lost, 'rollout')} of {size} by sample_index",
                lost,
                view.rollouts,
                lost / (lost + view.rollouts),
            )
        return
    gone = shards.holes_in_batch(position, view.group)
    if gone.size:
        gaps.add(
            "positions",
            f"sample_index lacks {plural(gone.size, 'number')} inside groups, first {int(gone[0])}",
            gone[:SHOWN],
            view.rollouts,
            gone.size / (gone.size + view.rollouts),
        )


def _usual(view: View) -> int:
    return int(np.median(view.sizes)) if view.groups else 0


def _declarations(view: View) -> dict[str, int]:
    names = (*shards.WORLD, *shards.ROLLOUTS, *shards.GROUPS, *shards.GROUP_SIZE)
    return {name: value for name in names if (value := shards.declared(view.header, (name,))) is not None}


FINDING = Finding("missing_shards", "Rollouts that should be here are not", check)
