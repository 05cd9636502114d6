"""Prompt groups: the ids that were recorded, told apart by type; or derived by a rule that is named.

Rules, each as `Rollout.derived["group_id"]`:
  derived:prompt           identical prompts of one step and split
  derived:adjacent_prompt  runs of identical prompts in the file's order
  derived:stride:N         every N rows of one step and split
  derived:column:<name>    another column
  derived:alone            nothing to group by: the row stands alone
"""

import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from app.ingest.notes import listed
from app.ingest.options import Options, stride
from app.ingest.prompts import prompt_key
from app.ingest.record import Problem, Rollout
from app.ingest.scalars import typed_id

BatchKey = tuple[int | None, str | None]
LISTED = 8
COLUMNS = (
    "data_source",
    "sample_id",
    "sample_index",
    "rollout_id",
    "segment",
    "rank",
    "micro_batch",
    "ground_truth",
)


@dataclass(slots=True)
class _Derived:
    """Sizes of the groups that one rule made."""

    sizes: Counter[tuple[BatchKey, str]] = field(default_factory=Counter)


class Groups:
    """Gives every rollout a group id. Memory grows with the number of groups, not of rollouts."""

    def __init__(self, options: Options) -> None:
        self._rule = options.group_by
        self._stride = stride(options.group_by)
        self._types: dict[tuple[BatchKey, str], str] = {}
        self._mixed: list[str] = []
        self._derived: dict[str, _Derived] = {}
        self._alone: list[int] = []
        self._alone_count = 0
        self._counts: Counter[BatchKey] = Counter()
        self._run: tuple[BatchKey, bytes | None] | None = None
        self._runs: Counter[BatchKey] = Counter()
        self._recorded = False

    def next_file(self) -> None:
        """Another file begins: runs of identical prompts end, and whether it records groups is open again."""
        self._recorded, self._run = False, None

    def assign(self, rollout: Rollout, default: str) -> None:
        """Set `group_id`; `default` ("prompt" or "adjacent") is the format's rule where none was recorded."""
        batch = (rollout.step, rollout.split)
        position = self._counts[batch]
        self._counts[batch] += 1
        if self._stride is not None:
            self._derive(rollout, batch, f"stride:{self._stride}", f"rows-{position // self._stride}")
        elif self._rule == "prompt":
            self._by_prompt(rollout, batch)
        elif self._rule is not None:
            self._by_column(rollout, batch, self._rule)
        elif rollout.group_id is not None:
            self._recorded = True
            kind = rollout.extra.get("group_id_type", "text")
            rollout.group_id = self._distinct(batch, rollout.group_id, kind)
        elif self._recorded:
            self._stand_alone(rollout, batch)
        elif default == "adjacent":
            self._by_run(rollout, batch)
        else:
            self._by_prompt(rollout, batch)

    def _distinct(self, batch: BatchKey, text: str, kind: str) -> str:
        """The id's text; where an id of another type has the same text, with its type behind it."""
        first = self._types.setdefault((batch, text), kind)
        if first == kind:
            return text
        marked = f"{text} ({kind})"
        if self._types.setdefault((batch, marked), kind) == kind and len(self._mixed) < LISTED:
            self._mixed.append(marked)
        return marked

    def _derive(
        self, rollout: Rollout, batch: BatchKey, rule: str, group_id: str, kind: str | None = None
    ) -> None:
        rollout.group_id = self._distinct(batch, group_id, kind or rule)
        rollout.derived["group_id"] = f"derived:{rule}"
        self._derived.setdefault(rule, _Derived()).sizes[(batch, rollout.group_id)] += 1

    def _by_prompt(self, rollout: Rollout, batch: BatchKey) -> None:
        key = prompt_key(rollout)
        if key is None:
            self._stand_alone(rollout, batch)
        else:
            self._derive(rollout, batch, "prompt", f"prompt-{_short(key)}")

    def _by_run(self, rollout: Rollout, batch: BatchKey) -> None:
        key = prompt_key(rollout)
        digest = None if key is None else hashlib.sha256(key).digest()
        if digest is None or self._run != (batch, digest):
            self._runs[batch] += 1
        self._run = (batch, digest)
        self._derive(rollout, batch, "adjacent_prompt", f"run-{self._runs[batch]}")

    def _by_column(self, rollout: Rollout, batch: BatchKey, column: str) -> None:
        if column in ("group_id", "uid") and rollout.group_id is not None:
            kind = rollout.extra.get("group_id_type", "text")
            rollout.group_id = self._distinct(batch, rollout.group_id, kind)
            return
        value = getattr(rollout, column) if column in COLUMNS else rollout.extra.get(column)
        found = typed_id(value)
        if found is None:
            self._stand_alone(rollout, batch)
        else:
            self._derive(rollout, batch, f"column:{column}", *found)

    def _stand_alone(self, rollout: Rollout, batch: BatchKey) -> None:
        place = f"row-{rollout.row}" if rollout.file is None else f"{rollout.file} row-{rollout.row}"
        rollout.group_id = self._distinct(batch, place, "alone")
        rollout.derived["group_id"] = "derived:alone"
        self._alone_count += 1
        if len(self._alone) < LISTED:
            self._alone.append(rollout.row)

    def summary(self) -> Iterator[Problem]:
        """What the rules made of the rows, said once at the end."""
        for rule, derived in self._derived.items():
            yield _sizes(rule, derived, chosen=self._rule is not None)
        if self._no_column():
            message = f"group_by={self._rule}: no row has the column {self._rule}; every row stands alone"
            yield Problem(message, "no_group_column", "warning", None, "group_id")
        elif self._alone_count:
            one = self._alone_count == 1
            message = f"no group id in {listed(self._alone, self._alone_count)}: " + (
                "it stands alone" if one else "each stands alone, never one group together"
            )
            yield Problem(message, "no_group_id", "warning", None, "group_id")
        if self._mixed:
            message = (
                f"group ids of different types with the same text are kept apart: {', '.join(self._mixed)}"
            )
            yield Problem(message, "mixed_group_ids", "warning", None, "group_id")

    def _no_column(self) -> bool:
        """Whether a column was asked for that no row has."""
        by_column = self._rule is not None and self._rule != "prompt" and self._stride is None
        return by_column and self._alone_count > 0 and self._alone_count == sum(self._counts.values())


