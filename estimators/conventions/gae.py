"""GAE as frameworks compute it, and one-step errors."""

from estimators import gae, td_error
from estimators.conventions.convention import Alias, Convention
from estimators.whitening import W_POP, W_VERL, Whitening

_LAMBD = {"lambd": Alias("lam")}
_OPENRLHF_KEYS = {
    **_LAMBD,
    "no_std_norm": Alias("scale", whitening=True, negate=True),
    "init_coef": Alias("kl_coef"),
    "kl_estimator": Alias("kl_penalty"),
}

GAE = (
    Convention(
        "gae/verl",
        "gae",
        gae.GaeParams(score_location="last_response"),
        W_VERL,
        "verl",
        "0.9.1",
        "Masked tokens are skipped, so a reward on one is lost; whitened over the batch's unmasked tokens.",
    ),
    Convention(
        "gae/verl-0.4",
        "gae",
        gae.GaeParams(score_location="last_response", masked_tokens="plain"),
        W_VERL,
        "verl",
        "0.4",
        "Masked tokens take part with their recorded values; whitened over the batch's unmasked tokens.",
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
        _OPENRLHF_KEYS,
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
