"""Every sample of every framework's format: all rows, their groups and steps, and what the docs say of it."""

from collections import Counter

import pytest

from app.ingest import FORMATS, Rollout
from app.ingest.record import TOKEN_FIELDS
from app.rows import present
from tests.ingest.reading import SAMPLES, Outcome, read

Place = tuple[int | None, str | None]

#: file or folder -> format, rows, sizes of groups, (step, split), tokens in all (None: none), rows rejected
SAMPLE_ROWS: dict[str, tuple[str, int, list[int], list[Place], int | None, int]] = {
    "nemo_rl": ("nemo-rl-steps", 16, [4] * 4, [(1, "train")], 233, 0),
    "prime_rl/token_exports": ("prime-rl-tokens", 24, [4] * 6, [(5, None)], 912, 0),
    "prime_rl/rollouts": ("verifiers-traces", 24, [4] * 6, [(5, "train")], 912, 1),
    "prime_rl_transport/rollouts": ("prime-rl-bin", 16, [4] * 4, [(5, None)], 129, 0),
    "prime_rl_transport/legacy": ("prime-rl-bin", 16, [4] * 4, [(7, None)], 129, 0),
    "inspect_ai/toy_math.eval": ("inspect-eval", 16, [4] * 4, [(None, None)], 131, 0),
    "verifiers/legacy_evals": ("verifiers-results", 24, [4] * 6, [(None, None)], None, 0),
    "areal": ("areal-rollouts", 16, [4] * 4, [(3, "train")], None, 0),
    "open_instruct": ("open-instruct-rollouts", 32, [4] * 8, [(5, None), (6, None)], 466, 0),
    "agent_lightning": ("agent-lightning", 16, [4] * 4, [(5, "train")], None, 0),
    "atropos": ("atropos-groups", 16, [4] * 4, [(None, None)], 233, 0),
    "skyrl/dumped_evals": ("skyrl-evals", 12, [4] * 3, [(5, "val")], 121, 0),
    "ms_swift": ("ms-swift", 32, [4] * 8, [(5, None), (10, None)], None, 0),
    "roll": ("roll-dump", 16, [4] * 4, [(5, None)], None, 0),
    "rl_logging_board": ("rl-logging-board", 32, [4] * 8, [(1, None), (2, None)], 466, 0),
    "rllm": ("rllm-episodes", 8, [4] * 2, [(5, "train")], None, 0),
    "easyr1": ("easyr1-generations", 12, [8, 4], [(None, None)], None, 0),
    "tinker_cookbook": ("tinker-summaries", 16, [4] * 4, [(5, "train")], None, 0),
    "wandb/completions_trl_8.table.json": ("wandb-completions", 16, [4] * 4, [(1, None)], None, 0),
    "wandb/val_generations_0.table.json": ("wandb-generations", 4, [4], [(5, "val")], None, 0),
    "wandb/train_generated_samples_10.table.json": ("wandb-samples", 1, [1], [(11, None)], None, 0),
    "trackio/toy.db": (
        "trackio-db",
        18,
        [4, 4, 4, 4, 2],
        [(1, None), (2, None), (2, "val")],
        None,
        0,
    ),
    "trackio/trace_val-generations-0.jsonl": ("trackio-traces", 1, [1], [(1, "val")], None, 0),
    "inspect_ai/toy_math_log.json": ("inspect-json", 16, [4] * 4, [(None, None)], 131, 0),
    "verl/v0_rollout_data_dir": ("verl-jsonl", 16, [4] * 4, [(1, "train")], None, 0),
    "verl/v1_rollout_data_dir": ("verl-jsonl", 16, [4] * 4, [(3, "train")], None, 0),
    "verl/dataproto_after_advantage": ("verl-dataproto", 16, [4] * 4, [(4, "train")], 233, 0),
    "verl/rollout_dump/demo_proj": ("verl-dataproto", 16, [4] * 4, [(4, None)], 233, 0),
    "slime/rollout_data": ("slime-rollout", 24, [4] * 6, [(0, None), (1, None)], 912, 0),
    "slime/train_data": ("slime-train", 16, [4] * 4, [(0, None)], 233, 0),
    "skyrl/dumped_data": ("skyrl-training", 16, [4] * 4, [(5, None)], 233, 0),
    "broken/bf16_ok.pt": ("saved-tensors", 2, [1, 1], [(None, None)], 8, 0),
    "verl/main_generation_output.parquet": ("verl-generation", 12, [4] * 3, [(None, "test")], None, 0),
    "art/demo": ("art-parquet", 24, [4] * 6, [(5, "train")], None, 0),
    "art/legacy_yaml": ("art-yaml", 12, [4] * 3, [(5, "train")], None, 0),
    "art/legacy_jsonl": ("art-jsonl", 12, [4] * 3, [(6, "train")], None, 0),
    "hf_datasets_save_to_disk": ("arrow", 16, [4] * 4, [(None, None)], 94, 0),
    "torchrl_memmap": ("tensordict-folder", 8, [4] * 2, [(None, None)], 48, 0),
    "torchrl_nested": ("tensordict-folder", 8, [4] * 2, [(None, None)], 48, 0),
    "verl/rollout_dump_v1": ("verl-queue", 8, [4] * 2, [(4, None)], 74, 0),
    "slime/legacy_train_data_before_2026-08": ("slime-train", 16, [4] * 4, [(0, None)], 233, 0),
    "trl": ("trl-parquet", 16, [4] * 4, [(1, None)], None, 0),
}
BY_NAME = {known.name: known for known in FORMATS}


