"""The estimators as frameworks compute them, as data: an estimator, its parameters and a whitening.

A new convention is an entry in the file of its family.
"""

from estimators.conventions.convention import Alias, Convention
from estimators.conventions.dr_grpo import DR_GRPO
from estimators.conventions.gae import GAE
from estimators.conventions.grpo import GRPO
from estimators.conventions.inert import with_inert
from estimators.conventions.named import checking_names
from estimators.conventions.other import BASELINE, OTHER
from estimators.conventions.reinforce import REINFORCE
from estimators.conventions.rloo import RLOO

__all__ = ["CONVENTIONS", "Alias", "Convention"]

_ALL = tuple(each for family in (GAE, GRPO, DR_GRPO, RLOO, REINFORCE, BASELINE, OTHER) for each in family)

CONVENTIONS: dict[str, Convention] = {each.name: checking_names(with_inert(each), _ALL) for each in _ALL}
