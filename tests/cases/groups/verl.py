"""verl's outcome estimators."""

from typing import Any

from tests.cases.build import Builder, Built, Case, known, rows_from


def _rows(case: Case, **more: Any) -> list[dict[str, Any]]:
    inputs = case["inputs"]
    return rows_from(
        inputs["response_mask"],
        inputs["index"],
        token_level_rewards=inputs.get("token_level_rewards"),
        **more,
    )


def outcome(convention: str, *keys: str) -> Builder:
    """A function of rewards, mask and index; `keys` of its configuration are passed on."""

    def build(case: Case) -> Built:
        body = {"convention": convention, "params": known(case["config"], *keys)}
        return Built(_rows(case), body, case["expected"].get("advantages"))

    return build


def grpo(family: str) -> Builder:
    """GRPO with the std or without."""

    def build(case: Case) -> Built:
        config = case["config"]
        params = known(config, "epsilon", "norm_adv_by_std_in_grpo", "grpo_norm_by_std")
        return Built(
            _rows(case), {"convention": family, "params": params}, case["expected"].get("advantages")
        )

    return build


def grpo_vectorized(case: Case) -> Built:
    """The function itself knows the flag; only the trainer never passes it on."""
    config = case["config"]
    convention = "grpo_vectorized/verl-0.7" if case["version"].startswith("0.7") else "grpo_vectorized/verl"
    body: dict[str, Any] = {"convention": convention, "params": known(config, "epsilon")}
    flag_reaches = "ray_trainer" not in case["function"]
    if flag_reaches and config.get("norm_adv_by_std_in_grpo") is False:
        body = {"convention": "dr_grpo/verl", "grouping": "integer_id"}
    return Built(_rows(case), body, case["expected"].get("advantages"))


def gdpo(case: Case) -> Built:
    components = case["inputs"].get("reward_components")
    rows = _rows(case) if components is None else _rows(case, components=components)
    params = known(case["config"], "epsilon", "gdpo_reward_keys", "gdpo_reward_weights")
    return Built(rows, {"convention": "gdpo/verl", "params": params}, case["expected"]["advantages"])


CORE = "verl.trainer.ppo.core_algos"
BUILDERS: dict[str, Builder] = {
    f"{CORE}.compute_grpo_outcome_advantage": grpo("grpo/verl"),
    f"{CORE}.compute_grpo_vectorized_outcome_advantage": grpo_vectorized,
    f"{CORE}.compute_grpo_passk_outcome_advantage": outcome(
        "grpo_passk/verl", "epsilon", "norm_adv_by_std_in_grpo"
    ),
    f"{CORE}.compute_gdpo_outcome_advantage": gdpo,
    f"{CORE}.compute_reinforce_plus_plus_baseline_outcome_advantage": outcome(
        "reinforce_plus_plus_baseline/verl"
    ),
    f"{CORE}.compute_rloo_outcome_advantage": outcome("rloo/verl"),
    f"{CORE}.compute_rloo_vectorized_outcome_advantage": outcome("rloo_vectorized/verl"),
    f"{CORE}.compute_opo_outcome_advantage": outcome("opo/verl"),
    f"{CORE}.compute_gpg_outcome_advantage": outcome("gpg/verl", "f_norm"),
}
