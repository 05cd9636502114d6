"""The other estimators that compare rollouts, as frameworks compute them."""

from dataclasses import replace
from typing import Any

from estimators import dpo_implicit_reward, gdpo, gpg, grpo_passk, maxrl, opo, process_grpo, rae, running
from estimators.batch_z import BatchZParams
from estimators.conventions import group_keys as keys
from estimators.conventions.convention import Alias, Convention
from estimators.conventions.keys import CHOSEN, WHITEN
from estimators.reinforce_plus_plus_baseline import ReinforcePlusPlusBaselineParams
from estimators.whitening import W_POP, W_VERL, Whitening

_VOTE: dict[str, Any] = {"fully_masked": "vote", "nonfinite": "spread"}
#: A running mean keeps what it was given: one NaN would spoil all later steps.
_FINITE: dict[str, Any] = {"fully_masked": "vote"}
_VERL: keys.Keys = {"adv_estimator": CHOSEN}
_NO_EPSILON: keys.Keys = {**_VERL, "epsilon": CHOSEN}

BASELINE = (
    Convention(
        "reinforce_plus_plus_baseline/verl",
        "reinforce_plus_plus_baseline",
        ReinforcePlusPlusBaselineParams(singleton="raw", **_VOTE),
        replace(W_VERL, zero_masked=True),
        "verl",
        "0.9.1",
        "A group of one keeps its score. Whitened over the batch's unmasked tokens: long responses weigh "
        "more.",
        {**_NO_EPSILON, "gamma": CHOSEN},
    ),
    Convention(
        "reinforce_plus_plus_baseline/openrlhf",
        "reinforce_plus_plus_baseline",
        ReinforcePlusPlusBaselineParams(
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
        W_POP,
        "openrlhf",
        "0.11.2",
        "`reinforce_baseline`: clipped, the KL of later tokens taken off, then whitened over the batch's "
        "tokens with the population std; refuses groups of one.",
        keys.OPENRLHF_WHITENED,
    ),
    Convention(
        "reinforce_plus_plus_baseline/rllm",
        "reinforce_plus_plus_baseline",
        ReinforcePlusPlusBaselineParams(**_VOTE),
        Whitening("batch", unit="response", ddof=0, eps=1e-6, eps_placement="added"),
        "rllm",
        "0.3.0.pre",
        "A group of one has 0. Divided by the population std over the batch's responses + 1e-6.",
        {
            "norm_adv_by_std_in_grpo": Alias("scale", whitening=True),
            "epsilon": Alias("eps", whitening=True),
        },
    ),
    Convention(
        "reinforce_plus_plus/nemo",
        "reinforce_plus_plus_baseline",
        ReinforcePlusPlusBaselineParams(kl_placement="token", kl_clamp="nemo", kl_penalty="k3", **_VOTE),
        W_POP,
        "nemo-rl",
        "0.6.0",
        "The score less the group's mean (minus_baseline) on every token, less each token's own KL; no sum "
        "over later tokens. A group of one has 0 before whitening with the population std.",
        {
            **keys.NEMO,
            "normalize_rewards": CHOSEN,
            "use_kl_in_reward": Alias("use_kl_in_reward"),
            "normalize_advantages": WHITEN,
        },
    ),
)

OTHER = (
    Convention(
        "opo/verl",
        "opo",
        opo.OpoParams(singleton="raw", **_VOTE),
        Whitening(),
        "verl",
        "0.9.1",
        "A group of one keeps its score.",
        _NO_EPSILON,
    ),
    Convention(
        "gpg/verl",
        "gpg",
        gpg.GpgParams(singleton="raw", **_VOTE),
        Whitening(),
        "verl",
        "0.9.1",
        "A group of one has α times its score; α changes with the share of scores that are exactly 0.",
        {**_NO_EPSILON, "alpha": CHOSEN},
    ),
    Convention(
        "grpo_passk/verl",
        "grpo_passk",
        grpo_passk.GrpoPasskParams(singleton="refuse", **_VOTE),
        Whitening(),
        "verl",
        "0.9.1",
        "Sample std of the group + 1e-6; refuses groups of one; ties for the best give 0.",
        _VERL,
    ),
    Convention(
        "gdpo/verl",
        "gdpo",
        gdpo.GdpoParams(singleton="raw", **_VOTE),
        replace(W_VERL, zero_masked=True),
        "verl",
        "0.9.1",
        "Each component as grpo/verl, then whitened over the batch's tokens. Without components the one "
        "reward; the trainer does not pass norm_adv_by_std_in_grpo on, so it changes nothing.",
        {**keys.GDPO_VERL, "norm_adv_by_std_in_grpo": CHOSEN},
    ),
    Convention(
        "gdpo/trl",
        "gdpo",
        gdpo.GdpoParams(epsilon=1e-4, unscored="zero", score="reward", rounding="nan", **_VOTE),
        Whitening("batch", unit="response", eps=1e-4, eps_placement="added", too_few="skip"),
        "trl",
        "1.16.0",
        "`normalize_then_sum`: each component over its sample std + 1e-4, then a z-score over the batch's "
        "responses. Unscored rollouts are left out and get 0.",
        keys.TRL_GDPO,
    ),
    Convention(
        "gdpo/nemo",
        "gdpo",
        gdpo.GdpoParams(
            zero_std="keep",
            use_leave_one_out_baseline=True,
            one_reward="refuse",
            weight_order="alphabetical",
            **_VOTE,
        ),
        Whitening("batch", unit="response", eps=0.0, eps_placement="added", too_few="skip"),
        "nemo-rl",
        "0.6.0",
        "Each component as grpo/nemo-loo, then a z-score over the batch's responses without ε. A list of "
        "weights is for the components in alphabetical order; fewer than two are refused.",
        keys.NEMO,
    ),
    Convention(
        "maxrl/skyrl",
        "maxrl",
        maxrl.MaxrlParams(singleton="raw", nonpositive_mean="divide", segments="last", **_VOTE),
        Whitening(),
        "skyrl",
        "a9564572",
        "A group of one keeps its score; a negative mean turns every sign of its group.",
        {"advantage_estimator": CHOSEN},
    ),
    Convention(
        "maxrl/prime-rl",
        "maxrl",
        maxrl.MaxrlParams(epsilon=0.0, segments="last", **_VOTE),
        Whitening(),
        "prime-rl",
        "0.8.0",
        "A group of one has 0, and so has a group whose mean is not above 0.",
        keys.PRIME,
    ),
    Convention(
        "batch_z/rllm",
        "batch_z",
        BatchZParams(ddof=0, **_VOTE),
        Whitening(),
        "rllm",
        "0.3.0.pre",
        "`prpo`: population std of the batch + 1e-6.",
        {"norm_adv_by_std_in_grpo": keys.only(True, "the estimator batch_z")},
    ),
    Convention(
        "batch_z/areal",
        "batch_z",
        BatchZParams(epsilon=1e-5, score="reward", **_VOTE),
        Whitening(),
        "areal",
        "1.0.4",
        "`reward_norm` batch/batch: sample std + 1e-5.",
        keys.AREAL_BATCH,
    ),
    Convention(
        "batch_z/roll",
        "batch_z",
        BatchZParams(score="reward", **_VOTE),
        Whitening(),
        "roll",
        "0.3.0",
        "`reward_norm` batch/batch: sample std + 1e-6.",
        keys.ROLL_BATCH,
    ),
    Convention(
        "running/roll",
        "running",
        running.RunningParams(domains="refuse", score="reward", **_FINITE),
        Whitening(),
        "roll",
        "0.3.0",
        "Moments of all steps so far, this one included. ROLL fails for tasks with names of their own; give "
        "domains: each for what is meant.",
        keys.ROLL_RUNNING,
    ),
    Convention(
        "rae/prime-rl",
        "rae",
        rae.RaeParams(segments="last", **_FINITE),
        Whitening(),
        "prime-rl",
        "0.8.0",
        "A running mean of each environment, and of each agent in it where there are several, kept to 95 % "
        "with every score; it starts at 0.",
        keys.PRIME,
    ),
    Convention(
        "process_grpo/atropos",
        "process_grpo",
        process_grpo.ProcessGrpoParams(),
        Whitening(),
        "atropos",
        "296a0bc5",
        "Population std over all steps of the group; groups of equal step rewards are refused.",
        keys.ATROPOS,
    ),
    Convention(
        "dpo_implicit_reward",
        "dpo_implicit_reward",
        dpo_implicit_reward.DpoImplicitRewardParams(),
        Whitening(),
        None,
        None,
        "β times the log-ratio of policy and reference, token by token.",
    ),
)
