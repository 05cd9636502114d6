"""Seeded random batches of every shape that a trainer may meet, padded as frameworks hold them."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from estimators import Batch, factorize


@dataclass(frozen=True)
class Padded:
    """`B` responses of width `T`, double precision but for the mask, which frameworks are given as floats.

    rewards, mask, values, old, ref, sum_pi, weights  `[B, T]`
    scores, baselines                                 `[B]`
    index                                             `[B]` ids of the prompts, objects as verl has them
    components                                        name -> `[B]`
    truncated                                         `[B]` bool
    size                                              rollouts of a prompt where all have as many in a row
    """

    what: str
    rewards: Tensor
    mask: Tensor
    values: Tensor
    old: Tensor
    ref: Tensor
    sum_pi: Tensor
    weights: Tensor
    scores: Tensor
    baselines: Tensor
    index: np.ndarray[Any, np.dtype[Any]]
    components: dict[str, Tensor]
    truncated: Tensor
    size: int | None

    @property
    def rollouts(self) -> int:
        return self.mask.shape[0]

    @property
    def width(self) -> int:
        return self.mask.shape[1]

    def single(self) -> "Padded":
        """The same numbers as single precision holds them, the double-precision ones among them rounded."""
        tensors = {name: value for name, value in vars(self).items() if isinstance(value, Tensor)}
        rounded = {name: value.float() for name, value in tensors.items() if value.is_floating_point()}
        parts = {name: value.float() for name, value in self.components.items()}
        return replace(self, **rounded, components=parts)

    def batch(self, **leave_out: None) -> Batch:
        """Every cell a token of its rollout, as a file with padded arrays is read."""
        groups = factorize([str(each) for each in self.index])[0]
        fields: dict[str, Any] = {
            "token_level_rewards": self.rewards.flatten(),
            "values": self.values.flatten(),
            "old_log_probs": self.old.flatten(),
            "ref_log_probs": self.ref.flatten(),
            "sum_pi_squared": self.sum_pi.flatten(),
            "rollout_is_weights": self.weights.flatten(),
            "reward_baseline": self.baselines.double(),
            "components": {name: value.double() for name, value in self.components.items()},
            "truncated": self.truncated,
            "reward_nan": torch.isnan(self.scores),
        }
        return Batch(
            torch.arange(self.rollouts + 1) * self.width,
            self.mask.flatten().bool(),
            groups,
            self.scores.double(),
            **(fields | leave_out),
        )


def _sizes(random: np.random.Generator, kind: str) -> list[int]:
    if kind == "one":
        return [1]
    if kind == "singletons":
        return [1] * int(random.integers(2, 9))
    if kind == "equal":
        return [int(random.integers(2, 9))] * int(random.integers(1, 7))
    return [int(size) for size in random.integers(1, 8, int(random.integers(2, 7)))]


def _ids(random: np.random.Generator, sizes: list[int], interleaved: bool) -> np.ndarray[Any, Any]:
    kinds: list[Callable[[int], str]] = [
        lambda g: f"{random.integers(1 << 62):016x}-{g}",
        lambda g: str(g),
        lambda g: f"prompt “{g}” naïve",
        lambda g: f"{g:05d}x",
    ]
    name = kinds[int(random.integers(len(kinds)))]
    names = [name(g) for g in range(len(sizes))]
    order = np.repeat(np.arange(len(sizes)), sizes)
    if interleaved:
        order = random.permutation(order)
    return np.array([names[g] for g in order], dtype=object)


def _mask(random: np.random.Generator, rollouts: int, width: int) -> Tensor:
    """Ragged ends, masked spans in between, empty responses, rows masked from end to end, full rows."""
    mask = np.zeros((rollouts, width))
    for row in mask:
        kind = random.random()
        if kind < 0.08:
            continue
        end = width if kind < 0.3 else int(random.integers(1, width + 1))
        row[:end] = 1
        if kind > 0.5 and end > 2:
            at = int(random.integers(0, end))
            row[at : at + int(random.integers(1, end))] = 0
    return torch.from_numpy(mask)


def _scores(random: np.random.Generator, index: np.ndarray[Any, Any]) -> tuple[str, Tensor]:
    kind = ("binary", "normal", "constant groups", "offset", "all zero", "signs", "tiny", "ties")[
        int(random.integers(8))
    ]
    count = len(index)
    group = factorize([str(each) for each in index])[0].numpy()
    made = {
        "binary": lambda: random.integers(0, 2, count).astype(float),
        "normal": lambda: random.normal(size=count),
        "constant groups": lambda: (group % 5) * 0.25 + np.where(group % 2, random.normal(size=count), 0.0),
        "offset": lambda: 1e6 + random.integers(-64, 65, count) / 64,
        "all zero": lambda: np.zeros(count),
        "signs": lambda: random.choice([-1.0, 1.0], count),
        "tiny": lambda: random.normal(size=count) * 1e-3,
        "ties": lambda: random.choice([0.0, 0.25, 0.5, 1.0], count),
    }[kind]()
    return kind, torch.from_numpy(made)


def _token_rewards(random: np.random.Generator, scores: Tensor, mask: Tensor, kind: int) -> Tensor:
    """All of it on the last unmasked token, on the last cell, or spread over the unmasked ones."""
    rewards = torch.zeros_like(mask)
    last = (mask * torch.arange(1, mask.shape[1] + 1)).argmax(1)
    if kind == 0:
        rewards[torch.arange(len(scores)), last] = scores
    elif kind == 1:
        rewards[:, -1] = scores
    else:
        rewards = torch.from_numpy(random.normal(size=mask.shape)) * mask
        rewards[torch.arange(len(scores)), last] += scores
    return rewards


def nasty(seed: int) -> Padded:
    """A batch of a seed with what breaks arithmetic: groups of 8 and 16 equal rewards that are no binary
    fractions, NaN and infinite rewards, spreads whose squares overflow, ids that look like numbers."""
    random = np.random.default_rng([seed, 1])
    size = int(random.choice([1, 3, 8, 16]))
    groups = int(random.integers(2, 5))
    sizes = [size] * groups if seed % 2 else [int(random.choice([1, 2, 8, 16])) for _ in range(groups)]
    ids = [("7", "07", "1e3", "1.2"), ("7", "07", "70", "+7"), ("a", "b", "c", "d")][seed % 3]
    index = np.array([ids[g] for g, own in enumerate(sizes) for _ in range(own)], dtype=object)
    place = np.repeat(np.arange(groups), sizes)
    level = random.choice([0.1, 0.3, 0.7, 100.1], groups)[place]
    kind = ("equal", "equal and mixed", "NaN", "infinite", "huge")[seed % 5]
    scores = level.copy()
    if kind != "equal":
        scores = np.where(place == 0, level, level + random.normal(size=len(index)))
    if kind in ("NaN", "infinite", "huge"):
        scores[int(random.integers(len(index)))] = {"NaN": np.nan, "infinite": np.inf, "huge": 1e200}[kind]
    plain = make(seed)
    width = int(random.integers(1, 6))
    mask = _mask(random, len(index), width)
    cells, made = (len(index), width), torch.from_numpy(scores)
    old = torch.from_numpy(-random.exponential(size=cells))
    return replace(
        plain,
        what=f"nasty {seed}: {len(index)}×{width}, {kind}",
        rewards=_token_rewards(random, made, mask, seed % 2),
        mask=mask,
        values=torch.from_numpy(random.normal(size=cells)),
        old=old,
        ref=old + torch.from_numpy(random.normal(size=cells) * 0.1),
        sum_pi=old.exp().square(),
        weights=torch.from_numpy(random.uniform(0, 2, size=cells)),
        scores=made,
        baselines=torch.from_numpy(random.normal(size=len(index))),
        index=index,
        components={
            name: torch.from_numpy(random.choice([0.1, 0.7], len(index))) for name in ("accuracy", "format")
        },
        truncated=torch.from_numpy(random.random(len(index)) < 0.2),
        size=size if seed % 2 else None,
    )


def make(seed: int) -> Padded:
    """The batch of a seed."""
    random = np.random.default_rng(seed)
    shape = ("one", "singletons", "equal", "equal", "mixed", "mixed", "mixed")[seed % 7]
    sizes = _sizes(random, shape)
    interleaved = shape == "mixed" and bool(random.integers(2))
    index = _ids(random, sizes, interleaved)
    rollouts, width = len(index), int(random.integers(1, 40))
    mask = _mask(random, rollouts, width)
    kind, scores = _scores(random, index)
    place = int(random.integers(3))
    cells = (rollouts, width)
    old = torch.from_numpy(-random.exponential(size=cells))
    return Padded(
        f"seed {seed}: {rollouts}×{width}, {shape}, {kind}, rewards {place}",
        rewards=_token_rewards(random, scores, mask, place),
        mask=mask,
        values=torch.from_numpy(random.normal(size=cells)),
        old=old,
        ref=old + torch.from_numpy(random.normal(size=cells) * random.choice([0.01, 1.0, 12.0])),
        sum_pi=old.exp().square() + torch.from_numpy(random.uniform(size=cells)) * (1 - old.exp()).square(),
        weights=torch.from_numpy(random.uniform(0, 2, size=cells)),
        scores=scores,
        baselines=torch.from_numpy(random.normal(size=rollouts)),
        index=index,
        components={name: torch.from_numpy(random.normal(size=rollouts)) for name in ("accuracy", "format")},
        truncated=torch.from_numpy(random.random(rollouts) < 0.2),
        size=sizes[0] if shape in ("equal", "one") else None,
    )
