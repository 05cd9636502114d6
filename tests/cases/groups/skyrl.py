"""SkyRL's estimators that compare the rollouts of a prompt."""

from tests.cases.build import Builder
from tests.cases.groups.verl import grpo

UTILS = "skyrl.backends.skyrl_train.utils.ppo_utils"
BUILDERS: dict[str, Builder] = {f"{UTILS}.compute_grpo_outcome_advantage": grpo}
