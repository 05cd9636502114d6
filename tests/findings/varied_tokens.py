"""Troubles of tokens, drawn from a seed: see `varied`."""

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.findings.varied import Random, Varied, mixed, rows_of, sized, standardised

# --- tokens ----------------------------------------------------------------------------------------------


def _gae(rewards: Any, values: Any, gamma: float, lam: float) -> Any:
    """Over every position, 0 behind the end."""
    made, following = np.zeros(len(values)), 0.0
    ahead = np.append(values[1:], 0.0)
    for t in reversed(range(len(values))):
        made[t] = following = rewards[t] + gamma * ahead[t] - values[t] + gamma * lam * following
    return made


def _parameters(random: Random) -> tuple[float, float]:
    return float(random.choice([1.0, 0.99, 0.9])), float(random.choice([0.95, 0.9, 0.8]))


def observation_values(random: Random) -> Varied:
    """GAE over tool tokens whose values mean nothing."""
    gamma, lam = _parameters(random)
    rows = rows_of(random, mixed(random, int(random.integers(2, 5)), 4))
    for row in rows:
        parts = random.integers(2, 6, 3)
        mask = np.repeat([1, 0, 1], parts)
        values = np.where(mask > 0, random.uniform(0.2, 0.9, mask.size), random.normal(0, 8, mask.size))
        rewards = np.zeros(mask.size)
        rewards[-1] = row["reward"]
        row |= {"response_mask": mask.tolist(), "values": values.tolist(), "response_ids": [5] * mask.size}
        row |= {"token_level_rewards": rewards.tolist()}
        row["advantages"] = _gae(rewards, values, gamma, lam).tolist()
    expected = {"recorded": "leaks", "gamma": gamma, "lam": lam}
    return Varied(rows, {"masked_values_leak": expected}, also=("advantages_on_masked_tokens",))


def padding_values(random: Random) -> Varied:
    """The critic goes on behind the end, and its numbers are the next values."""
    gamma, lam = _parameters(random)
    width = int(random.integers(8, 14))
    rows = rows_of(random, mixed(random, int(random.integers(2, 5)), 4))
    for row in rows:
        length = int(random.integers(3, width - 2))
        mask = np.repeat([1, 0], [length, width - length])
        values = np.where(mask > 0, random.uniform(0.2, 0.9, width), random.uniform(5, 9, width))
        rewards = np.zeros(width)
        rewards[length - 1] = row["reward"]
        row |= {"response_mask": mask.tolist(), "values": values.tolist()}
        row |= {"token_level_rewards": rewards.tolist()}
        row["advantages"] = _gae(rewards, values, gamma, lam).tolist()
    expected = {"recorded": "leaks", "gamma": gamma, "lam": lam}
    return Varied(rows, {"masked_values_leak": expected}, also=("advantages_on_masked_tokens",))


def reward_on_observation(random: Random) -> Varied:
    """The episode ends with the environment's words, and in some rollouts the reward stands there."""
    gamma, lam = _parameters(random)
    rows = rows_of(random, mixed(random, int(random.integers(2, 5)), 4))
    wrong: set[int] = set()
    for i, row in enumerate(rows):
        tail = int(random.integers(2, 5)) if random.random() < 0.6 or i == 0 else 0
        mask = np.repeat([1, 0], [int(random.integers(3, 7)), tail])
        values = np.where(mask > 0, random.uniform(0.2, 0.9, mask.size), 0.0)
        rewards = np.zeros(mask.size)
        row["reward"] = row["reward"] or -0.5
        rewards[-1] = row["reward"]
        if tail:
            wrong.add(i)
        row |= {"response_mask": mask.tolist(), "values": values.tolist()}
        row |= {"token_level_rewards": rewards.tolist()}
        row["advantages"] = _gae(rewards, values, gamma, lam).tolist()
    tail = len(rows[0]["response_mask"]) - sum(rows[0]["response_mask"])
    expected = {
        "rollouts_with_masked_reward": len(wrong), "rollouts_with_masked_reward_only": len(wrong),
        "gamma": gamma, "lam": lam, "attenuation": (gamma * lam) ** tail,
    }  # fmt: skip
    code = "reward_on_masked_token"
    also = ("advantages_on_masked_tokens", "masked_values_leak")
    return Varied(rows, {code: expected}, {code: wrong}, also)


