"""From rollouts in the order of the file to parts of prompt groups, with bounded memory. No database here.

The same items under the same plan always give the same chunks: a resumed ingest relies on it.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from app.errors import TooLarge
from app.ingest.record import Header, Item, Problem, Rollout
from app.rows import CANONICAL, arrays_of, kind_of, present, row_of, weight
from storage.ids import derived_id

BatchKey = tuple[str, int | None, str | None]  # run, step, split


@dataclass(frozen=True, slots=True)
class Plan:
    """`buffer_bytes`: memory for rollouts that wait for their group; `chunk_bytes`: of one transaction."""

    buffer_bytes: int
    chunk_bytes: int


@dataclass(frozen=True, slots=True)
class Part:
    """Rollouts of one group that are stored together; `prompt` with the group's first part."""

    batch_id: str
    group_no: int
    part: int
    prompt: dict[str, Any] | None
    rollouts: list[dict[str, Any]]
    arrays: dict[str, list[Any]]
    bytes: int


@dataclass(slots=True)
class Chunk:
    """What one transaction stores. The counts are of the whole upload so far."""

    begun: list["Shelf"] = field(default_factory=list)
    parts: list[Part] = field(default_factory=list)
    problems: list[dict[str, Any]] = field(default_factory=list)
    format: str | None = None
    accepted: int = 0
    rejected: int = 0
    bytes: int = 0

    def digest(self) -> str:
        """Equal for equal chunks: what a resumed ingest compares with what was stored before."""
        state = hashlib.blake2b(digest_size=16)
        for part in self.parts:
            state.update(f"{part.batch_id} {part.group_no} {part.part}\n".encode())
            for row in part.rollouts:
                state.update(f"{row['index']} {row['digest']}\n".encode())
        state.update(f"{self.accepted} {self.rejected} {len(self.problems)}".encode())
        return state.hexdigest()


@dataclass(slots=True)
class Group:
    """A prompt group that is being filled. `prompt` and `messages` are those of its first rollout."""

    no: int
    id: str
    data_source: str | None
    prompt: str | None
    messages: list[Any] | None
    parts: int = 0
    waiting: list[Rollout] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    bytes: int = 0


@dataclass(slots=True)
class Shelf:
    """A batch that is being filled."""

    id: str
    run: str
    step: int | None
    split: str | None
    format: str
    header: dict[str, Any]
    begun: bool = False
    rollouts: int = 0
    scored: int = 0
    tokens: int = 0
    groups: dict[str, Group] = field(default_factory=dict)
    fields: dict[str, str] = field(default_factory=dict)
    noted: tuple[Any, ...] = ()

    def note(self, rollout: Rollout) -> None:
        """Remember which fields are there and how they came about; derived once is derived for the batch."""
        kind = kind_of(rollout)
        if kind == self.noted:  # as the row before: nothing new
            return
        self.noted = kind
        provenance = self.header.get("provenance")
        stated = provenance if isinstance(provenance, dict) else {}
        for name in present(rollout):
            origin = rollout.derived.get(name) or stated.get(name)
            derived = isinstance(origin, str) and origin.startswith("derived:")
            if name not in self.fields or derived:
                self.fields[name] = str(origin) if derived else "recorded"

    def provenance(self) -> dict[str, str]:
        """Every canonical field: "recorded", "derived:<rule>" or "absent"."""
        return {name: self.fields.get(name, "absent") for name in CANONICAL}


