"""verl: every function of its registry of estimators, its KL penalties, whitening and averages of losses."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import peers
import torch
from agreement_batches import Padded
from agreement_pairs import Pair, Peer, weights_of_losses
from torch import Tensor

from estimators import Whitening
from estimators.kl import kl_penalty
from estimators.tokens import whiten
from estimators.whitening import W_VERL

MODES = ("token-mean", "token-sum", "seq-mean-token-sum", "seq-mean-token-mean", "seq-mean-token-sum-norm")
#: The functions that round on the way: ε added to a single-precision 1, a ratio of counts, statistics.
BY_FLOAT = ("grpo", "gpg", "grpo_vectorized", "gdpo")
PENALTIES = ("kl", "k1", "abs", "mse", "k2", "low_var_kl", "k3", "k3+")


class _Config(SimpleNamespace):
    """An `AlgoConfig`: attributes, and `get`."""

    def get(self, name: str, default: Any = None) -> Any:
        return getattr(self, name, default)


def _outcome(algos: Any, name: str, **config: Any) -> Peer:
    """A function of the registry by its name; what it does not take goes into its `**kwargs`."""
    function = algos.get_adv_estimator_fn(name)
    direct = {key: config[key] for key in ("norm_adv_by_std_in_grpo", "f_norm", "epsilon") if key in config}

    def call(given: Padded) -> Tensor:
        found: Tensor = function(
            token_level_rewards=given.rewards,
            response_mask=given.mask,
            index=given.index,
            config=_Config(gamma=config.get("gamma", 1.0), **direct),
            **direct,
        )[0]
        return found

    return call


def _gae(algos: Any, gamma: float, lam: float) -> Peer:
    def call(given: Padded) -> Tensor:
        found: Tensor = algos.compute_gae_advantage_return(
            given.rewards, given.values, given.mask, gamma, lam
        )[0]
        return found

    return call


def _remax(algos: Any) -> Peer:
    def call(given: Padded) -> Tensor:
        found: Tensor = algos.compute_remax_outcome_advantage(
            given.rewards, given.baselines, given.mask, _Config()
        )[0]
        return found

    return call


def _token_baseline(algos: Any, name: str, weighted: bool, tail: bool) -> Peer:
    function = algos.get_adv_estimator_fn(name)

    def call(given: Padded) -> Tensor:
        found: Tensor = function(
            given.rewards, given.mask, given.index, given.old, given.sum_pi,
            given.weights if weighted else None, handle_zero_tail=tail,
        )[0]  # fmt: skip
        return found

    return call


def _gdpo(algos: Any, weights: tuple[float, ...] | None) -> Peer:
    """With components as verl's reward manager leaves them: rows of prompt and response."""

    def call(given: Padded) -> Tensor:
        padded = torch.ones(given.rollouts, 3 + given.width)
        batch = {"prompts": torch.zeros(given.rollouts, 3), "attention_mask": padded.long()}
        config = _Config(gdpo_reward_keys=list(given.components), gdpo_reward_weights=weights)
        found: Tensor = algos.compute_gdpo_outcome_advantage(
            given.rewards, given.mask, given.index, config=config, batch=batch,
            non_tensor_batch={name: value.numpy() for name, value in given.components.items()},
        )[0]  # fmt: skip
        return found

    return call


def _whiten(algos: Any, shift: bool) -> tuple[Peer, Callable[[Padded], Tensor]]:
    def theirs(given: Padded) -> Tensor:
        found: Tensor = algos.verl_F.masked_whiten(given.values, given.mask, shift)
        return found

    def ours(given: Padded) -> Tensor:
        setting = Whitening(**{**{k: getattr(W_VERL, k) for k in W_VERL.__slots__}, "shift_mean": shift})
        return whiten(given.values.flatten(), given.batch(), setting).reshape(given.mask.shape)

    return theirs, ours


def _kl(algos: Any, penalty: str) -> tuple[Peer, Callable[[Padded], Tensor]]:
    return (
        lambda given: algos.kl_penalty(given.old, given.ref, penalty),
        lambda given: kl_penalty(given.old, given.ref, penalty),
    )


def _loss(algos: Any, mode: str, factor: float | None) -> Peer:
    return lambda given: algos.agg_loss(given.values, given.mask, mode, loss_scale_factor=factor).expand(
        given.mask.shape
    )


def _no_components(given: Padded) -> Any:
    return given.batch(components={})  # type: ignore[arg-type] # as a file without them


