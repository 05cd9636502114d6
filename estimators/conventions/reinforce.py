"""REINFORCE++ and its relatives as frameworks compute them."""

from estimators.conventions.convention import Convention

REINFORCE: tuple[Convention, ...] = ()
