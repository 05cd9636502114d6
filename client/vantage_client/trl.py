"""TRL: record what a `GRPOTrainer` generated, with the reward of every function and the advantages.

`attach` wraps two methods of the trainer object and adds a callback; nothing of TRL is imported. With several
processes the rollouts are gathered and the main one records them.
"""

import logging
import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from vantage_client.columns import copied
from vantage_client.recorder import Recorder

log = logging.getLogger("vantage_client")

Row = dict[str, Any]
#: Our name -> TRL's, of tensors [B, T] over the completion.
PER_TOKEN = {
    "old_log_probs": "old_per_token_logps",
    "rollout_log_probs": "sampling_per_token_logps",
    "ref_log_probs": "ref_per_token_logps",
}
SPLITS = {"train": "train", "eval": "val"}


class Following:
    """Collects the rollouts of a step, which may be generated in several rounds, and records them at its end.

    It is a callback of the trainer, too: whatever events it does not know pass it by.
    """

    def __init__(self, trainer: Any, recorder: Recorder) -> None:
        self.trainer, self.recorder = trainer, recorder
        self.rows: dict[tuple[int, str], list[Row]] = {}
        self.scored: tuple[Any, ...] | None = None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("on_"):
            return lambda *given, **named: None
        raise AttributeError(name)

    def on_step_end(self, args: Any, state: Any, control: Any, **named: Any) -> None:
        self.record("train")

    def on_evaluate(self, args: Any, state: Any, control: Any, **named: Any) -> None:
        self.record("eval")

    def on_train_end(self, args: Any, state: Any, control: Any, **named: Any) -> None:
        self.record("train")

    def record(self, mode: str) -> None:
        for step, kind in [key for key in self.rows if key[1] == mode]:
            rows = self.rows.pop((step, kind))
            if self.trainer.accelerator.is_main_process:
                self.recorder.log(step, rows, split=SPLITS[mode], header=header(self.trainer))

    def take(self, output: Mapping[str, Any]) -> None:
        """The rollouts of one round: what was scored last, with what came of it."""
        trainer, scored = self.trainer, self.scored
        self.scored = None
        if scored is None:
            return
        mode = "train" if trainer.model.training else "eval"
        step = int(trainer.state.global_step) + (mode == "train")
        before = self.rows.setdefault((step, mode), [])
        rows = rows_of(trainer, scored, {name: copied(value) for name, value in output.items()}, mode)
        if trainer.accelerator.num_processes > 1:
            rows = gatherer(trainer)(rows)
        first = len(before)
        size = generations(trainer, mode)
        before += [{"group_id": str((first + i) // size), **row} for i, row in enumerate(rows)]


def attach(trainer: Any, recorder: Recorder) -> Following:
    """Record what the trainer generates from now on. Recording never stops the training."""
    following = Following(trainer, recorder)
    score, generate = trainer._calculate_rewards, trainer._generate_and_score_completions

    def scored(inputs: Any, prompts: Any, completions: Any, ids: Any, *more: Any, **named: Any) -> Any:
        rewards = score(inputs, prompts, completions, ids, *more, **named)
        following.scored = (prompts, completions, ids, rewards)
        return rewards

    def generated(*given: Any, **named: Any) -> Any:
        output = generate(*given, **named)
        guarded(following.take, output)
        return output

    trainer._calculate_rewards, trainer._generate_and_score_completions = scored, generated
    trainer.add_callback(following)
    return following


def guarded(work: Callable[[Any], None], given: Any) -> None:
    try:
        work(given)
    except Exception as error:
        log.warning("vantage: TRL's rollouts were not recorded: %s: %s", type(error).__name__, error)


def rows_of(trainer: Any, scored: tuple[Any, ...], output: Mapping[str, Any], mode: str) -> list[Row]:
    """A row per local rollout."""
    prompts, completions, ids, all_rewards = scored
    first = trainer.accelerator.process_index * len(prompts)
    rewards = copied(all_rewards)[first : first + len(prompts)].astype(np.float64)
    names, weights = list(trainer.reward_func_names), copied(trainer.reward_weights)
    mask = output["completion_mask"]
    if "tool_mask" in output:
        mask = mask * output["tool_mask"]
    made = []
    for i, own in enumerate(ids):
        row: Row = {
            "prompt": prompts[i],
            "response": completions[i],
            "prompt_ids": output["prompt_ids"][i][output["prompt_mask"][i].astype(bool)],
            "response_ids": np.asarray(copied(own)),
            "response_mask": mask[i, : len(own)],
            "reward_components": dict(zip(names, map(known, rewards[i]), strict=True)),
            "reward": None if np.isnan(rewards[i]).all() else float(np.nansum(rewards[i] * weights)),
        }
        row |= {ours: output[name][i, : len(own)] for ours, name in PER_TOKEN.items() if name in output}
        advantages = output["advantages"][i]
        if np.ndim(advantages):
            row["advantages"] = advantages[: len(own)]
        else:
            row["advantage"] = float(advantages)
        made.append(row)
    return made


def known(reward: Any) -> float | None:
    """NaN is what TRL makes of a function that does not apply."""
    return None if np.isnan(reward) else float(reward)


def generations(trainer: Any, mode: str) -> int:
    """Completions of each prompt; they stand one behind the other."""
    own = getattr(trainer, "num_generations_eval", None) if mode == "eval" else None
    return int(own or trainer.num_generations)


def gatherer(trainer: Any) -> Callable[[list[Row]], list[Row]]:
    """accelerate's `gather_object`, as the trainer's own module has it."""
    for kind in type(trainer).__mro__:
        found = getattr(sys.modules.get(kind.__module__), "gather_object", None)
        if found is not None:
            gather: Callable[[list[Row]], list[Row]] = found
            return gather
    raise RuntimeError("the trainer's module has no gather_object; record one process only")


def header(trainer: Any) -> dict[str, Any]:
    """What the trainer's settings say of its advantages."""
    args = trainer.args
    said = {
        "framework": "trl",
        "adv_estimator": "grpo",
        "group_size": generations(trainer, "train"),
        "reward_weights": copied(trainer.reward_weights).tolist(),
        "scale_rewards": getattr(args, "scale_rewards", None),
        "loss_type": getattr(args, "loss_type", None),
        "kl_coef": getattr(args, "beta", None),
        "clip_ratio_low": getattr(args, "epsilon", None),
        "clip_ratio_high": getattr(args, "epsilon_high", None),
    }
    return {name: value for name, value in said.items() if value is not None}
