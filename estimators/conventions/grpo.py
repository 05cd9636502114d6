"""GRPO as frameworks compute it."""

from dataclasses import replace
from typing import Any

from estimators.conventions import group_keys as keys
from estimators.conventions.convention import Convention
from estimators.grpo import GrpoParams
from estimators.whitening import Whitening

#: Fully masked rollouts stand in the statistics of every framework.
_VOTE: dict[str, Any] = {"fully_masked": "vote", "nonfinite": "spread"}
_TRL: dict[str, Any] = {
    **_VOTE, "singleton": "zero", "unscored": "zero", "score": "reward", "rounding": "nan"
}  # fmt: skip
_VERL = GrpoParams(singleton="raw", segments="last", **_VOTE)
_AREAL = GrpoParams(epsilon=1e-5, std_around="baseline", incomplete="raw", score="reward", **_VOTE)


def _grpo(
    framework: str, version: str, params: GrpoParams, note: str, aliases: keys.Keys, name: str | None = None
) -> Convention:
    name = name or f"grpo/{framework}"
    grouping = "integer_id" if name.startswith("grpo_vectorized") else "group_id"
    return Convention(name, "grpo", params, Whitening(), framework, version, note, aliases, grouping)


GRPO = (
    _grpo(
        "verl",
        "0.9.1",
        _VERL,
        "Sample std of the group + 1e-6; a group of one keeps its score. Of several outputs of one "
        "rollout_id the last one is compared, and the others get its advantage.",
        keys.VERL,
    ),
    _grpo(
        "trl",
        "1.16.0",
        GrpoParams(**_TRL, epsilon=1e-4),
        "Sample std of the group + 1e-4; unscored rollouts are left out and get 0.",
        keys.TRL,
        "grpo/trl-group",
    ),
    _grpo(
        "trl",
        "1.16.0",
        GrpoParams(**_TRL, epsilon=1e-4, scale_rewards="batch"),
        "Centred by group, divided by the sample std of all raw scores of the batch + 1e-4.",
        keys.TRL,
        "grpo/trl-batch",
    ),
    _grpo(
        "trl",
        "1.16.0",
        GrpoParams(**_TRL, epsilon=1e-8, ddof=0, statistics="plain"),
        "Asynchronous trainer: population std of the group + 1e-8, reward functions summed unweighted.",
        keys.TRL,
        "grpo/trl-async",
    ),
    _grpo(
        "openrlhf",
        "0.11.2",
        GrpoParams(
            epsilon=1e-9,
            rounding="rows",
            singleton="refuse",
            score="reward",
            advantage_clip_low=-10.0,
            advantage_clip_high=10.0,
            kl_placement="to_go",
            kl_clamp="openrlhf",
            kl_penalty="k1",
            **_VOTE,
        ),
        "`group_norm`: sample std + 1e-9, then clipped to reward_clip_range; refuses groups of one. With "
        "kl_coef every token also has the KL of all later ones taken off.",
        keys.OPENRLHF,
    ),
    _grpo(
        "nemo-rl",
        "0.6.0",
        GrpoParams(zero_std="keep", **_VOTE),
        "Without leave-one-out: sample std + 1e-6, only where it is above 0; a group of one has 0.",
        keys.NEMO,
        "grpo/nemo",
    ),
    _grpo(
        "nemo-rl",
        "0.6.0",
        GrpoParams(zero_std="keep", use_leave_one_out_baseline=True, **_VOTE),
        "Mean and std of the siblings without the response; where those are equal, or only one, not divided.",
        keys.NEMO,
        "grpo/nemo-loo",
    ),
    _grpo(
        "slime",
        "624b824a",
        GrpoParams(singleton="nan", incomplete="batch", score="reward", rounding="centred", **_VOTE),
        "Sample std + 1e-6; a group of one is undefined. With n_samples_per_prompt groups are by position, "
        "and a batch of another size than expected becomes one group.",
        keys.SLIME,
    ),
    _grpo(
        "areal",
        "1.0.4",
        _AREAL,
        "Sample std + 1e-5. With group_size groups are by position, and rollouts left over are divided by "
        "1e-5.",
        keys.AREAL_GRPO,
    ),
    _grpo(
        "areal",
        "1.0.4",
        replace(_AREAL, scale_rewards="batch"),
        "Centred by group, divided by the std over the batch around the group means + 1e-5.",
        keys.AREAL_GRPO,
        "grpo/lite-ppo",
    ),
    _grpo(
        "roll",
        "0.3.0",
        GrpoParams(singleton="nan", incomplete="refuse", score="reward", rounding="rows", **_VOTE),
        "Sample std + 1e-6; a group of one is undefined. With n_sample groups are by position.",
        keys.ROLL_NORM,
    ),
    _grpo(
        "open-instruct",
        "e6c3044a",
        GrpoParams(epsilon=1e-8, ddof=0, statistics="plain", incomplete="refuse", score="reward", **_VOTE),
        "`standard`: population std + 1e-8. By position with num_samples_per_prompt_rollout; a batch that "
        "does not fill its groups is refused.",
        keys.OPEN_INSTRUCT,
    ),
    _grpo(
        "rllm",
        "0.3.0.pre",
        GrpoParams(ddof=0, singleton="raw", **_VOTE),
        "Population std + 1e-6; a group of one keeps its score.",
        keys.RLLM,
    ),
    _grpo(
        "torchrl",
        "0.14.1",
        GrpoParams(epsilon=1e-4, eps_placement="floor", rounding="scattered", **_VOTE),
        "Sample std, at least 1e-4 (MCAdvantage: 1e-6). trajectory_return null, or grpo_size without "
        "it as MCAdvantage has it, standardises token by token.",
        keys.TORCHRL,
    ),
    _grpo(
        "skyrl",
        "a9564572",
        _VERL,
        "Sample std of the group + 1e-6; a group of one keeps its score. Steps of one trajectory get the "
        "advantage of its last one.",
        keys.SKYRL,
    ),
    _grpo(
        "verl",
        "0.9.1",
        replace(_VERL, statistics="single", segments="each"),
        "Mean and std in single precision. Ids that are whole numbers, or can be cut to one, count as those; "
        "the trainer does not pass norm_adv_by_std_in_grpo on, so it changes nothing.",
        keys.VERL_VECTORIZED,
        "grpo_vectorized/verl",
    ),
    _grpo(
        "verl",
        "0.7",
        replace(_VERL, variance_floor=1e-6, statistics="single", segments="each"),
        "The variance is at least 1e-6, which shrinks the advantages of groups with a smaller one.",
        keys.VERL_VECTORIZED,
        "grpo_vectorized/verl-0.7",
    ),
)
