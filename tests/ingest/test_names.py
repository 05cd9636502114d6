"""Steps and splits that stand in the names of files and folders, and nothing that does not."""

import pytest

from app.ingest import Source, names
from app.ingest.record import Rollout


def named(name: str, outer: str = "") -> Source:
    return Source(name, b"", lambda: None, None, lambda: 0, lambda _: None, outer=outer)  # type: ignore[arg-type,return-value]


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("train_data_step12.jsonl", (12, names.FILE)),
        ("val_data_step1.jsonl", (1, names.FILE)),
        ("rollout_dump_data.step_5.jsonl", (5, names.FILE)),
        ("token_exports/step_5/rank_3.jsonl", (5, names.FOLDER)),
        ("global_step_40_evals/math.jsonl", (40, names.FOLDER)),
        ("log/iteration_000005/train_rollout_summaries.jsonl", (5, names.FOLDER)),
        ("episodes/train_step_7_epoch_2/episode_hash12ab_id3.json", (7, names.FOLDER)),
        ("step_3/x/step_4/rows.jsonl", (4, names.FOLDER)),
        ("rank_0.jsonl", None),
        ("misstep.jsonl", None),
        ("17.jsonl", None),
        ("step_12345678901234567890.jsonl", None),
    ],
)
def test_steps(name: str, step: tuple[int, str] | None) -> None:
    assert names.step(named(name)) == step


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("17.jsonl", 17),
        ("dir/0005.parquet", 5),
        ("eval_3.pt", 3),
        ("completions_00010.parquet", 10),
        ("last.jsonl", None),
        ("17/rows.jsonl", None),
        ("a17.jsonl", None),
    ],
)
def test_bare_numbers_count_where_a_format_says_so(name: str, step: int | None) -> None:
    found = names.step(named(name), bare=True)
    assert (found and found[0]) == step


@pytest.mark.parametrize(
    ("name", "split"),
    [
        ("train_data_step1.jsonl", "train"),
        ("val_data_step1.jsonl", "val"),
        ("rollouts/step_5/eval/all/traces.jsonl", "val"),
        ("step_5/validation_trajectories.jsonl", "val"),
        ("train/values.jsonl", "train"),
        ("values.jsonl", None),
        ("evaluate.jsonl", None),
        ("trainer/rows.jsonl", None),
        ("eval/train_rollouts.jsonl", "train"),
    ],
)
def test_splits(name: str, split: str | None) -> None:
    found = names.split(named(name))
    assert (found and found[0]) == split


def test_the_archive_counts_as_a_folder() -> None:
    source = named("train_trajectories.jsonl", "run.zip/step_5/train_trajectories.jsonl.zip")
    assert names.step(source) == (5, names.FOLDER)


def test_what_a_row_says_stands() -> None:
    rollout = Rollout(1, step=3)
    names.fill(rollout, (5, names.FILE), ("val", names.FOLDER))
    assert (rollout.step, rollout.split) == (3, "val")
    assert rollout.derived == {"split": names.FOLDER}
