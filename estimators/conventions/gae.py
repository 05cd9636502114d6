"""GAE as frameworks compute it, and one-step errors."""

from dataclasses import replace

from estimators import gae, td_error
from estimators.conventions import keys
from estimators.conventions.convention import Convention
from estimators.whitening import W_AREAL, W_POP, W_TORCHRL, W_TRL, W_VERL, Whitening

GAE = (
    Convention(
        "gae/verl",
        "gae",
        gae.GaeParams(score_location="last_response"),
        W_VERL,
        "verl",
        "0.9.1",
        "Masked tokens are skipped, so a reward on one is lost; whitened over the batch's unmasked tokens.",
        keys.VERL,
    ),
    Convention(
        "gae/verl-0.4",
        "gae",
        gae.GaeParams(score_location="last_response", masked_tokens="plain"),
        W_VERL,
        "verl",
        "0.4",
        "Masked tokens take part with their recorded values; whitened over the batch's unmasked tokens.",
        keys.VERL,
    ),
    Convention(
        "gae/openrlhf",
        "gae",
        gae.GaeParams(
            masked_tokens="zero", kl_clamp="openrlhf", kl_penalty="k1", reward_clip_range=(-10.0, 10.0)
        ),
        W_POP,
        "openrlhf",
        "0.11.2",
        "Masked tokens count as reward 0 and value 0 and cost one step of γλ; population std over the batch.",
        keys.OPENRLHF,
    ),
    Convention(
        "gae/nemo",
        "gae",
        gae.GaeParams(mask_rewards=True, kl_clamp="nemo", kl_penalty="k3"),
        replace(W_VERL, zero_masked=True),
        "nemo-rl",
        "0.6.0",
        "Masked tokens are skipped; the reward is on the last unmasked one; masked tokens are 0 afterwards.",
        keys.NEMO,
    ),
    Convention(
        "gae/areal",
        "gae",
        gae.GaeParams(
            score_location="last_response",
            bootstrap="no_eos",
            without_values="zero",
            kl_clamp="none",
            kl_penalty="k1",
            reward_clip_range=(-20.0, 20.0),
        ),
        replace(W_AREAL, scope="none", zero_masked=False),
        "areal",
        "1.0.4",
        "Masked tokens are skipped; rollouts that were cut off go on with `bootstrap_value`; `reward_norm` "
        "and `adv_norm` as configured, both off by default. Without values, as its GRPO recipes run, they "
        "are 0.",
        keys.AREAL,
    ),
    Convention(
        "gae/skyrl",
        "gae",
        gae.GaeParams(score_location="last_response", masked_tokens="plain"),
        W_TRL,
        "skyrl",
        "a9564572",
        "Masked tokens take part with their recorded values and keep what whitening leaves there.",
        keys.SKYRL_GAE,
    ),
    Convention(
        "gae/roll",
        "gae",
        gae.GaeParams(
            score_location="last_response",
            masked_tokens="plain",
            mask_rewards=True,
            kl_clamp="none",
            lam=0.95,
        ),
        replace(W_VERL, zero_masked=True, too_few="skip"),
        "roll",
        "0.3.0",
        "Rewards on masked tokens are 0, values there are not; whitening is skipped where one token is left.",
        keys.ROLL,
    ),
    Convention(
        "gae/slime",
        "gae",
        gae.GaeParams(
            score_location="last_response", masked_tokens="plain", kl_clamp="slime", kl_on_masked=True
        ),
        replace(W_TRL, scope="none"),
        "slime",
        "624b824a",
        "Masked tokens take part with their values and their KL; the reward is on the last token whatever "
        "its mask; whitened only where `normalize_advantages` is set.",
        keys.SLIME,
    ),
    Convention(
        "gae/trl-ppo",
        "gae",
        gae.GaeParams(
            score_location="after_last",
            masked_tokens="one_behind",
            kl_clamp="none",
            kl_penalty="k1",
            whiten_rewards_shift=False,
            lam=0.95,
        ),
        replace(W_TRL, zero_masked=True),
        "trl",
        "1.9.0",
        "The reward, and a value, one place behind the last token where the padded row has one.",
        keys.TRL_PPO,
    ),
    Convention(
        "gae/torchrl",
        "gae",
        gae.GaeParams(score_location="last_response", masked_tokens="plain", bootstrap="recorded"),
        replace(W_TORCHRL, scope="none"),
        "torchrl",
        "0.14.1",
        "No mask; goes on with `bootstrap_value` unless the rollout terminated, and with `next_values` where "
        "they are recorded; whitened only where `average_gae` is set.",
        keys.TORCHRL,
    ),
    Convention(
        "td_error",
        "td_error",
        td_error.TdErrorParams(),
        Whitening(),
        None,
        None,
        "One-step errors as they are; masked tokens are skipped.",
    ),
)
