"""OpenRLHF's advantages, TRL's trainers between rewards and advantages, and torchrl's GAE."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from agreement_batches import Padded
from agreement_frameworks import OpenRlhf, TorchRl, Trl
from agreement_pairs import Pair, Peer
from torch import Tensor

from estimators import Batch

#: OpenRLHF's name, ours, whether it needs groups of more than one.
OPENRLHF = (
    ("gae", "gae/openrlhf", False),
    ("reinforce", "reinforce_plus_plus/openrlhf", False),
    ("reinforce_baseline", "reinforce_plus_plus_baseline/openrlhf", True),
    ("rloo", "rloo/openrlhf", True),
    ("group_norm", "grpo/openrlhf", True),
    ("dr_grpo", "dr_grpo/openrlhf", True),
)


def _scored(given: Padded, **more: Any) -> Batch:
    """A batch whose rollouts have a reward each and no rewards of tokens."""
    left = replace(given.batch(), token_level_rewards=None, components={})
    return replace(left, **more) if more else left


def _groups(given: Padded) -> bool:
    """Groups stand in a row, all of one size; each response has an unmasked token, as a generator's has."""
    return given.size is not None and bool((given.mask.sum(1) > 0).all() and (given.mask[:, 0] > 0).all())


def _compared(given: Padded) -> bool:
    return _groups(given) and given.size != 1


def _openrlhf() -> list[Pair]:
    code, made = OpenRlhf(), []
    for name, convention, groups in OPENRLHF:
        settings: list[dict[str, Any]] = [{}, {"kl_coef": 0.1}, {"clip_range": (-0.5, 0.5)}]
        if name in ("gae", "reinforce"):
            settings += [{"gamma": 0.97}]
        if name == "gae":
            settings += [{"gamma": 0.97, "lambd": 0.9}]
        if name in ("gae", "reinforce", "reinforce_baseline"):
            settings += [{"no_std_norm": True}]
        settings += [{"overlong_buffer_len": 4.0, "max_new_tokens": 12}, {"stop_properly_penalty_coef": 0.5}]
        for config in settings:
            made.append(_openrlhf_pair(code, name, convention, groups, config))
    return made


def _openrlhf_pair(code: OpenRlhf, name: str, convention: str, groups: bool, config: dict[str, Any]) -> Pair:
    def theirs(given: Padded) -> Tensor:
        kl = code.kl(given.old, given.ref, kl_estimator="k1").to(given.rewards.dtype)
        found: Tensor = code.run(name, given, given.size or 1, kl, **config)[0]
        return found

    names = {
        "clip_range": "reward_clip_range",
        "max_new_tokens": "max_response_length",
        "overlong_buffer_len": "overlong_tokens",
    }
    params = {names.get(key, key): value for key, value in config.items()}
    if "overlong_buffer_len" in config:
        params["overlong_capped"] = True
    said = "".join(f", {key} {value}" for key, value in config.items())
    request = {"convention": convention, "params": params}
    fits = _compared if groups else _groups
    return Pair(f"openrlhf {name}{said}", theirs, request, _scored, fits, single=False, by_float=True)


def _table(given: Padded, absent: bool) -> Tensor:
    """Rewards of functions, `[B, 2]`; where `absent`, NaN for some and for all of some rollouts."""
    table = torch.stack(list(given.components.values()), 1)
    table[:, 0] = given.scores
    if absent:
        where = torch.arange(table.numel()).reshape(table.shape) * 7919 % 11
        table[where < 3] = torch.nan
        table[1::5] = torch.nan
    return table


def _with_components(absent: bool) -> Callable[[Padded], Batch]:
    def batch(given: Padded) -> Batch:
        table = _table(given, absent).double()
        nothing = torch.full_like(given.scores, torch.nan).double()
        return _scored(given, components={"one": table[:, 0], "two": table[:, 1]}, scores=nothing)

    return batch


