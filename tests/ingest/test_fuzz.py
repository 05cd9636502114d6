"""Seeded damage to good files: it ends in records, sentences or a limit, never in a surprise."""

import random
from pathlib import Path

import pytest

from app.errors import AppError
from app.settings import Settings
from tests.ingest.reading import SAMPLES, Outcome, read

SEEDS = [
    "canonical/batch.jsonl",
    "canonical/batch.parquet",
    "canonical/batch.npz",
    "canonical/batch_ragged.npz",
    "canonical/batch.safetensors",
    "verl/v0_rollout_data_dir/1.jsonl",
    "verl/v1_rollout_data_dir/3.jsonl",
    "trl/conversational_completions/completions_00001.parquet",
    "broken/rollouts.jsonl.gz",
    "broken/rollouts.jsonl.zst",
    "broken/pretty_printed_array.json",
    "broken/needs_class.pt",
    "broken/pickle_bomb.pkl",
    "broken/spreadsheet_export.csv",
    "agent_lightning/step_5/train_trajectories.jsonl.zip",
    "prime_rl/rollouts/step_5/train/all/traces.jsonl",
    "nemo_rl/exp_001/train_data_step1.jsonl",
    "rllm/logs/demo/toy/episodes/train_step_5_epoch_0/episode_hash868594ee_idtask1_0.json",
    "wandb/completions_trl_8.table.json",
    "trackio/trace_val-generations-0.jsonl",
    "easyr1/checkpoints/generations.log",
    "roll/rollout_dump_data.step_5.jsonl",
    "hf_datasets_save_to_disk/data-00000-of-00001.arrow",
    "trackio/toy.db",
    "inspect_ai/toy_math.eval",
    "prime_rl_transport/rollouts/step_5/rank_0.bin",
    "prime_rl_transport/legacy/step_7/rollouts.bin",
    "art/legacy_yaml/trajectories/train/0005.yaml",
    "art/demo/models/toy-001/trajectories/train/0005.parquet",
]
MUTATIONS = 14  # of each file
SPLICES = (
    b"\0",
    b"\xff\xff\xff\xff",
    b"[" * 70,
    b"{",
    b'"',
    b"NaN",
    b"1e999",
    b"\n",
    b"null",
    b"9" * 25,
    b"\x80\x04",
    b"PK\x03\x04",
)


def mutated(data: bytes, random: random.Random) -> bytes:
    """One to four changes: a stretch flipped, overwritten, doubled, lost or cut, or something foreign."""
    for _ in range(random.randint(1, 4)):
        position = random.randrange(max(1, len(data)))
        length = random.choice((1, 1, 4, 50))
        stretch = data[position : position + length]
        match random.randrange(6):
            case 0:
                new = bytes(byte ^ 1 << random.randrange(8) for byte in stretch)
            case 1:
                new = random.randbytes(len(stretch))
            case 2:
                new = stretch * 2
            case 3:
                new = b""
            case 4:
                return data[:position]
            case _:
                new = random.choice(SPLICES)
        data = data[:position] + new + data[position + length :]
    return data


@pytest.mark.parametrize("name", SEEDS)
def test_damage_never_surprises(name: str, tmp_path: Path) -> None:
    source = random.Random(name)
    original = (SAMPLES / name).read_bytes()
    settings = Settings(data_dir=tmp_path, max_expanded_bytes=64 << 20)
    for number in range(MUTATIONS):
        path = tmp_path / f"{number}"
        path.write_bytes(mutated(original, source))
        try:
            outcome = read(path, settings=settings)
        except AppError as refusal:
            assert refusal.detail
            continue
        check(outcome)


def check(outcome: Outcome) -> None:
    """A record is whole, a sentence says something, and a file without rows says why."""
    for rollout in outcome.rollouts:
        assert rollout.group_id and len(rollout.digest) == 32
        assert {array.shape for array in rollout.tokens.values()} <= {(rollout.length,)}
        assert rollout.response is not None or "response_ids" in rollout.tokens or rollout.response_tokens
    assert all(problem.message and problem.code for problem in outcome.problems)
    assert outcome.rollouts or any(problem.severity == "error" for problem in outcome.problems)
    rejected = [problem.row for problem in outcome.problems if problem.severity == "error" and problem.row]
    assert len(rejected) == len(set(rejected))
    assert not set(rejected) & {rollout.row for rollout in outcome.rollouts}