def folder(name: str) -> Outcome:
    """The upload of a sample's folder (or file), with the names that a browser gives."""
    paths = sorted(path for path in (SAMPLES / name).rglob("*") if path.is_file()) or [SAMPLES / name]
    return read(*paths, names=[str(path.relative_to(SAMPLES)) for path in paths])


@pytest.mark.parametrize("name", SAMPLE_ROWS)
def test_a_sample_gives_every_row(name: str) -> None:
    format, rows, sizes, places, tokens, rejected = SAMPLE_ROWS[name]
    outcome = folder(name)
    assert {header.format for header in outcome.headers} == {format}
    assert len(outcome.rollouts) == rows
    assert len(outcome.errors) == rejected
    keys = Counter((rollout.step, rollout.split, rollout.group_id) for rollout in outcome.rollouts)
    assert list(keys.values()) == sizes
    assert {(rollout.step, rollout.split) for rollout in outcome.rollouts} == set(places)
    lengths = [rollout.length for rollout in outcome.rollouts]
    assert (None if set(lengths) == {None} else sum(length or 0 for length in lengths)) == tokens


@pytest.mark.parametrize("name", [name for name, row in SAMPLE_ROWS.items() if BY_NAME[row[0]].about])
def test_the_docs_say_of_a_format_what_its_sample_has(name: str) -> None:
    about = BY_NAME[SAMPLE_ROWS[name][0]].about
    assert about is not None
    rollouts = folder(name).rollouts
    recorded, derived = fields_of(rollouts)
    everywhere = {field for field, count in recorded.items() if count == len(rollouts)}
    assert set(about.recorded) <= everywhere, set(about.recorded) - everywhere
    assert recorded.keys() <= {*about.recorded, *about.sometimes}
    assert derived <= about.derived.keys()
    assert not about.absent.keys() & (recorded.keys() | derived)
    said = [*about.recorded, *about.sometimes, *about.derived, *about.absent]
    assert len(set(about.recorded)) == len(about.recorded)
    assert not set(about.absent) & {*about.recorded, *about.sometimes}
    assert set(said) <= {*Rollout.__dataclass_fields__, *TOKEN_FIELDS}


def fields_of(rollouts: list[Rollout]) -> tuple[Counter[str], set[str]]:
    recorded: Counter[str] = Counter()
    derived: set[str] = set()
    for rollout in rollouts:
        for field in present(rollout):
            if field in rollout.derived:
                derived.add(field)
            else:
                recorded[field] += 1
    return recorded, derived
