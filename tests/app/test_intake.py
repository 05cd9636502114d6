"""From rollouts to parts of groups: bounded memory, and the same chunks each time."""

from collections.abc import Iterator

import numpy as np
import pytest

from app.ingest.record import Header, Item, Problem, Rollout
from app.intake import Chunk, Intake, Plan
from app.rows import row_of, weight

REQUEST = {"run": "r", "default_run": None}
WIDE = Plan(buffer_bytes=1 << 30, chunk_bytes=1 << 30)


def rollout(row: int, group: str, tokens: int = 4, **fields: object) -> Rollout:
    made = Rollout(row=row, group_id=group, reward=float(row), prompt=f"prompt {group}", digest=f"{row:032x}")
    made.tokens = {"values": np.arange(tokens, dtype=np.float64)}
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def stored(items: list[Item], plan: Plan) -> list[Chunk]:
    intake = Intake("upload", REQUEST, plan)
    return [chunk for item in items for chunk in intake.take(item)] + list(intake.end())


def rows_of(chunks: list[Chunk]) -> Iterator[tuple[int, int, int, int]]:
    for chunk in chunks:
        for part in chunk.parts:
            for slot, row in enumerate(part.rollouts):
                yield part.group_no, part.part, slot, row["row"]


def interleaved(groups: int, size: int, tokens: int = 4) -> list[Item]:
    return [Header(format="f"), *(rollout(i, f"g{i % groups}", tokens) for i in range(groups * size))]


def test_groups_are_whole_and_in_order_of_their_first_row() -> None:
    chunks = stored(interleaved(groups=3, size=2), WIDE)
    assert list(rows_of(chunks)) == [
        (0, 0, 0, 0), (0, 0, 1, 3), (1, 0, 0, 1), (1, 0, 1, 4), (2, 0, 0, 2), (2, 0, 1, 5),
    ]  # fmt: skip
    assert [row["index"] for part in chunks[0].parts for row in part.rollouts] == [0, 3, 1, 4, 2, 5]


def test_memory_is_bounded_and_nothing_is_lost() -> None:
    items = interleaved(groups=7, size=9, tokens=500)
    one = weight(items[1]) if isinstance(items[1], Rollout) else 0
    intake = Intake("upload", REQUEST, Plan(buffer_bytes=10 * one, chunk_bytes=3 * one))
    chunks: list[Chunk] = []
    for item in items:
        chunks += intake.take(item)
        assert intake.bytes <= 11 * one
    chunks += intake.end()
    assert sorted(row for *_, row in rows_of(chunks)) == list(range(63))
    assert intake.bytes == 0
    assert all(chunk.bytes <= 3 * one + 4 * 3 * one for chunk in chunks), "a chunk, and a part at most"


def test_the_group_that_is_being_written_is_kept_together() -> None:
    items: list[Item] = [Header(), *(rollout(i, f"g{i // 4}", 500) for i in range(40))]
    one = weight(items[1]) if isinstance(items[1], Rollout) else 0
    chunks = stored(items, Plan(buffer_bytes=10 * one, chunk_bytes=one))
    assert len(chunks) > 4
    assert {part.part for chunk in chunks for part in chunk.parts} == {0}
    assert all(len(part.rollouts) == 4 for chunk in chunks for part in chunk.parts)


def test_a_giant_group_is_stored_in_parts() -> None:
    items: list[Item] = [Header(), *(rollout(i, "g", 500) for i in range(20))]
    one = weight(items[1]) if isinstance(items[1], Rollout) else 0
    chunks = stored(items, Plan(buffer_bytes=1 << 30, chunk_bytes=one))
    parts = [part for chunk in chunks for part in chunk.parts]
    assert [part.part for part in parts] == [0, 1, 2, 3, 4]
    assert [part.prompt is None for part in parts] == [False, True, True, True, True]


