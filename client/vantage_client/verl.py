"""verl: record the trainer's batch (`DataProto`) as it comes out of `compute_advantage`.

`attach` is for the trainer of `verl.trainer.ppo.ray_trainer`, in the process that runs `fit()`; `record`
takes any batch that has tensors under `batch` and arrays under `non_tensor_batch`. Nothing of verl is
imported until `attach` is called.
"""

import functools
import importlib
import itertools
import logging
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from vantage_client.columns import Columns, copied
from vantage_client.recorder import Recorder

log = logging.getLogger("vantage_client")

#: Our name -> verl's, of tensors [B, R] over the response.
PER_TOKEN = {
    "response_ids": "responses",
    "response_mask": "response_mask",
    "rollout_log_probs": "rollout_log_probs",
    "old_log_probs": "old_log_probs",
    "ref_log_probs": "ref_log_prob",
    "token_level_scores": "token_level_scores",
    "token_level_rewards": "token_level_rewards",
    "values": "values",
    "entropies": "entropys",
    "advantages": "advantages",
    "returns": "returns",
    "sum_pi_squared": "sum_pi_squared",
    "rollout_is_weights": "rollout_is_weights",
}
SCORES = ("token_level_scores", "rm_scores", "token_level_rewards")
#: Of `config.algorithm`, into the batch's header.
SETTINGS = ("adv_estimator", "gamma", "lam", "norm_adv_by_std_in_grpo", "use_kl_in_reward", "kl_penalty")


def columns(data: Any, tokenizer: Any = None) -> Columns:
    """The batch as columns. Padding is left out as the attention mask says; texts need the tokenizer.

    Raises KeyError where there are no `responses`.
    """
    tensors = {name: copied(data.batch[name]) for name in data.batch.keys()}  # noqa: SIM118 - a TensorDict
    responses = tensors["responses"]
    rows, width = responses.shape
    attention = tensors.get("attention_mask")
    lengths = np.full(rows, width) if attention is None else _ends(attention[:, attention.shape[1] - width :])
    made: Columns = {
        ours: tensors[theirs] for ours, theirs in PER_TOKEN.items() if tensors.get(theirs) is not None
    }
    made["response_lengths"] = lengths
    prompts = tensors.get("prompts")
    if prompts is not None and attention is not None:
        kept = attention[:, : prompts.shape[1]].astype(bool)
        made["prompt_ids"] = [row[mask] for row, mask in zip(prompts, kept, strict=True)]
    for name in SCORES:
        if name in tensors:
            made["reward"] = tensors[name].sum(axis=-1, dtype=np.float64)
            break
    if "reward_baselines" in tensors:
        made["reward_baseline"] = tensors["reward_baselines"]
    made |= _of_rows(data.non_tensor_batch, rows)
    if tokenizer is not None:
        made["prompt"] = [tokenizer.decode(ids) for ids in made.get("prompt_ids", ())] or None
        made["response"] = [
            tokenizer.decode(row[:end]) for row, end in zip(responses, lengths.tolist(), strict=True)
        ]
    return made


def _ends(mask: Any) -> Any:
    """Behind the last 1 of each row: padding is at the right end of a response."""
    width = mask.shape[1]
    last = width - np.argmax(mask[:, ::-1].astype(bool), axis=1)
    return np.where(mask.any(axis=1), last, 0)


def _of_rows(given: Mapping[str, Any], rows: int) -> Columns:
    """What verl keeps per row outside of tensors: group, task, ground truth, parts of the reward."""
    made: Columns = {}
    for name, values in given.items():
        column = [_plain(value) for value in values]
        if len(column) != rows:
            continue
        if name == "uid":
            made["group_id"] = [str(value) for value in column]
        elif name == "data_source":
            made["data_source"] = [None if value is None else str(value) for value in column]
        elif name == "reward_model":
            truths = [value.get("ground_truth") if isinstance(value, Mapping) else None for value in column]
            made["ground_truth"] = [None if value is None else str(value) for value in truths]
        elif name == "raw_prompt":
            made.setdefault("prompt", column)
        elif all(isinstance(value, (int, float, str, bool, type(None))) for value in column):
            made[name if name not in PER_TOKEN else f"{name}_of_verl"] = column
    return made


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value


def record(
    recorder: Recorder,
    step: int | None,
    data: Any,
    tokenizer: Any = None,
    header: Mapping[str, Any] | None = None,
) -> None:
    """Record a batch after its advantages. Never raises."""
    try:
        made = columns(data, tokenizer)
    except Exception as error:
        log.warning("vantage: verl's batch was not recorded: %s: %s", type(error).__name__, error)
        return
    recorder.log(step, made, header={"framework": "verl", **(header or {})})


def attach(
    recorder: Recorder, tokenizer: Any = None, step: Callable[[Any], int] | None = None, module: Any = None
) -> Callable[[], None]:
    """Record every batch that `compute_advantage` gives; call what is returned to stop.

    step: from the batch; by default its `meta_info["global_steps"]`, else a count from 1. `module`: where
    the trainer finds `compute_advantage`, by default `verl.trainer.ppo.ray_trainer`.
    """
    place: Any = module or importlib.import_module("verl.trainer.ppo.ray_trainer")
    original = place.compute_advantage
    counted = itertools.count(1)

    @functools.wraps(original)
    def recorded(data: Any, *given: Any, **named: Any) -> Any:
        made = original(data, *given, **named)
        try:
            number = step(made) if step is not None else made.meta_info.get("global_steps", next(counted))
        except Exception as error:
            number = next(counted)
            log.warning("vantage: no step in verl's batch (%s); counted as %d", error, number)
        said = {name: named[name] for name in SETTINGS if name in named}
        record(recorder, number, made, tokenizer, {name: _setting(value) for name, value in said.items()})
        return made

    place.compute_advantage = recorded

    def detach() -> None:
        place.compute_advantage = original

    return detach


def _setting(value: Any) -> Any:
    """An enumeration's value, else the setting itself."""
    return getattr(value, "value", value)
