"""REINFORCE++ and its relatives as frameworks compute them."""

from dataclasses import replace

from estimators import optimal_token_baseline, reinforce_plus_plus, remax, reward_to_go
from estimators.conventions import keys
from estimators.conventions.convention import Convention
from estimators.whitening import W_POP, W_TRL, W_VERL, Whitening

#: There is no critic whose λ it could be.
_NO_LAMBDA = {"lambd": keys.CHOSEN}
_VERL = reinforce_plus_plus.ReinforcePlusPlusParams(score_location="last_response")

REINFORCE: tuple[Convention, ...] = (
    Convention(
        "reinforce_plus_plus/verl",
        "reinforce_plus_plus",
        _VERL,
        replace(W_VERL, zero_masked=True),
        "verl",
        "0.9.1",
        "The sum is carried over masked tokens, a reward on one is lost; masked tokens are 0 afterwards.",
        keys.VERL,
    ),
    Convention(
        "reinforce_plus_plus/verl-0.8",
        "reinforce_plus_plus",
        replace(_VERL, masked_tokens="reset"),
        replace(W_VERL, zero_masked=True),
        "verl",
        "0.8",
        "The sum starts anew in front of every masked token: nothing before an observation sees the outcome.",
        keys.VERL,
    ),
    Convention(
        "reinforce_plus_plus/openrlhf",
        "reinforce_plus_plus",
        reinforce_plus_plus.ReinforcePlusPlusParams(
            masked_tokens="zero", kl_clamp="openrlhf", kl_penalty="k1", reward_clip_range=(-10.0, 10.0)
        ),
        W_POP,
        "openrlhf",
        "0.11.2",
        "Estimator `reinforce`: masked tokens are steps of reward 0; population std over the batch.",
        {**keys.OPENRLHF, **_NO_LAMBDA},
    ),
    Convention(
        "reinforce_plus_plus/skyrl",
        "reinforce_plus_plus",
        replace(_VERL, masked_tokens="reset"),
        replace(W_TRL, zero_masked=True),
        "skyrl",
        "a9564572",
        "The sum starts anew in front of every masked token, as in verl up to 0.8.",
        {**keys.SKYRL_REINFORCE, **_NO_LAMBDA},
    ),
    Convention(
        "remax/verl",
        "remax",
        remax.RemaxParams(score_location="last_response"),
        Whitening(zero_masked=False),
        "verl",
        "0.9.1",
        "Less the greedy response's reward on unmasked tokens; masked ones keep the sum of later rewards.",
        keys.VERL,
    ),
    Convention(
        "optimal_token_baseline/verl",
        "optimal_token_baseline",
        optimal_token_baseline.TokenBaselineParams(score_location="last_response"),
        Whitening(),
        "verl",
        "0.9.1",
        "Positions are columns of the padded row; the longest response's tail starts at a count of tokens.",
        keys.VERL,
    ),
    Convention(
        "tir_optimal_token_baseline/verl",
        "tir_optimal_token_baseline",
        optimal_token_baseline.TokenBaselineParams(score_location="last_response"),
        Whitening(),
        "verl",
        "0.9.1",
        "Positions are numbers of unmasked tokens.",
        keys.VERL,
    ),
    Convention(
        "reward_to_go",
        "reward_to_go",
        reward_to_go.ToGoParams(),
        Whitening(),
        None,
        None,
        "Rewards still to come as they are; masked tokens are skipped.",
        {**keys.ROLL_SUMS, **_NO_LAMBDA},
    ),
)
