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
Clamp = Literal["verl", "openrlhf", "none"]

_KIND = {"kl": "k1", "mse": "k2", "low_var_kl": "k3"}


def kl_penalty(log_probs: Tensor, ref_log_probs: Tensor, penalty: str, clamp: Clamp = "verl") -> Tensor:
    """With Δ = log π − log π_ref: k1 = Δ, abs = |Δ|, k2 = Δ²/2, k3 = e^−Δ + Δ − 1. Same shape as the input.

    `verl` clamps for k3 only: −Δ to ±20, the result to ±10. `openrlhf` clamps −Δ to at least −10 for k3 and
    every result to ±10. A trailing "+" changes only the gradient, so it changes nothing here.
    """
    kind = penalty.removesuffix("+")
    kind = _KIND.get(kind, kind)
    delta = log_probs - ref_log_probs
    if kind == "k1":
        result = delta
    elif kind == "abs":
        result = delta.abs()
    elif kind == "k2":
        result = 0.5 * delta.square()
    elif kind == "k3":
        inverse = -delta
        if clamp == "verl":
            inverse = inverse.clamp(-20.0, 20.0)
        elif clamp == "openrlhf":
            inverse = inverse.clamp(min=-10.0)
        result = inverse.exp() - inverse - 1.0
        if clamp == "verl":
            return result.clamp(-10.0, 10.0)
    else:
        raise ValueError(f"kl_penalty is {penalty!r}; give one of kl, abs, mse, low_var_kl.")
    return result.clamp(-10.0, 10.0) if clamp == "openrlhf" else result
