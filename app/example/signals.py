"""The numbers of the example: tokens, log-probabilities, a critic's values and the recorded advantages.

Everything but the advantages is a multiple of 1/1024, so float32 holds it exactly and the files stay small.
"""

import re
import zlib
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from app.example.wording import Written

Floats = NDArray[np.float64]

# Words in pieces of at most six letters, numbers in pieces of at most two digits, every other sign alone.
PIECE = re.compile(r" ?[A-Za-z]{1,6}| ?\d{1,2}| ?[^\sA-Za-z\d]|    |\s")
END, END_ID, FIRST_ID, IDS = "<|end|>", 2, 16, 8192
LIMIT = 224  # tokens of a response, tool answers included


@lru_cache(maxsize=4096)
def pieces(text: str) -> tuple[str, ...]:
    """The tokens of a text; joined they are the text again."""
    return tuple(PIECE.findall(text))


@lru_cache(maxsize=4096)
def token_id(piece: str) -> int:
    return END_ID if piece == END else FIRST_ID + zlib.crc32(piece.encode()) % (IDS - FIRST_ID)


def tokens_of(written: Written) -> tuple[list[str], list[int], bool]:
    """Tokens and mask of a response, which ends with `END` or is cut at the limit; and whether it was cut."""
    tokens: list[str] = []
    mask: list[int] = []
    for text, by_policy in written:
        found = pieces(text)
        tokens += found
        mask += [int(by_policy)] * len(found)
    return [*tokens, END][:LIMIT], [*mask, 1][:LIMIT], len(tokens) >= LIMIT


def grid(values: Floats) -> Floats:
    """The nearest multiples of 1/1024."""
    return np.round(values * 1024.0) / 1024.0


def log_probs(mask: NDArray[np.uint8], heat: float, drift: float, rng: Generator) -> dict[str, Floats]:
    """Entropies and three log-probabilities per token: before the update, of the reference, of the sampler.

    `heat` scales the entropy in nats, `drift` the distance from the reference. Zero on masked tokens.
    """
    count = len(mask)
    entropies = heat * rng.gamma(0.7, 0.8, count)
    old = -np.minimum(entropies * rng.exponential(0.9, count), 14.0) - 1 / 1024
    reference = old - drift * rng.normal(0.6, 1.0, count) * np.sqrt(entropies + 0.02)
    sampler = old + rng.normal(0.0, 0.012, count) * np.sqrt(entropies + 0.01)
    named = {"old_log_probs": old, "ref_log_probs": reference, "rollout_log_probs": sampler}
    out = {name: grid(np.minimum(values, -1 / 1024)) * mask for name, values in named.items()}
    return {"entropies": grid(entropies) * mask, **{name: values + 0.0 for name, values in out.items()}}


def critic(mask: NDArray[np.uint8], prior: float, reward: float, rng: Generator) -> Floats:
    """Values that begin at what the critic expects of the prompt and near the reward as the text unfolds."""
    count = len(mask)
    seen = 0.85 * np.linspace(0.0, 1.0, count) ** 1.6
    wander = np.cumsum(rng.normal(0.0, 0.012, count)) * (1.0 - seen)
    return grid(prior * (1.0 - seen) + reward * seen + wander + rng.normal(0.0, 0.01, count))


def reward_tokens(mask: NDArray[np.uint8], reward: float) -> Floats:
    """The whole reward on the last token that the policy wrote."""
    out = np.zeros(len(mask))
    out[np.flatnonzero(mask)[-1]] = reward
    return out


def record_advantages(rows: list[dict[str, Any]]) -> None:
    """Adds `advantages` to the rows of one group: A = (s − mean) / (std + 1e-6), ddof 1, zero where masked.

    This is GRPO as verl computes it; the recorded numbers are float32 like a trainer's.
    """
    scores = np.array([row["reward"] for row in rows], dtype=np.float64)
    scaled = (scores - scores.mean()) / (scores.std(ddof=1) + 1e-6)
    for row, advantage in zip(rows, scaled, strict=True):
        row["advantages"] = np.float64(np.float32(advantage)) * np.asarray(row["response_mask"]) + 0.0
