"""Arithmetic in few bits: what group advantages become in it, and which numbers could come from it."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from app.findings.view import Bools, Floats

#: Name, type, bits of the significand (the hidden one included).
FORMATS = (("bfloat16", torch.bfloat16, 8), ("float16", torch.float16, 11))
#: Constants that trainers add to a std. In 16 bits the smaller ones vanish beside any std they can hold.
EPSILONS = (1e-9, 1e-8, 1e-6, 1e-5, 1e-4)


@dataclass(frozen=True, slots=True)
class Emulated:
    """A group's advantages as a trainer computes them: `low` with every step rounded, `exact` in float64.

    `mean` is the rounded group mean, `how` the recipe in words.
    """

    dtype: str
    how: str
    low: Floats
    exact: Floats
    mean: float


def round_to(values: Floats, dtype: torch.dtype) -> Floats:
    """The nearest numbers that the type has."""
    return np.asarray(torch.from_numpy(values).to(dtype).double().numpy(), dtype=np.float64)


def on_grid(values: Floats, dtype: torch.dtype) -> Bools:
    """Which values the type holds exactly."""
    equal: Bools = round_to(values, dtype) == values
    return equal


def step(values: Floats, bits: int) -> Floats:
    """Distance to the next larger number with so many bits; 0 for 0."""
    size = np.abs(values)
    with np.errstate(divide="ignore"):
        found = np.exp2(np.floor(np.log2(size)) - (bits - 1))
    return np.where(size > 0, found, 0.0)


def in_few_bits(rewards: Floats) -> Iterator[Emulated]:
    """A group's advantages with every step in 16 bits, by each recipe; of types that hold the rewards."""
    for name, dtype, _ in FORMATS:
        if not on_grid(rewards, dtype).all():
            continue
        low = torch.from_numpy(rewards).to(dtype)
        centred, mean = low - low.mean(), float(low.mean())
        exact = rewards - rewards.mean()
        yield Emulated(name, "reward − mean", centred.double().numpy(), exact, mean)
        for ddof in (1, 0):
            spread, true = low.std(correction=ddof), rewards.std(ddof=ddof)
            for eps in EPSILONS:
                how = f"(reward − mean) ÷ (std + {eps:g}), ddof {ddof}"
                yield Emulated(
                    name, how, (centred / (spread + eps)).double().numpy(), exact / (true + eps), mean
                )


def one_pass_variance(rewards: Floats) -> float:
    """E[x²] − E[x]² of float32 numbers in float32: negative, or far off, where the mean is large."""
    with np.errstate(over="ignore", invalid="ignore"):  # what does not fit is infinite there, too
        low = rewards.astype(np.float32)
        mean = low.mean(dtype=np.float32)
        return float(np.square(low).mean(dtype=np.float32) - mean * mean)