@pytest.mark.parametrize("buffer", [2_000, 20_000, 1 << 30])
def test_the_same_items_give_the_same_chunks(buffer: int) -> None:
    plan = Plan(buffer, 5_000)
    first, second = (stored(interleaved(5, 6, 100), plan) for _ in range(2))
    assert [chunk.digest() for chunk in first] == [chunk.digest() for chunk in second]


def test_another_reading_gives_another_digest() -> None:
    items = interleaved(2, 2)
    changed = interleaved(2, 2)
    last = changed[-1]
    assert isinstance(last, Rollout)
    last.digest = "f" * 32
    assert stored(items, WIDE)[0].digest() != stored(changed, WIDE)[0].digest()


def test_step_and_split_make_batches_of_their_own() -> None:
    items: list[Item] = [
        Header(format="f"),
        rollout(1, "a", step=1, split="train"),
        rollout(2, "a", step=2, split="train"),
        rollout(3, "a", step=1, split="val"),
        rollout(4, "a", step=1, split="train"),
    ]
    intake = Intake("upload", REQUEST, WIDE)
    for item in items:
        assert not list(intake.take(item))
    (chunk,) = intake.end()
    assert [(shelf.step, shelf.split) for shelf in chunk.begun] == [(1, "train"), (2, "train"), (1, "val")]
    assert [len(part.rollouts) for part in chunk.parts] == [2, 1, 1]
    again = Intake("upload", REQUEST, WIDE)
    assert not list(again.take(items[1]))
    assert next(iter(again.shelves.values())).id == chunk.begun[0].id, "a retry finds the same batch"


def test_counts_and_problems_go_with_the_chunk_that_follows_them() -> None:
    items: list[Item] = [
        Header(format="f"),
        Problem("row 1: no", "bad", "error", 1),
        rollout(2, "a"),
        Problem("row 2: hm", "hm", "warning", 2),
        Problem("row 3: repeats row 2", "duplicate_row", "warning", 3),
        Problem("all in all", "sum", "info"),
    ]
    (chunk,) = stored(items, WIDE)
    assert (chunk.accepted, chunk.rejected, chunk.format) == (1, 2, "f")
    assert [problem["code"] for problem in chunk.problems] == ["bad", "hm", "duplicate_row", "sum"]


def test_each_field_is_recorded_derived_or_absent() -> None:
    header = Header(raw={"provenance": {"reward": "derived:sum", "values": "recorded"}})
    items: list[Item] = [header, rollout(1, "a"), rollout(2, "b", derived={"group_id": "derived:prompt"})]
    intake = Intake("upload", REQUEST, WIDE)
    for item in items:
        assert not list(intake.take(item))
    fields = next(iter(intake.shelves.values())).provenance()
    assert fields["group_id"] == "derived:prompt"
    assert fields["reward"] == "derived:sum"
    assert fields["values"] == "recorded"
    assert fields["returns"] == "absent"
    assert fields["step"] == "absent"


def test_the_run_is_the_callers_else_the_files_else_the_uploads() -> None:
    def run(request: dict[str, str | None], header: Header) -> str:
        return Intake("u", request, WIDE).run_of(header)

    assert run({"run": "mine", "default_run": None}, Header(run="theirs")) == "mine"
    assert run({"run": None, "default_run": "file"}, Header(run="theirs")) == "theirs"
    assert run({"run": None, "default_run": "file"}, Header()) == "file"


def test_numbers_that_a_column_cannot_hold_are_named() -> None:
    row = row_of(
        rollout(1, "a", reward=float("-inf"), advantage=float("nan"), extra={"k": 1}), 0, "prompt a", None
    )
    assert (row["reward"], row["reward_nonfinite"]) == (None, "-Infinity")
    assert row["advantage"] is None
    assert row["extra"] == {"k": 1, "_nonfinite": {"advantage": "NaN"}}


def test_a_prompt_is_repeated_only_where_it_differs() -> None:
    assert row_of(rollout(1, "a"), 0, "prompt a", None)["prompt"] is None
    assert row_of(rollout(1, "a"), 0, "another", None)["prompt"] == "prompt a"
