"""Every estimator by name. A new one is its file and its line here."""

from estimators import dr_grpo, gae, grpo, td_error
from estimators.estimator import Estimator

ESTIMATORS: dict[str, Estimator] = {
    "gae": gae.ESTIMATOR,
    "grpo": grpo.ESTIMATOR,
    "dr_grpo": dr_grpo.ESTIMATOR,
    "td_error": td_error.ESTIMATOR,
}