def _some_token(given: Padded) -> bool:
    return bool((given.mask.sum() > 1).item())


def _registry(algos: Any) -> list[Pair]:
    """One pair at least per entry of the registry."""
    plain: list[tuple[str, str, dict[str, Any]]] = [
        ("grpo", "grpo/verl", {}),
        ("grpo", "grpo/verl", {"epsilon": 1e-3}),
        ("grpo", "dr_grpo/verl", {"norm_adv_by_std_in_grpo": False}),
        ("grpo_vectorized", "grpo_vectorized/verl", {}),
        ("grpo_passk", "grpo_passk/verl", {}),
        ("grpo_passk", "grpo_passk/verl", {"norm_adv_by_std_in_grpo": False}),
        ("gdpo", "gdpo/verl", {}),
        ("reinforce_plus_plus", "reinforce_plus_plus/verl", {}),
        ("reinforce_plus_plus", "reinforce_plus_plus/verl", {"gamma": 0.93}),
        ("reinforce_plus_plus_baseline", "reinforce_plus_plus_baseline/verl", {}),
        ("rloo", "rloo/verl", {}),
        ("rloo_vectorized", "rloo_vectorized/verl", {}),
        ("opo", "opo/verl", {}),
        ("gpg", "gpg/verl", {}),
        ("gpg", "gpg/verl", {"f_norm": 2.5}),
    ]
    return [
        Pair(
            f"verl {name}" + "".join(f", {key} {value}" for key, value in config.items()),
            _outcome(algos, name, **config),
            {"convention": convention, "params": config},
            batch=_no_components if name == "gdpo" else Padded.batch,
            by_float=name in BY_FLOAT,
        )
        for name, convention, config in plain
    ]


def pairs() -> list[Pair]:
    algos = peers.verl()
    made = _registry(algos)
    for gamma, lam in ((1.0, 1.0), (0.99, 0.95), (0.9, 0.0)):
        made.append(
            Pair(
                f"verl gae, gamma {gamma}, lam {lam}",
                _gae(algos, gamma, lam),
                {"convention": "gae/verl", "params": {"gamma": gamma, "lam": lam}},
                on_masked=True,
            )
        )
    made.append(Pair("verl remax", _remax(algos), {"convention": "remax/verl"}, on_masked=True))
    for name in ("optimal_token_baseline", "tir_optimal_token_baseline"):
        for weighted in (False, True):
            for tail in (False, True):
                made.append(
                    Pair(
                        f"verl {name}{', IS weights' * weighted}, tail {tail}",
                        _token_baseline(algos, name, weighted, tail),
                        {"convention": f"{name}/verl", "params": {"handle_zero_tail": tail}},
                        batch=Padded.batch
                        if weighted
                        else lambda given: given.batch(rollout_is_weights=None),
                    )
                )
    for weights in (None, (0.3, 2.0)):
        params = {"gdpo_reward_keys": ["accuracy", "format"], "gdpo_reward_weights": weights}
        given = {key: value for key, value in params.items() if value is not None}
        request = {"convention": "gdpo/verl", "params": given}
        made.append(
            Pair(f"verl gdpo, components, weights {weights}", _gdpo(algos, weights), request, by_float=True)
        )
    for shift in (True, False):
        theirs, ours = _whiten(algos, shift)
        made.append(
            Pair(
                f"verl masked_whiten, shift {shift}", theirs, {}, ours=ours, fits=_some_token, on_masked=True
            )
        )
    for penalty in PENALTIES:
        theirs, ours = _kl(algos, penalty)
        made.append(Pair(f"verl kl_penalty {penalty}", theirs, {}, ours=ours, on_masked=True))
    for mode in MODES:
        for factor in (None, 7.0) if mode.endswith("norm") else (None,):
            ours = weights_of_losses(mode, factor)
            name = f"verl agg_loss {mode}" + f", factor {factor}" * (factor is not None)
            made.append(
                Pair(name, _loss(algos, mode, factor), {}, ours=ours, fits=_some_token, by_float=True)
            )
    return made


def missing_from(made: list[Pair]) -> set[str]:
    """Names of verl's registry that no pair calls."""
    algos = peers.verl()
    said = {pair.name.removeprefix("verl ").split(",")[0] for pair in made}
    return {str(name) for name in algos.ADV_ESTIMATOR_REGISTRY} - said
