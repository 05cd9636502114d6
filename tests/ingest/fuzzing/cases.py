"""One damaged upload per number: which sample, which damage, always the same for the same seed."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

from tests.ingest.fuzzing import containers, damage, values
from tests.ingest.reading import SAMPLES

#: Folders whose files are one upload: what lies beside a damaged file is asked for its part, too.
FOLDERS = (
    "areal/logs/root/toy_exp/trial0/rollout/3", "hf_datasets_save_to_disk", "open_instruct",
    "prime_rl/token_exports/step_5", "rllm/logs/demo/toy/episodes/train_step_5_epoch_0",
    "skyrl/dumped_evals/global_step_5_evals", "slime", "tinker_cookbook/log/iteration_000005",
    "torchrl_memmap", "torchrl_nested", "verifiers/legacy_evals/toy-math--toy-0.1b/a1b2c3d4",
    "verl/rollout_dump/demo_proj/GBS4_N4_in64_out64/4", "verl/rollout_dump_v1/4/0",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Case:
    """`files`: name -> bytes of one upload; `target` is the damaged one, `how` the damage."""

    number: int
    target: str
    how: str
    files: dict[str, bytes]


@cache
def samples() -> tuple[tuple[str, tuple[str, ...]], ...]:
    """(file to damage, files of its upload): every sample by itself, and in its folder where that counts."""
    files = sorted(path for path in SAMPLES.rglob("*") if path.is_file() and path.stat().st_size)
    found: list[tuple[str, tuple[str, ...]]]
    found = [(str(path.relative_to(SAMPLES)), (str(path.relative_to(SAMPLES)),)) for path in files]
    for folder in FOLDERS:
        inside = sorted(
            str(path.relative_to(SAMPLES)) for path in (SAMPLES / folder).rglob("*") if path.is_file()
        )
        found += [(name, tuple(inside)) for name in inside]
    return tuple(found)


@cache
def content(name: str) -> bytes:
    return (SAMPLES / name).read_bytes()


def case(seed: int, number: int, folder: Path) -> Case:
    """The `number`-th upload of this seed; `folder` is for files on the way."""
    source = random.Random(f"{seed}/{number}")
    target, names = source.choice(samples())
    how, made = _damaged(content(target), source, folder)
    files = {name: content(name) for name in names} | {target: made}
    return Case(number, target, how, files)


def _damaged(data: bytes, source: random.Random, folder: Path) -> tuple[str, bytes]:
    """By structure where the file has one, else by bytes; seldom by two damages."""
    plain = source.choice(damage.DAMAGES)
    ways: list[tuple[str, Callable[[], bytes | None]]] = [
        (plain.__name__, partial(plain, data, source)),
        ("repacked", partial(containers.repacked, data, _inside, source)),
        ("tables", partial(containers.tables, data, source)),
        ("database", partial(containers.database, data, source, folder)),
        ("documents", partial(values.documents, data, source)),
        ("packed", partial(values.packed, data, source)),
        ("spliced", partial(_spliced, data, source)),
    ]
    if not source.randrange(12):
        ways = [("wrapped", partial(containers.wrapped, data, source))]
    source.shuffle(ways)
    for how, way in ways:
        made = way()
        if made is not None:
            if not source.randrange(8):
                return f"{how}, stretches", damage.stretches(made, source)
            return how, made
    raise AssertionError("damage to bytes always gives bytes")


def _inside(data: bytes, source: random.Random) -> bytes:
    """Damage to what was packed: by values where it is JSON."""
    made = values.documents(data, source) if source.randrange(2) else None
    return source.choice(damage.DAMAGES)(data, source) if made is None else made


def _spliced(data: bytes, source: random.Random) -> bytes:
    other, _ = source.choice(samples())
    return damage.spliced(data, content(other), source)
