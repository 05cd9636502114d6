"""Values of other types than expected, anywhere in a row of any framework: sentences, never a surprise."""

import copy
import json
import random
from pathlib import Path
from typing import Any

import pytest

from app.errors import AppError
from app.settings import Settings
from tests.ingest.reading import SAMPLES, Outcome, read

FILES = [
    path
    for path in sorted(SAMPLES.rglob("*"))
    if path.suffix in (".json", ".jsonl") and "broken" not in path.parts and path.stat().st_size
]
ODD: tuple[Any, ...] = (
    None, True, 0, -1, 7.5, float("nan"), 10**25, "", "x", "\ud800", [], [None], [[]], {}, {"a": [1]},
    [1, 2, 3], [{"role": "assistant", "content": None}], ["7"], {"role": 1}, [True, False],
)  # fmt: skip
ROUNDS = 8


def spots(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where a value can be exchanged; of long lists the first entries."""
    found = [path] if path else []
    if isinstance(value, dict):
        for key in value:
            found += spots(value[key], (*path, key))
    elif isinstance(value, list):
        for index in range(min(len(value), 3)):
            found += spots(value[index], (*path, index))
    return found


def exchanged(document: Any, source: random.Random) -> Any:
    """The document with one to three values exchanged, left out, or put twice."""
    document = copy.deepcopy(document)
    for _ in range(source.randint(1, 3)):
        *path, last = source.choice(spots(document))
        place = document
        try:
            for key in path:
                place = place[key]
            match source.randrange(4):
                case 0:
                    del place[last]
                case 1 if isinstance(place, list):
                    place.insert(last, copy.deepcopy(place[last]))
                case _:
                    place[last] = copy.deepcopy(source.choice(ODD))
        except (KeyError, IndexError, TypeError):
            continue
        if not spots(document):
            break
    return document


def documents_of(path: Path) -> tuple[list[Any], str]:
    text = path.read_text()
    try:
        return [json.loads(text)], ""
    except ValueError:
        return [json.loads(line) for line in text.splitlines()], "\n"


def written(path: Path, rows: list[Any], separator: str) -> Path:
    path.write_text(separator.join(json.dumps(row) for row in rows) + separator)
    return path


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SAMPLES)))
def test_odd_values_never_surprise(path: Path, tmp_path: Path) -> None:
    source = random.Random(path.name)
    rows, separator = documents_of(path)
    settings = Settings(data_dir=tmp_path)
    for number in range(ROUNDS):
        chosen = copy.copy(rows[:6])
        at = source.randrange(len(chosen))
        chosen[at] = exchanged(chosen[at], source)
        try:
            outcome = read(written(tmp_path / f"{number}", chosen, separator), settings=settings)
        except AppError as refusal:
            assert refusal.detail
            continue
        check(outcome)


def check(outcome: Outcome) -> None:
    for rollout in outcome.rollouts:
        assert rollout.group_id and len(rollout.digest) == 32
        assert {array.shape for array in rollout.tokens.values()} <= {(rollout.length,)}
        assert rollout.reward is None or isinstance(rollout.reward, float)
        assert rollout.step is None or type(rollout.step) is int
        for name in ("split", "data_source", "prompt", "response", "ground_truth", "sample_id"):
            assert isinstance(getattr(rollout, name), str | None), name
        assert rollout.sample_index is None or type(rollout.sample_index) is int
    assert all(problem.message and problem.code for problem in outcome.problems)
    assert outcome.rollouts or any(problem.severity == "error" for problem in outcome.problems)
    rejected = [problem.row for problem in outcome.problems if problem.severity == "error" and problem.row]
    assert len(rejected) == len(set(rejected))
    assert not set(rejected) & {rollout.row for rollout in outcome.rollouts}
