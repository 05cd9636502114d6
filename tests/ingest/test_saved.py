"""Pickled batches give the numbers that were saved; what cannot be read is said; the child has limits."""

import pickle
import random
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from app.inert.files import value
from app.inert.layouts import layout
from app.inert.plain import split
from app.inert.values import Refused
from app.settings import Settings
from tests.ingest.fuzzing.damage import stretches
from tests.ingest.fuzzing.judge import records
from tests.ingest.reading import SAMPLES, Outcome, read, sample
from tests.ingest.test_formats import folder

DATAPROTO = SAMPLES / "verl/dataproto_after_advantage/step_4.dp"
SLIME = SAMPLES / "slime/rollout_data/0.pt"
MUTATED = (
    DATAPROTO, SLIME, SAMPLES / "slime/train_data/0.pt", SAMPLES / "verl/rollout_dump_v1/4/0/tq_batch.pt",
    SAMPLES / "skyrl/dumped_data/global_step_5_training_input.pkl", SAMPLES / "broken/bf16_ok.pt",
)  # fmt: skip


def test_a_dataproto_is_cut_by_its_masks() -> None:
    rollouts = sample("verl/dataproto_after_advantage/step_4.dp").rollouts
    texts = [rollout.tokens["response_ids"] for rollout in sample("canonical/batch.jsonl").rollouts]
    assert [ids.tolist() for ids in texts] == [one.tokens["response_ids"].tolist() for one in rollouts]
    assert [one.prompt_ids.tolist() for one in rollouts if one.prompt_ids is not None] == [
        one.prompt_ids.tolist()
        for one in sample("canonical/batch.jsonl").rollouts
        if one.prompt_ids is not None
    ]
    for rollout in rollouts:
        scores = rollout.tokens["token_level_scores"]
        assert rollout.reward == pytest.approx(float(scores.sum()))
        assert rollout.derived["reward"] == "derived:sum(token_level_scores)"
        assert set(rollout.tokens) >= {"advantages", "returns", "values", "old_log_probs", "ref_log_probs"}


class DataProto:
    """Pickles as verl's does with VERL_DATAPROTO_SERIALIZATION_METHOD=numpy."""

    def __init__(self, state: Any) -> None:
        self.state = state

    def __getstate__(self) -> Any:
        return self.state


def encoded(tensor: torch.Tensor) -> Any:
    data = tensor.flatten().contiguous().view(torch.uint8).numpy()
    return str(tensor.dtype).removeprefix("torch."), tensor.shape, data