def _short(key: bytes) -> str:
    return hashlib.sha256(key).hexdigest()[:12]


RULES = {"prompt": "identical prompt", "adjacent_prompt": "adjacent identical prompts"}
REMEDY = "choose a column (group_by=<column>) or every n rows (group_by=stride:N)"


def _sizes(rule: str, derived: _Derived, chosen: bool) -> Problem:
    """One sentence on the sizes of derived groups: a warning where they are unequal or all of one row."""
    sizes = derived.sizes.values()
    count, least, most = len(sizes), min(sizes), max(sizes)
    how = RULES.get(rule) or rule.replace(":", " ")
    begin = f"grouped by {how}" if chosen else f"no group id; grouping by {how}"
    groups = f"{count} group{'s' if count > 1 else ''}"
    if most == 1 and count > 1:
        message, severity = (
            f"{begin} gives {groups} of 1: nothing to compare within a group; {REMEDY}",
            "warning",
        )
    elif least != most:
        repeated = "a prompt may stand twice in the batch, or rows may be missing"
        message, severity = (
            f"{begin} gives {groups} of unequal size ({least} to {most} rows): {repeated}",
            "warning",
        )
    else:
        message, severity = f"{begin} gives {groups} of {most}", "info"
    code = "groups_derived" if severity == "info" else "groups_of_one" if most == 1 else "unequal_groups"
    return Problem(message, code, "info" if severity == "info" else "warning", None, "group_id")