def shifted_values(random: Random) -> Varied:
    """V after each token stands where V before it belongs."""
    rows = rows_of(random, mixed(random, int(random.integers(2, 5)), 4))
    for row in rows:
        length = int(random.integers(5, 12))
        whole = random.uniform(0.1, 0.9, length + 1)
        rewards = np.zeros(length)
        rewards[-1] = row["reward"]
        row |= {"response_mask": [1] * length, "token_level_rewards": rewards.tolist()}
        row |= {"values": whole[1:].tolist(), "extra": {"values_full": whole.tolist()}}
        row["advantages"] = (row["reward"] - whole[1:]).tolist()
    return Varied(rows, {"values_misaligned": {}})


def return_reset(random: Random) -> Varied:
    """The sum of rewards starts anew at every tool token."""
    gamma = float(random.choice([0.9, 0.95, 0.99]))
    rows = rows_of(random, [[1.0] * 4] * int(random.integers(2, 5)))
    zero = 0
    for row in rows:
        row["reward"] = float(random.uniform(0.5, 2))
        front, gap, behind = (int(part) for part in random.integers(2, 6, 3))
        mask = np.repeat([1, 0, 1], [front, gap, behind])
        made = np.zeros(mask.size)
        made[-behind:] = row["reward"] * gamma ** np.arange(behind)[::-1]
        made[front + gap - 1] = made[front + gap] * gamma
        rewards = np.zeros(mask.size)
        rewards[-1] = row["reward"]
        zero += front
        row |= {"response_mask": mask.tolist(), "token_level_rewards": rewards.tolist()}
        row["advantages"] = made.tolist()
    expected = {"tokens": len(rows), "zero_before_gap": zero}
    every = set(range(len(rows)))
    code = "advantages_on_masked_tokens"
    return Varied(rows, {code: expected}, {code: every})


def padding_counted(random: Random) -> Varied:
    """Some responses have no end token, and their mask is all ones over the padding."""
    rows = rows_of(random, mixed(random, *sized(random)))
    width, padded, pads = int(random.integers(6, 12)), set(), 0
    for i, row in enumerate(rows):
        length = int(random.integers(3, width - 1))
        wrong = i == 0 or random.random() < 0.2
        words = [f"w{i}.{k}" for k in range(length)]
        tokens = words + ([] if wrong else ["<eos>"])
        mask = [1] * (width if wrong else len(tokens)) + [0] * (0 if wrong else width - len(tokens))
        row["response"] = "".join(tokens + ["<pad>"] * (width - len(tokens)))
        row |= {"response_tokens": tokens + ["<pad>"] * (width - len(tokens)), "response_mask": mask}
        if wrong:
            padded.add(i)
            pads += width - len(tokens)
    expected = {"tokens": pads, "rollouts": len(padded)}
    also = ("missing_eos", "truncated_rollouts", "length_bias")
    return Varied(rows, {"padding_trainable": expected}, {"padding_trainable": padded}, also)


def empty_that_votes(random: Random) -> Varied:
    """Responses of nothing whose reward stands on the last pad and moves their siblings."""
    groups, size = sized(random)
    rewards = mixed(random, groups, size)
    rows, empty = rows_of(random, rewards), set()
    width = int(random.integers(4, 9))
    for g in range(groups):
        if g == 0 or random.random() < 0.3:
            empty.add(g * size + int(random.integers(size)))
    for i, row in enumerate(rows):
        length = 0 if i in empty else int(random.integers(2, width))
        row["reward"] = float(random.uniform(2, 5)) if i in empty else row["reward"]
        given = np.zeros(width)
        given[length - 1] = row["reward"]
        row |= {"response_mask": [1] * length + [0] * (width - length), "token_level_rewards": given.tolist()}
        row["response_tokens"] = [f"w{i}.{k} " for k in range(length)] + ["<pad>"] * (width - length)
        row["response"] = "".join(row["response_tokens"][:length])
    for g in range(groups):
        places = range(g * size, (g + 1) * size)
        made = standardised([rows[i]["reward"] for i in places])
        for i, value in zip(places, made, strict=True):
            row = rows[i]
            row["advantages"] = [float(value) * bit for bit in row["response_mask"]]
    named = {"fully_masked_rollout_votes": empty, "empty_response": empty}
    also = ("reward_past_end", "zero_variance_groups", "length_bias", "outlier_advantages")
    return Varied(rows, {name: {} for name in named}, named, also)


TOKEN_KINDS: dict[str, Callable[[Random], Varied]] = {
    make.__name__: make
    for make in (
        observation_values, padding_values, reward_on_observation, shifted_values, return_reset,
        padding_counted, empty_that_votes,
    )
}  # fmt: skip
