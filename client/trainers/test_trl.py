"""A real GRPO run of TRL on the CPU: two steps of a tiny model with random weights, made here."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl import GRPOConfig, GRPOTrainer

import vantage_client.trl
from vantage_client import Client, Recorder

GROUP = 4
LONGEST = 12


def tokenizer() -> PreTrainedTokenizerFast:
    """A token per byte, so that every response has a text."""
    letters = {chr(i): i for i in range(32, 127)}
    vocabulary = {"<pad>": 0, "<eos>": 1, **{letter: place + 2 for place, letter in enumerate(letters)}}
    bare = Tokenizer(models.WordLevel(vocabulary, unk_token="<pad>"))
    bare.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    return PreTrainedTokenizerFast(tokenizer_object=bare, pad_token="<pad>", eos_token="<eos>")


def model(words: int, folder: Path) -> str:
    """Saved, as TRL loads the reference model from the same place."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=words, hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=2, max_position_embeddings=64, pad_token_id=0, bos_token_id=None, eos_token_id=1,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(folder)
    return str(folder)


def share_of_vowels(completions: list[str], **_: Any) -> list[float]:
    return [sum(letter in "aeiou" for letter in text) / LONGEST for text in completions]


def short(completions: list[str], **_: Any) -> list[float | None]:
    return [None if len(text) == 0 else -len(text) / 100 for text in completions]


@pytest.fixture
def trainer(tmp_path: Path) -> GRPOTrainer:
    words = tokenizer()
    prompts = Dataset.from_list([{"prompt": f"{i} and {i} is"} for i in range(8)])
    settings = GRPOConfig(
        output_dir=str(tmp_path / "out"), max_steps=2, per_device_train_batch_size=2 * GROUP,
        num_generations=GROUP, max_completion_length=LONGEST, use_cpu=True, bf16=False, report_to=[],
        log_completions=True, logging_steps=1, save_strategy="no", reward_weights=[1.0, 0.5], seed=0,
        beta=0.04, disable_tqdm=True,
    )  # fmt: skip
    return GRPOTrainer(
        model=model(len(words), tmp_path / "model"),
        reward_funcs=[share_of_vowels, short],
        args=settings,
        train_dataset=prompts,
        processing_class=words,
    )


def test_two_steps_are_recorded_as_trl_wrote_them(
    trainer: GRPOTrainer, recorder: Recorder, client: Client, tmp_path: Path
) -> None:
    vantage_client.trl.attach(trainer, recorder)
    trainer.train()
    assert recorder.flush(read=True)
    assert (recorder.stats.sent, recorder.stats.dropped, recorder.stats.refused) == (2, 0, 0)
    steps = client.steps(recorder.run)
    assert steps["step"].tolist() == [1, 2]
    assert steps["rollouts"].tolist() == [2 * GROUP] * 2
    assert steps["groups"].tolist() == [2, 2]
    for step, batch in zip((1, 2), steps["batch"], strict=True):
        written = pq.read_table(next(tmp_path.rglob(f"completions_{step:05d}.parquet"))).to_pydict()
        compare(client, batch, written)


def compare(client: Client, batch: str, written: dict[str, list[Any]]) -> None:
    about = client.json(f"/batches/{batch}")
    for name in ("response_ids", "response_mask", "reward", "reward_components", "advantage", "group_id"):
        assert about["fields"][name] == "recorded", name
    for index, advantage in enumerate(written["advantage"]):
        rollout = client.rollout(batch, index)
        assert (rollout["prompt"], rollout["response"]) == (
            written["prompt"][index],
            written["completion"][index],
        )
        parts = {name: written[name][index] for name in ("share_of_vowels", "short")}
        assert rollout["reward_components"] == pytest.approx(parts)
        assert rollout["reward"] == pytest.approx(
            (parts["share_of_vowels"] or 0.0) + 0.5 * (parts["short"] or 0.0), abs=1e-6
        )
        assert rollout["advantage"] == pytest.approx(advantage, abs=1e-6)
        assert len(rollout["response_ids"]) == len(rollout["response_mask"]) <= LONGEST
        assert np.isfinite(rollout["ref_log_probs"]).all()
    made = client.estimate(batch, "grpo/trl-group")
    assert made["state"] == "succeeded"
    computed = client.advantages(made["id"])["advantages"]
    for index, values in enumerate(computed):
        assert values == pytest.approx(np.full(len(values), written["advantage"][index]), abs=1e-4)


def test_a_server_that_is_away_does_not_stop_the_training(trainer: GRPOTrainer, tmp_path: Path) -> None:
    with Recorder("http://127.0.0.1:9", "away", spool=tmp_path / "spool") as recorder:
        vantage_client.trl.attach(trainer, recorder)
        trainer.train()
        assert trainer.state.global_step == 2
        assert not recorder.flush(timeout=0.1)
        assert (recorder.stats.waiting, recorder.stats.dropped) == (2, 0)
        recorder.close(timeout=0)
