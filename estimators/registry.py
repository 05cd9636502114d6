"""Every estimator by name. A new one is its file and its line here."""

from estimators import (
    dr_grpo,
    gae,
    grpo,
    optimal_token_baseline,
    process_grpo,
    reinforce_plus_plus,
    remax,
    reward_to_go,
    td_error,
    tir_optimal_token_baseline,
)
from estimators.estimator import Estimator

ESTIMATORS: dict[str, Estimator] = {
    "gae": gae.ESTIMATOR,
    "grpo": grpo.ESTIMATOR,
    "dr_grpo": dr_grpo.ESTIMATOR,
    "reinforce_plus_plus": reinforce_plus_plus.ESTIMATOR,
    "remax": remax.ESTIMATOR,
    "optimal_token_baseline": optimal_token_baseline.ESTIMATOR,
    "tir_optimal_token_baseline": tir_optimal_token_baseline.ESTIMATOR,
    "process_grpo": process_grpo.ESTIMATOR,
    "td_error": td_error.ESTIMATOR,
    "reward_to_go": reward_to_go.ESTIMATOR,
}
