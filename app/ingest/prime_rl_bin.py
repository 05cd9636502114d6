"""prime-rl's transport files: rank_{r}.bin (micro-batches), rollouts.bin, train_rollouts.bin (samples).

msgpack of positional arrays: what stands where depends on the version, trailing fields may be missing. The
version is told by the types: a list of whole numbers that add up to the tokens is the lengths of the packed
sequences; without them a sequence begins where the positions begin again. Nothing names groups or rewards of
micro-batches.
"""

import mmap
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.ingest import msgpack_values as pack
from app.ingest import names, scalars, sequences
from app.ingest.notes import Notes
from app.ingest.prime_rl_samples import sample
from app.ingest.record import About, Format, Header, Item, Rollout, Source, Unreadable
from app.settings import Settings

MAX_FIELDS = 64
#: Positions of the newest layout, behind the lengths.
REF_LOG_PROBS, RL_WEIGHTS, RUN_STEP = 8, 14, 18


@dataclass(slots=True)
class _Micro:
    """One micro-batch by the names of its fields; `lengths` of its packed sequences."""

    arrays: dict[str, NDArray[Any]]
    lengths: list[int]
    sources: list[str] = field(default_factory=list)
    step: int | None = None


def sniff(source: Source, settings: Settings) -> bool:
    return depth_of(source.head) in (3, 4)


def depth_of(head: bytes) -> int:
    """How many lists begin one inside the other before a whole number; 0 for other beginnings.

    The list above the numbers is a record of five to 64 fields.
    """
    counts, at = list[int](), 0
    while at < len(head) and (header := pack.list_header(head[at : at + 5])) is not None and len(counts) < 5:
        counts.append(header[0])
        at += header[1]
    whole = at < len(head) and (head[at] <= 0x7F or 0xCC <= head[at] <= 0xCF)
    record = len(counts) >= 2 and 5 <= counts[-2] <= MAX_FIELDS and counts[-1] > 0
    return len(counts) if whole and record else 0


def read(source: Source, settings: Settings) -> Iterator[Item]:
    if source.path is None:
        raise Unreadable("this file cannot be read from where it lies.", "bad_msgpack")
    notes = Notes()
    with source.path.open("rb") as file:
        # Not closed by hand: parts of it may still be held where an error is on its way.
        data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    yield Header(raw={"framework": "prime-rl"})
    made = _samples if depth_of(source.head) == 4 else _micro_batches
    try:
        for item in made(data, source, settings, notes):
            names.fill(item, names.step(source))
            yield from notes.drain()
            yield item
    except pack.Malformed:
        raise Unreadable(
            "it begins like a transport file of prime-rl, but is damaged or of a version that is not "
            "known; rows before that point stand. Send token_exports or traces.jsonl instead.",
            "bad_msgpack",
        ) from None
    yield from notes.summary()


def _samples(data: memoryview, source: Source, settings: Settings, notes: Notes) -> Iterator[Rollout]:
    """rollouts.bin: [samples, (temperature,) step, …]."""
    batch = pack.parts(data, MAX_FIELDS)
    step = next((value for part in batch[1:] if type(value := pack.single(part)) is int), None)
    for row, one in enumerate(pack.parts(batch[0], settings.max_rows), 1):
        record = sample(row, pack.parts(one, MAX_FIELDS), notes)
        record.step = scalars.integer(row, "step", step if names.step(source) is None else None, notes)
        yield record


