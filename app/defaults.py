"""The estimates that Vantage asks for by itself when a batch is in: the file's own convention, else what its
framework computes by default, else GRPO; GAE where there are values."""

from collections.abc import Iterator, Mapping
from typing import Any

from app.configured import BY_DEFAULT, Configured, configured, takes
from app.estimation import outline_of
from app.intake import Shelf
from estimators import CONVENTIONS, Request, missing

FALLBACK = "grpo/verl"
#: Groups are those of the file, whose rows need not be in the order that the framework grouped by.
BY_PLACE = ("group_size", "group_count")
#: What needs components, and as many as it says.
OF_COMPONENTS = ("reward_weights", "reward_keys")


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
    name = said.convention or _usual(said)
    body = _body(name, said, fields)
    if missing(outline_of(fields), Request.from_dict(body)):
        name, body = FALLBACK, {"convention": FALLBACK}
    estimator = CONVENTIONS[name].estimator
    if estimator != "gae" and not alone:
        yield body
    if values:
        yield body if estimator == "gae" else _body("gae/verl", said, fields)


def _usual(said: Configured) -> str:
    """A convention to show where the header names none."""
    named = f"{said.estimator}/verl"
    return BY_DEFAULT.get(said.framework or "") or (named if named in CONVENTIONS else FALLBACK)


def _body(name: str, said: Configured, fields: Mapping[str, str]) -> dict[str, Any]:
    """The convention with what the header sets of it, as far as the batch can be computed with that."""
    convention = CONVENTIONS[name]
    out = BY_PLACE if fields["reward_components"] != "absent" else (*BY_PLACE, *OF_COMPONENTS)
    params = {
        key: value
        for key, value in said.params.items()
        if key not in out and takes(convention, {key: value}) and (name == said.convention or key in PLAIN)
    }
    while params and missing(outline_of(fields), Request.from_dict({"convention": name, "params": params})):
        params.popitem()
    return {"convention": name} | ({"params": params} if params else {})


#: What a header may set of a convention that it does not name.
PLAIN = ("gamma", "lam")
