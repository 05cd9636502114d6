"""The estimates that Vantage asks for by itself when a batch is in: the file's own convention, else what its
framework computes by default, else GRPO; GAE where there are values."""

from collections.abc import Iterator, Mapping
from typing import Any

from app.configured import BY_DEFAULT, configured
from app.estimation import outline_of
from app.intake import Shelf
from estimators import CONVENTIONS, ESTIMATORS, Request, missing

FALLBACK = "grpo/verl"
#: Parameters that a header may set for the convention it names.
PARAMETERS = ("gamma", "lam")


def default_requests(shelf: Shelf) -> Iterator[dict[str, Any]]:
    """Bodies of estimate requests, the main one first."""
    fields, header = shelf.provenance(), shelf.header
    values = fields["values"] != "absent"
    rewards = any(
        fields[name] != "absent"
        for name in ("reward", "reward_components", "token_level_rewards", "token_level_scores")
    )
    if not rewards:
        return
    group_id = fields["group_id"]
    alone = group_id == "absent" or (group_id.startswith("derived:") and len(shelf.groups) == shelf.rollouts)
    said = configured(header, shelf.format)
    name = said.convention or BY_DEFAULT.get(said.framework or "", FALLBACK)
    if missing(outline_of(fields), Request.from_dict({"convention": name})):
        name = FALLBACK
    estimator = CONVENTIONS[name].estimator
    if estimator != "gae" and not alone:
        yield {"convention": name}
    if values:
        name = name if estimator == "gae" else "gae/verl"
        params = given_parameters(header, name)
        yield {"convention": name} | ({"params": params} if params else {})


def given_parameters(header: Mapping[str, Any], convention: str) -> dict[str, float]:
    """γ and λ of the header, where the convention has such parameters and the numbers can be ones."""
    known = ESTIMATORS[CONVENTIONS[convention].estimator].params.__dataclass_fields__
    return {
        name: float(value)
        for name in PARAMETERS
        if name in known
        and isinstance(value := header.get(name), int | float)
        and not isinstance(value, bool)
        and 0 <= value <= 1
    }