def _trl() -> list[Pair]:
    code, made = Trl(), []
    shapes: list[tuple[str, str, dict[str, Any]]] = [
        (
            f"grpo, {scale}",
            name,
            {"scale_rewards": scale, "multi_objective_aggregation": "sum_then_normalize"},
        )
        for scale, name in (("group", "grpo/trl-group"), ("batch", "grpo/trl-batch"), ("none", "dr_grpo/trl"))
    ]
    then_sum = {"scale_rewards": "group", "multi_objective_aggregation": "normalize_then_sum"}
    shapes.append(("grpo, normalize_then_sum", "gdpo/trl", then_sum))
    for normalize in (False, True):
        config: dict[str, Any] = {"normalize_advantages": normalize, "beta": 0.0, "reward_clip_range": None}
        shapes.append((f"rloo, normalize_advantages {normalize}", "rloo/trl", config))
    shapes.append(
        (
            "rloo, clip",
            "rloo/trl",
            {"normalize_advantages": False, "beta": 0.0, "reward_clip_range": (-0.5, 0.5)},
        )
    )
    shapes.append(
        ("rloo, beta", "rloo/trl", {"normalize_advantages": False, "beta": 0.05, "reward_clip_range": None})
    )
    for absent in (False, True):
        for name, convention, config in shapes:
            for weights in ((1.0, 1.0), (0.5, 2.0)):
                made.append(_trl_pair(code, name, convention, config, weights, absent))
    return made


def _trl_pair(
    code: Trl, name: str, convention: str, config: dict[str, Any], weights: tuple[float, ...], absent: bool
) -> Pair:
    trainer = name.split(",")[0]

    def theirs(given: Padded) -> Tensor:
        tokens = {
            "old_per_token_logps": given.old, "ref_per_token_logps": given.ref, "completion_mask": given.mask
        }  # fmt: skip
        own = dict(config, tokens=tokens, reward_weights=torch.tensor(weights).to(given.scores))
        return code.advantages(trainer, _table(given, absent), given.size or 1, **own)

    params = {key: value for key, value in config.items() if value is not None}
    request = {"convention": convention, "params": params | {"reward_weights": list(weights)}}
    said = f"trl {name}, weights {weights}" + ", rewards of None" * absent
    return Pair(said, theirs, request, _with_components(absent), _groups, by_float=True)


def _torchrl() -> list[Pair]:
    code, made = TorchRl(), []
    for gamma, lam in ((1.0, 1.0), (0.99, 0.95), (0.9, 0.0)):

        def theirs(given: Padded, gamma: float = gamma, lam: float = lam) -> Tensor:
            done = torch.zeros(*given.mask.shape, 1, dtype=torch.bool)
            done[:, -1] = True
            following = torch.cat([given.values[:, 1:], given.baselines[:, None].to(given.values)], 1)
            found: Tensor = code.gae(
                gamma, lam, given.values[..., None], following[..., None], given.rewards[..., None],
                done, done & given.truncated[:, None, None],
            )[0]  # fmt: skip
            return found[..., 0]

        def batch(given: Padded) -> Batch:
            at_end = {"terminated": given.truncated, "truncated": ~given.truncated}
            return replace(given.batch(), bootstrap_value=given.baselines.double(), **at_end)

        request = {"convention": "gae/torchrl", "params": {"gamma": gamma, "lmbda": lam}}
        made.append(Pair(f"torchrl gae, gamma {gamma}, lmbda {lam}", theirs, request, batch, by_float=True))

    def by_group(given: Padded) -> Tensor:
        found: Tensor = code.by_group(given.scores, given.batch().group)
        return found

    made.append(Pair("torchrl standardize by group", by_group, {"convention": "grpo/torchrl"}, _scored))
    return made


def pairs() -> list[Pair]:
    peer: list[Callable[[], list[Pair]]] = [_openrlhf, _trl, _torchrl]
    return [pair for each in peer for pair in each()]


__all__ = ["Peer", "pairs"]