@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_the_other_way_of_serialising(protocol: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("verl.protocol")
    monkeypatch.setitem(sys.modules, "verl", types.ModuleType("verl"))
    monkeypatch.setitem(sys.modules, "verl.protocol", module)
    monkeypatch.setattr(DataProto, "__module__", "verl.protocol")
    module.DataProto = DataProto  # type: ignore[attr-defined]
    tensors = {
        "prompts": torch.tensor([[0, 5, 6], [7, 8, 9]]), "responses": torch.tensor([[11, 12, 0], [13, 0, 0]]),
        "attention_mask": torch.tensor([[0, 1, 1, 1, 1, 0], [1, 1, 1, 1, 0, 0]]),
        "response_mask": torch.tensor([[1, 1, 0], [1, 0, 0]]),
        "advantages": torch.tensor([[0.5, 0.25, 0], [-1, 0, 0]], dtype=torch.bfloat16),
    }  # fmt: skip
    state = ((2,), None, {name: encoded(tensor) for name, tensor in tensors.items()})
    uids = np.array(["a", "a"], object)
    path = tmp_path / "step_9.dp"
    path.write_bytes(pickle.dumps(DataProto((state, {"uid": uids}, {"global_steps": 9})), protocol))
    first, second = read(path).rollouts
    assert (first.step, first.group_id, second.group_id) == (9, "a", "a")
    assert first.prompt_ids is not None and first.prompt_ids.tolist() == [5, 6]
    assert first.tokens["response_ids"].tolist() == [11, 12]
    assert first.tokens["advantages"].tolist() == [0.5, 0.25]
    assert second.tokens["response_ids"].tolist() == [13]


def test_skyrl_is_cut_by_its_masks() -> None:
    ours = sample("skyrl/dumped_data/global_step_5_training_input.pkl").rollouts
    truth = sample("canonical/batch.jsonl").rollouts
    assert [one.tokens["response_ids"].tolist() for one in ours] == [
        one.tokens["response_ids"].tolist() for one in truth
    ]
    assert all(one.reward is None and "group_id" in one.derived for one in ours)


def saved(folder: Path, thing: Any, name: str = "7.pt") -> Path:
    torch.save(thing, folder / name)
    return folder / name


def slime_sample(**fields: Any) -> dict[str, Any]:
    base = {
        "group_index": 0, "index": 0, "prompt": "p", "tokens": [1, 2, 3, 4], "response": "r",
        "response_length": 2, "label": "4", "reward": 1.0, "loss_mask": [1, 0], "status": "completed",
        "rollout_log_probs": [-0.5, 0.0], "metadata": {},
    }  # fmt: skip
    return base | fields


def test_numpy_values_in_slimes_rewards(tmp_path: Path) -> None:
    rewards = {"score": np.float32(0.5), "parts": np.array([1.0, 2.0])}
    samples = [
        slime_sample(reward=rewards),
        slime_sample(index=1, reward=np.float64(2)),
        slime_sample(index=2),
    ]
    path = saved(tmp_path, {"rollout_id": 7, "samples": samples})
    first, second, third = read(path).rollouts
    assert (first.reward, second.reward, third.reward) == (0.5, 2.0, 1.0)
    assert first.extra["reward"] == {"parts": [1.0, 2.0]}
    assert (first.step, first.group_id, first.sample_index) == (7, "0", 0)
    assert first.tokens["response_mask"].tolist() == [1, 0]
    assert first.prompt_ids is not None and first.prompt_ids.tolist() == [1, 2]


def test_several_rewards_without_a_score_are_not_chosen_from(tmp_path: Path) -> None:
    path = saved(tmp_path, {"rollout_id": 7, "samples": [slime_sample(reward={"a": 1.0, "b": 2.0})]})
    outcome = read(path)
    assert outcome.rollouts[0].reward is None
    assert outcome.rollouts[0].reward_components == {"a": 1.0, "b": 2.0}
    assert "none of them called score" in outcome.only("reward_parts").message


def test_slimes_two_files_are_joined() -> None:
    names = ["rollout_data/0.pt", "train_data/0.pt"]
    outcome = read(*(SAMPLES / "slime" / name for name in names), names=names)
    assert len(outcome.rollouts) == 16
    assert outcome.only("joined").message.startswith("16 of 16 rows")
    for rollout in outcome.rollouts:
        assert rollout.tokens.keys() >= {"advantages", "old_log_probs", "values", "response_mask"}
        assert rollout.group_id is not None and "group_id" not in rollout.derived
        assert rollout.reward == rollout.reward_components["score"]  # type: ignore[index]


def test_the_ranks_of_the_old_layout_complete_the_rollouts() -> None:
    folder_of = SAMPLES / "slime/legacy_train_data_before_2026-08"
    paths = [SLIME, folder_of / "0_0.pt", folder_of / "0_1.pt"]
    outcome = read(*paths, names=["rollout_data/0.pt", "train_data/0_0.pt", "train_data/0_1.pt"])
    assert len(outcome.rollouts) == 16
    assert all("advantages" in rollout.tokens for rollout in outcome.rollouts)
    assert {rollout.rank for rollout in outcome.rollouts} == {0, 1}


def test_a_class_inside_is_named_with_what_to_do(tmp_path: Path) -> None:
    inside = {"rollout_id": 7, "samples": [slime_sample(metadata={"x": types.SimpleNamespace(a=1)})]}
    sentence = read(saved(tmp_path, inside)).sentence()
    assert "a Python object of types.SimpleNamespace, which cannot be opened safely" in sentence
    assert "torch.save({name: tensor" in sentence


def test_a_tensor_bomb_costs_nothing(tmp_path: Path) -> None:
    bomb = torch.zeros(1).as_strided((10**6, 10**6), (0, 0))
    sentence = read(saved(tmp_path, {"response_ids": bomb, "reward": torch.zeros(2)})).sentence()
    assert "shows 4 bytes as" in sentence


def test_memory_and_time_of_the_child_are_limited(tmp_path: Path) -> None:
    path = tmp_path / "hungry.pkl"
    path.write_bytes(b"\x80\x02]X\x08\x00\x00\x00responseX\x06\x00\x00\x00reward" + b"}" * 1_500_000 + b".")
    little = Settings(pickle_memory_bytes=64 << 20)
    assert "memory" in read(path, settings=little).sentence()
    assert "VANTAGE_PICKLE_SECONDS" in read(path, settings=Settings(pickle_seconds=0.001)).sentence()


def rows_of(data: bytes) -> int:
    found = layout(value(memoryview(data))[0])
    return sum(len(split(row)) for row in found.each())


@pytest.mark.parametrize("path", MUTATED, ids=lambda path: path.name)
def test_damage_ends_in_rows_or_a_refusal(path: Path) -> None:
    source, original, refused = random.Random(path.name), path.read_bytes(), 0
    for _ in range(50):
        try:
            rows_of(stretches(original, source))
        except Refused as refusal:
            refused += 1
            assert str(refusal) and refusal.code
    assert refused > 5


@pytest.mark.parametrize("path", MUTATED, ids=lambda path: path.name)
def test_damaged_files_as_uploads(path: Path, tmp_path: Path) -> None:
    source = random.Random(path.name)
    for number in range(2):
        damaged = tmp_path / f"{number}{path.suffix}"
        damaged.write_bytes(stretches(path.read_bytes(), source))
        assert list(records(read(damaged))) == []


def test_folders_and_zips_give_the_same() -> None:
    whole: Outcome = folder("torchrl_nested")
    assert [rollout.reward for rollout in whole.rollouts] == [1.0, 0.0] * 4
    alone = sample("torchrl_nested/meta.json").sentence()
    assert "upload the whole folder" in alone