def _micro_batches(data: memoryview, source: Source, settings: Settings, notes: Notes) -> Iterator[Rollout]:
    rank = source.name.rpartition("rank_")[2].partition(".")[0]
    row, batches = 1, pack.parts(data, settings.max_rows)
    for number, raw in enumerate(batches):
        micro = _micro(pack.parts(raw, MAX_FIELDS))
        start = 0
        for length in micro.lengths:
            end = start + length
            values = {name: array[start:end] for name, array in micro.arrays.items()}
            if not values["response_mask"].any():
                message = "sequences without a trained token: padding of the pack, left out"
                notes.tally(row, "response_mask", "no_trained_token", message)
            else:
                record = Rollout(row, micro_batch=number, step=micro.step)
                sequences.set_tokens(record, values, notes)
                record.rank = int(rank) if rank.isdecimal() and len(rank) < 9 else None
                record.data_source = micro.sources[start] if start < len(micro.sources) else None
                record.sample_id = f"rank {record.rank} micro-batch {number} token {start}"
                record.derived["sample_id"] = "derived:place in the file"
                yield record
                row += 1
            start = end
        source.report(int(number / len(batches) * len(data)))


def _micro(parts: list[memoryview]) -> _Micro:
    """[ids, mask, advantages, log-probs, positions, (lengths,) temperatures, environments, …]."""
    if len(parts) < 5:
        raise pack.Malformed
    ids, size = pack.numbers(parts[0], "i"), 0
    size = -1 if ids is None else ids.shape[0]
    found: dict[str, NDArray[Any] | None] = {
        "response_ids": ids, "response_mask": pack.numbers(parts[1], "b"),
        "advantages": pack.numbers(parts[2], "f"), "rollout_log_probs": pack.numbers(parts[3], "f"),
    }  # fmt: skip
    arrays = {name: array for name, array in found.items() if array is not None and array.shape == (size,)}
    if len(arrays) < len(found):
        raise pack.Malformed
    lengths, rest = _lengths(parts, size)
    sources = next((texts for part in rest[:3] if (texts := pack.texts(part)) and len(texts) == size), [])
    micro = _Micro(arrays, lengths, sources)
    if len(rest) < len(parts) - 5:
        for name, place in (("ref_log_probs", REF_LOG_PROBS), ("loss_weight", RL_WEIGHTS)):
            values = pack.numbers(parts[place], "f") if place < len(parts) else None
            if values is not None and values.shape == (size,):
                micro.arrays[name] = values
        step = pack.single(parts[RUN_STEP]) if len(parts) > RUN_STEP else None
        micro.step = step if type(step) is int else None
    return micro


def _lengths(parts: list[memoryview], size: int) -> tuple[list[int], list[memoryview]]:
    """Lengths of the packed sequences, and the fields behind what said them."""
    given = pack.numbers(parts[5], "i") if len(parts) > 5 else None
    if given is not None and given.size and int(given.min()) >= 0 and int(given.sum()) == size:
        return [int(length) for length in given if length], parts[6:]
    positions = pack.numbers(parts[4], "i")
    if positions is None or positions.shape != (size,):
        return [size], parts[5:]
    starts = np.flatnonzero(positions == 0)
    if not starts.size or starts[0] != 0:
        starts = np.concatenate(([0], starts))
    return [int(length) for length in np.diff(np.append(starts, size)) if length], parts[5:]


_TRACES = "send `rollouts/step_{s}/train/all/traces.jsonl` with it (monitor `file`, on by default)"
ABOUT = About(
    setting="`rollout_transport.type = \"filesystem\"`",
    files="`{run}/rollouts/step_{n}/rank_{r}.bin`, `rollouts.bin`, `train_rollouts.bin`",
    recorded=("prompt_ids", "response_ids", "response_mask", "rollout_log_probs"),
    sometimes=(
        "advantages", "advantage", "reward", "ref_log_probs", "loss_weight", "data_source", "rank",
        "micro_batch", "step",
    ),
    derived={
        "step": "folder name", "sample_id": "place in the file", "group_id": "identical prompt ids",
        "split": "file name",
    },
    absent={name: _TRACES for name in ("prompt", "response", "messages", "reward_components")}
    | {"old_log_probs": "`trainer.enable_token_export = true`", "values": "", "returns": ""},
)  # fmt: skip
FORMAT = Format("prime-rl-bin", "prime-rl transport file, msgpack", sniff, read, about=ABOUT)
