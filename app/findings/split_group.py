"""One prompt group lies on several ranks or in several micro-batches.

Where a trainer computes baselines on each rank (or micro-batch) alone, the pieces of a cut group are
normalised by themselves: two right answers on one rank and two wrong ones on the other get advantage 0 each,
and the group loses all it had to teach.

* critical: the recorded advantages sum to 0 in the pieces where the whole group's baseline would not let
  them, see `app.findings.partitions`.
* warning: groups are cut and the recorded advantages do not tell which was done, or there are none.
* Nothing is said where they sum to 0 over whole groups only: then the pieces were put together first. Nor,
  without that proof, where the header names a framework that computes advantages in one process, with all
  rewards of the step in hand, or an estimator whose baseline is not the group; nor of a split that is
  measured and not trained on.

Seen as: reward std that is far smaller than the rewards, all-zero advantages in groups with different
rewards, results that change with the number of GPUs (tunix#820, tt-metal#46548, trl#2961, Search-R1#39).

Remedy: keep a group on one rank and in one micro-batch, or gather the rewards of the group before the
baseline.

Evidence: `by` ("rank" | "micro_batch"), `split_groups`, `groups`, `most_pieces`, `recorded` ("per_piece" |
"unknown"), `pieces_that_tell`, `pieces_that_sum_to_zero`, `differing_groups_with_zero_advantage`.
"""

from typing import Any

import numpy as np

from app.findings.finding import Finding, report
from app.findings.partitions import Verdict, dense, judge
from app.findings.recorded import sums
from app.findings.settings import baseline_of, gathers, is_evaluation
from app.findings.view import Bools, Ints, View, group_statistics
from app.formatting import plural

PLACES = {"rank": "ranks", "micro_batch": "micro-batches"}


def check(view: View) -> dict[str, Any] | None:
    if not view.grouped or not view.uses_groups or is_evaluation(view):
        return None
    said = [_by(view, name) for name in PLACES]
    found = [each for each in said if each is not None]
    proven = [each for each in found if each["severity"] == "critical"]
    if proven or gathers(view) or baseline_of(view) in ("batch", "apart"):
        return next(iter(proven), None)
    return next(iter(found), None)


def _by(view: View, name: str) -> dict[str, Any] | None:
    known = view.columns.known.get(name)
    if known is None or known.size != view.rollouts or not known.any():
        return None
    column: Ints = getattr(view.columns, name)
    piece = np.where(known, dense(view.group, column), -1)
    pieces = np.unique(np.stack([view.group, column], axis=1)[known], axis=0)
    count = np.bincount(pieces[:, 0], minlength=view.groups)
    split = count > 1
    if not split.any():
        return None
    verdict = judge(view, np.where(split[view.group], piece, -1))
    if verdict.baseline == "group":
        return None
    return _report(view, name, split, int(count.max()), verdict)


def _report(view: View, name: str, split: Bools, most: int, verdict: Verdict) -> dict[str, Any]:
    found = np.flatnonzero(split)
    proven = verdict.baseline == "piece"
    groups = group_statistics(view.reward, view.group, view.groups)
    _, size = sums(view)
    lost = groups.differing & split & (size == 0) if proven else np.zeros_like(split)
    title = (
        f"{found.size} of {plural(view.groups, 'group')} {'is' if found.size == 1 else 'are'} cut over up to "
    )
    title += f"{most} {PLACES[name]}"
    if proven:
        title += ", and the recorded advantages were normalised in each piece alone"
    if lost.any():
        first = view.group_ids[int(np.flatnonzero(lost)[0])]
        title += f": {plural(int(lost.sum()), 'group')} ({first!r}) with different rewards got only zeros"
    return report(
        view,
        "critical" if proven else "warning",
        f"{title}.",
        explanation="A piece has its own mean and std: differences between the pieces are lost, and a small "
        "piece has a noisy baseline."
        + ("" if proven else " Whether that was done here the recorded advantages do not say."),
        remedy=f"Keep a group on one {'rank' if name == 'rank' else 'micro-batch'} (batch size a multiple of "
        "the group size on each), or gather the group's rewards before the baseline is taken.",
        evidence={
            "by": name,
            "split_groups": found.size,
            "groups": view.groups,
            "most_pieces": most,
            "recorded": "per_piece" if proven else "unknown",
            "pieces_that_tell": verdict.telling,
            "pieces_that_sum_to_zero": verdict.balanced,
            "differing_groups_with_zero_advantage": int(lost.sum()),
        },
        groups=found,
        rollouts=np.flatnonzero(split[view.group]),
    )


FINDING = Finding("split_group", "A group on several ranks or micro-batches", check)
