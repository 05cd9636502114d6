"""The estimators as frameworks compute them, as data: an estimator, its parameters and a whitening.

A new convention is an entry in the file of its family.
"""

from estimators.conventions.convention import Alias, Convention
from estimators.conventions.dr_grpo import DR_GRPO
from estimators.conventions.gae import GAE
from estimators.conventions.grpo import GRPO
from estimators.conventions.inert import with_inert
from estimators.conventions.other import BASELINE, OTHER
from estimators.conventions.reinforce import REINFORCE
from estimators.conventions.rloo import RLOO

__all__ = ["CONVENTIONS", "Alias", "Convention"]

CONVENTIONS: dict[str, Convention] = {
    convention.name: with_inert(convention)
    for family in (GAE, GRPO, DR_GRPO, RLOO, REINFORCE, BASELINE, OTHER)
    for convention in family
}