class Intake:
    """Fills groups until memory asks for a flush. Feed it with `take`, end it with `end`.

    `take` raises TooLarge where the upload has more than `most` batches.
    """

    def __init__(self, upload_id: str, request: dict[str, Any], plan: Plan, most: int = 1 << 30) -> None:
        self.upload_id, self.request, self.plan, self.most = upload_id, request, plan, most
        self.shelves: dict[BatchKey, Shelf] = {}
        self.header = Header()
        self.bytes = 0
        self.accepted = 0
        self.rejected_rows: set[tuple[str | None, int]] = set()
        self.problems: list[dict[str, Any]] = []
        self.format: str | None = None

    def run_of(self, header: Header) -> str:
        """The caller's run, else the file's, else one named after the upload."""
        return str(self.request.get("run") or header.run or self.request["default_run"])

    def take(self, item: Item) -> Iterator[Chunk]:
        """One item of the file; gives the chunks that have to be stored now."""
        match item:
            case Header():
                self.header = item
                self.format = self.format or item.format or None
            case Problem():
                self._problem(item)
            case Rollout():
                yield from self._rollout(item)

    def _problem(self, problem: Problem) -> None:
        left_out = problem.severity == "error" or problem.code == "duplicate_row"
        if left_out and problem.row is not None:
            self.rejected_rows.add((problem.file, problem.row))
        names = ("file", "row", "field", "severity", "code", "message")
        self.problems.append({name: getattr(problem, name) for name in names})

    def _rollout(self, rollout: Rollout) -> Iterator[Chunk]:
        shelf = self._shelf(rollout)
        group = self._group(shelf, rollout)
        shelf.note(rollout)
        size = weight(rollout)
        group.waiting.append(rollout)
        group.numbers.append(shelf.rollouts)
        group.sizes.append(size)
        group.bytes += size
        shelf.rollouts += 1
        shelf.scored += rollout.reward is not None
        shelf.tokens += rollout.length or 0
        self.accepted += 1
        self.bytes += size
        if self.bytes >= self.plan.buffer_bytes:
            keep = group if group.bytes < self.plan.buffer_bytes // 2 else None
            yield from self._flush(keep)

    def _shelf(self, rollout: Rollout) -> Shelf:
        run = self.run_of(self.header)
        key = (run, rollout.step, rollout.split)
        shelf = self.shelves.get(key)
        if shelf is None:
            if len(self.shelves) >= self.most:
                raise TooLarge(
                    f"The upload has more batches (runs, steps and splits) than {self.most:,} "
                    "(VANTAGE_MAX_BATCHES). Nothing of it was kept. Send it in parts, or give it one run, "
                    "step or split with run=, step= and split=."
                )
            id = derived_id(self.upload_id, *key)
            kept = dict(self.header.raw)
            shelf = Shelf(id, run, rollout.step, rollout.split, self.header.format or "unknown", kept)
            self.shelves[key] = shelf
        return shelf

    def _group(self, shelf: Shelf, rollout: Rollout) -> Group:
        name = rollout.group_id if rollout.group_id is not None else f"row-{rollout.row}"
        group = shelf.groups.get(name)
        if group is None:
            group = Group(
                len(shelf.groups), name, rollout.data_source, rollout.prompt, rollout.prompt_messages
            )
            shelf.groups[name] = group
        return group

    def _flush(self, keep: Group | None) -> Iterator[Chunk]:
        """Chunks of everything that waits, except the group that is probably not complete yet."""
        chunk = self._chunk()
        for shelf in self.shelves.values():
            for group in shelf.groups.values():
                if group is keep or not group.waiting:
                    continue
                for part in self._parts(shelf, group):
                    if not shelf.begun:
                        shelf.begun = True
                        chunk.begun.append(shelf)
                    chunk.parts.append(part)
                    chunk.bytes += part.bytes
                    self.bytes -= part.bytes
                    if chunk.bytes >= self.plan.chunk_bytes:
                        yield chunk
                        chunk = self._chunk()
        if chunk.parts or chunk.problems:
            yield chunk

    def _chunk(self) -> Chunk:
        problems, self.problems = self.problems, []
        return Chunk(
            problems=problems, format=self.format, accepted=self.accepted, rejected=len(self.rejected_rows)
        )

    def _parts(self, shelf: Shelf, group: Group) -> Iterator[Part]:
        """The waiting rollouts of a group, in parts of at most four chunks' bytes (or one rollout)."""
        waiting, numbers, sizes = group.waiting, group.numbers, group.sizes
        group.waiting, group.numbers, group.sizes, group.bytes = [], [], [], 0
        start = 0
        while start < len(waiting):
            end, size = start, 0
            while end < len(waiting) and (end == start or size < 4 * self.plan.chunk_bytes):
                size += sizes[end]
                end += 1
            yield make_part(shelf, group, waiting[start:end], numbers[start:end], size)
            group.parts += 1
            start = end

    def end(self) -> Iterator[Chunk]:
        """The chunks of what still waits, and of the problems that came last."""
        yield from self._flush(None)


def make_part(shelf: Shelf, group: Group, rollouts: list[Rollout], numbers: list[int], size: int) -> Part:
    prompt = None
    if group.parts == 0:
        prompt = {
            "group_id": group.id,
            "data_source": group.data_source,
            "prompt": group.prompt,
            "messages": group.messages,
        }
    rows = [
        row_of(rollout, index, group.prompt, group.messages)
        for rollout, index in zip(rollouts, numbers, strict=True)
    ]
    return Part(shelf.id, group.no, group.parts, prompt, rows, arrays_of(rollouts), size)
