"""What a key of a framework's configuration does to advantages: the vocabulary of the tables."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from app.configured.header import Settings

Kind = Literal["sets", "chooses", "unless", "nothing"]


@dataclass(frozen=True, slots=True)
class Effect:
    """What one key does.

    kind    "sets": a setting of the convention; "chooses": which convention it is; "unless": nothing with
            one of the `values`, and what no convention computes with any other; "nothing": nothing, ever
    why     the effect in a few words, or why there is none
    name    sets: the key or parameter by which the convention takes it, where that is another
    only    sets: the estimators for which it does; for others it does nothing
    """

    kind: Kind
    why: str
    name: str = ""
    values: tuple[Any, ...] = ()
    only: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Choice:
    """The convention that settings mean; None with `unclear`, the keys because of which it is none here.

    params  what else the convention has to have set for it
    """

    convention: str | None = None
    params: Mapping[str, Any] = field(default_factory=dict)
    unclear: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Framework:
    """One framework: what it calls itself, its estimators, and its keys.

    name        as its conventions have it (`Convention.framework`)
    called      what headers call it
    estimators  its name of an estimator -> a convention; the first where settings choose among several
    choose      the convention of settings and an estimator's name, lower case; None: `estimators` says it all
    by_default  the convention of a run of which nothing is said, for batches of groups
    keys        key, or the end of its dotted path -> effect
    """

    name: str
    called: tuple[str, ...]
    estimators: Mapping[str, str]
    keys: Mapping[str, Effect]
    choose: Callable[[Settings, str | None], Choice] | None = None
    by_default: str | None = None
    source: str = ""


def sets(why: str, name: str = "", only: tuple[str, ...] = ()) -> Effect:
    return Effect("sets", why, name, only=only)


def chooses(why: str) -> Effect:
    return Effect("chooses", why)


def unless(why: str, *values: Any) -> Effect:
    return Effect("unless", why, values=values or (None, False))


def nothing(why: str, *keys: str) -> dict[str, Effect]:
    """An entry of this kind for each of the keys."""
    return dict.fromkeys(keys, Effect("nothing", why))
