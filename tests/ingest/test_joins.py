"""Several files that are one upload: joined by key, told what is missing, double or in conflict."""

import io
import json
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.ingest import Rollout
from tests.ingest.reading import SAMPLES, Outcome, read

PRIME = SAMPLES / "prime_rl"
TRACES = "rollouts/step_5/train/all/traces.jsonl"
RANKS = ("token_exports/step_5/rank_0.jsonl", "token_exports/step_5/rank_1.jsonl")
MARKER = "token_exports/step_5/STABLE"
ALL = (TRACES, *RANKS, MARKER)


def prime(*names: str, changed: dict[str, Path] | None = None) -> Outcome:
    paths = [(changed or {}).get(name, PRIME / name) for name in names]
    return read(*paths, names=names)


def episodes() -> list[dict[str, Any]]:
    return [json.loads(line) for line in (PRIME / TRACES).read_text().splitlines()]


def written(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def same(one: Rollout, other: Rollout) -> bool:
    equal = all(np.array_equal(a, other.tokens[name], equal_nan=True) for name, a in one.tokens.items())
    return equal and one.tokens.keys() == other.tokens.keys() and one.extra == other.extra


def test_traces_are_completed_from_the_exports() -> None:
    outcome = prime(*ALL)
    assert outcome.only("joined").message.startswith("24 of 24 rows of verifiers or prime-rl episodes")
    assert {header.format for header in outcome.headers} == {"verifiers-traces"}
    for rollout in outcome.rollouts:
        assert {"old_log_probs", "entropies"} <= rollout.tokens.keys()
        assert rollout.rank is not None and rollout.extra["prime-rl-tokens.sample_id"].startswith("rank")
    exact = outcome.rollouts[0].tokens["rollout_log_probs"][0]
    assert exact == -0.10115750133991241  # the export's, which the trace has rounded
    assert not outcome.said("join_missing") and not outcome.said("join_left")


def test_the_order_of_the_files_decides_nothing() -> None:
    first, second = prime(*ALL), prime(*reversed(ALL))
    assert [r.sample_id for r in first.rollouts] == [r.sample_id for r in second.rollouts]
    assert all(same(a, b) for a, b in zip(first.rollouts, second.rollouts, strict=True))


@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_an_archive_of_the_folder_is_the_same_upload(kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"run.{kind}"
    if kind == "zip":
        with zipfile.ZipFile(path, "w") as archive:
            for name in ALL:
                archive.writestr(f"run/{name}", (PRIME / name).read_bytes())
    else:
        with tarfile.open(path, "w:gz") as archive_tar:
            for name in ALL:
                data = (PRIME / name).read_bytes()
                info = tarfile.TarInfo(f"run/{name}")
                info.size = len(data)
                archive_tar.addfile(info, io.BytesIO(data))
    packed, plain = read(path), prime(*ALL)
    assert all(same(a, b) for a, b in zip(packed.rollouts, plain.rollouts, strict=True))
    assert packed.only("joined").message == plain.only("joined").message


def test_a_rank_that_is_not_there_is_told() -> None:
    outcome = prime(TRACES, RANKS[1])
    missing = outcome.only("join_missing").message
    assert outcome.only("joined").message.startswith("12 of 24 rows")
    assert "no row of prime-rl token exports, JSONL belongs to it" in missing
    assert len(outcome.rollouts) == 24
    assert "numbers 0 are not in the upload" in outcome.only("missing_files").message
    assert "token_exports/step_5/STABLE is not in the upload" in outcome.only("no_marker").message


def test_exports_without_a_trace_stay_rows_of_their_own(tmp_path: Path) -> None:
    few = written(tmp_path / "few.jsonl", episodes()[:10])
    outcome = prime(*ALL, changed={TRACES: few})
    assert len(outcome.rollouts) == 24
    left = outcome.rollouts[10:]
    assert all(rollout.reward is None and "old_log_probs" in rollout.tokens for rollout in left)
    assert {rollout.file for rollout in left} <= set(RANKS)
    assert "kept as a row of its own" in outcome.only("join_left").message
    assert {header.format for header in outcome.headers} == {"verifiers-traces", "prime-rl-tokens"}


def test_a_conflict_is_listed_and_the_fuller_row_stands(tmp_path: Path) -> None:
    rows = episodes()
    rows[0]["traces"][0]["nodes"][-1]["advantages"] = [9.0] * 13
    outcome = prime(*ALL, changed={TRACES: written(tmp_path / "changed.jsonl", rows)})
    conflict = outcome.only("join_conflict")
    assert conflict.field == "advantages" and "(row 1)" in conflict.message
    assert set(outcome.rollouts[0].tokens["advantages"].tolist()) == {9.0}
    assert "old_log_probs" in outcome.rollouts[0].tokens


def test_equal_sequences_are_paired_by_what_else_they_record(tmp_path: Path) -> None:
    """Two samples with the same tokens: the log-probs say which export belongs to which."""
    outcome = prime(*ALL)
    assert not outcome.said("join_conflict")
    texts = [rollout.response for rollout in outcome.rollouts]
    assert len(set(texts)) < len(texts)


def test_the_same_export_twice_counts_once() -> None:
    names = (*ALL, "copy/rank_0.jsonl")
    outcome = prime(*names, changed={"copy/rank_0.jsonl": PRIME / RANKS[0]})
    assert len(outcome.said("duplicate_row")) == 12
    assert len(outcome.rollouts) == 24


def test_effective_traces_are_among_all(tmp_path: Path) -> None:
    effective = "rollouts/step_5/train/effective/traces.jsonl"
    some = written(tmp_path / "effective.jsonl", episodes()[:8])
    outcome = prime(TRACES, effective, changed={effective: some})
    assert len(outcome.rollouts) == 24
    assert len(outcome.said("duplicate_row")) == 8


def test_metadata_alone_is_no_upload() -> None:
    for name, word in (
        ("verifiers/legacy_evals/toy-math--toy-0.1b/a1b2c3d4/metadata.json", "verifiers results"),
        ("open_instruct/toy_grpo__1__1764400000_metadata.jsonl", "open-instruct traces"),
        ("skyrl/dumped_evals/global_step_5_evals/aggregated_results.jsonl", "SkyRL evaluation dump"),
        ("tinker_cookbook/log/iteration_000005/train_logtree.json", "rollout summaries"),
    ):
        sentence = read(SAMPLES / name).sentence()
        assert "send it together with" in sentence and word in sentence


def test_metadata_goes_with_the_rows_of_its_folder_only() -> None:
    folder = SAMPLES / "verifiers/legacy_evals/toy-math--toy-0.1b/a1b2c3d4"
    paths = (folder / "results.jsonl", folder / "metadata.json")
    beside = read(*paths, names=["a/results.jsonl", "a/metadata.json"])
    assert beside.headers[0].raw["model"] == "toy-0.1b"
    apart = read(*paths, names=["a/results.jsonl", "b/metadata.json"])
    assert "model" not in apart.headers[0].raw
    assert apart.only("companion").severity == "warning"


def test_metadata_of_one_run_goes_with_the_files_of_that_name() -> None:
    folder = SAMPLES / "open_instruct"
    rows, metadata = sorted(folder.iterdir(), key=lambda path: path.name, reverse=True)
    outcome = read(rows, metadata, names=["other_rollouts_000000.jsonl", metadata.name])
    assert "git_commit" not in outcome.headers[0].raw
    assert outcome.headers[0].run == "other"


def test_a_summary_names_the_files_that_are_missing() -> None:
    folder = SAMPLES / "rllm/logs/demo/toy/episodes/train_step_5_epoch_0"
    paths = [path for path in sorted(folder.iterdir()) if "task0_3" not in path.name]
    outcome = read(*paths)
    assert "1 of 8 files" in outcome.only("missing_files").message
    assert "task0_3" in outcome.only("missing_files").message


def test_a_gap_in_the_numbers_of_shards_is_told() -> None:
    rows = SAMPLES / "open_instruct/toy_grpo__1__1764400000_rollouts_000000.jsonl"
    outcome = read(rows, names=["x_rollouts_000002.jsonl"])
    assert "numbers 0 and 1 are not in the upload" in outcome.only("missing_files").message
