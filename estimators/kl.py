"""Estimates of the KL divergence to the reference policy, one per token, from two log-probabilities."""

from typing import Literal

from torch import Tensor

Penalty = Literal[
    "kl",
    "k1",
    "abs",
    "mse",
    "k2",
    "low_var_kl",
    "k3",
    "kl+",
    "k1+",
    "abs+",
    "mse+",
    "k2+",
    "low_var_kl+",
    "k3+",
]
Clamp = Literal["verl", "openrlhf", "nemo", "slime", "none"]

_KIND = {"kl": "k1", "mse": "k2", "low_var_kl": "k3"}
#: Bounds of log π_ref − log π before it is used.
_INPUT = {("verl", "k3"): (-20.0, 20.0), ("openrlhf", "k3"): (-10.0, None)} | {
    ("nemo", kind): (-20.0, 20.0) for kind in ("k1", "abs", "k2", "k3")
}


def kl_penalty(log_probs: Tensor, ref_log_probs: Tensor, penalty: str, clamp: Clamp = "verl") -> Tensor:
    """With Δ = log π − log π_ref: k1 = Δ, abs = |Δ|, k2 = Δ²/2, k3 = e^−Δ + Δ − 1. Same shape as the input.

    Clamps by framework: `verl` for k3 only, −Δ to ±20 and the result to ±10. `openrlhf` −Δ to at least −10
    for k3, every result to ±10. `nemo` −Δ to ±20 and the result to ±10, always. `slime` the result to ±10
    where the estimate is called low_var_kl, else nothing. `none` (TRL, AReaL, tinker) nothing. A trailing
    "+" changes only the gradient, so it changes nothing here.
    """
    given = penalty.removesuffix("+")
    kind = _KIND.get(given, given)
    if kind not in ("k1", "abs", "k2", "k3"):
        raise ValueError(f"kl_penalty is {penalty!r}; give one of kl, abs, mse, low_var_kl.")
    inverse = ref_log_probs - log_probs
    bounds = _INPUT.get((clamp, kind))
    if bounds is not None:
        inverse = inverse.clamp(*bounds)
    result = _estimate(inverse, kind)
    bounded = {
        "verl": kind == "k3",
        "openrlhf": True,
        "nemo": True,
        "slime": given == "low_var_kl",
        "none": False,
    }
    return result.clamp(-10.0, 10.0) if bounded[clamp] else result


def _estimate(inverse: Tensor, kind: str) -> Tensor:
    """The estimate from log π_ref − log π."""
    if kind == "k1":
        return -inverse
    if kind == "abs":
        return inverse.abs()
    if kind == "k2":
        return 0.5 * inverse.square()
    return inverse.exp() - inverse - 1.0
