"""SkyRL's estimators that compare the rollouts of a prompt."""

from tests.cases.build import Builder
from tests.cases.groups.verl import grpo, outcome

UTILS = "skyrl.backends.skyrl_train.utils.ppo_utils"
BUILDERS: dict[str, Builder] = {
    f"{UTILS}.compute_grpo_outcome_advantage": grpo("grpo/skyrl"),
    f"{UTILS}.compute_rloo_outcome_advantage": outcome("rloo/skyrl"),
    f"{UTILS}.compute_maxrl_advantage": outcome("maxrl/skyrl", "epsilon"),
}
