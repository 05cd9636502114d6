"""What a named convention is: data, an estimator with its parameters and a whitening."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from estimators.whitening import Whitening


@dataclass(frozen=True, slots=True)
class Alias:
    """A configuration key of the framework: it sets `target` of the params, or of the whitening.

    `read` makes settings by name of what is given, where one key sets several of them or is written
    otherwise; it may raise ValueError. A key with neither says what the convention's name says already.
    """

    target: str = ""
    whitening: bool = False
    negate: bool = False
    read: Callable[[Any], Mapping[str, Any]] | None = None

    def settings(self, key: str, value: Any) -> Mapping[str, Any]:
        """What `key: value` of a configuration sets. Raises ValueError naming the key."""
        if self.read is not None:
            try:
                return self.read(value)
            except (AttributeError, TypeError, ValueError) as error:
                raise ValueError(f"{key} is {value!r}; {error}") from error
        if not self.target:
            return {}
        if self.negate and not isinstance(value, bool):
            raise ValueError(f"{key} is {value!r}; give true or false.")
        return {self.target: (not value) if self.negate else value}


@dataclass(frozen=True, slots=True)
class Convention:
    """`params` is the estimator's parameter dataclass; `framework` and `version` say with whom it agrees.

    `grouping` is how it groups rollouts unless the request says otherwise. `inert` are configuration keys of
    the framework that change nothing here.
    """

    name: str
    estimator: str
    params: Any
    whitening: Whitening
    framework: str | None
    version: str | None
    note: str
    aliases: Mapping[str, Alias] = field(default_factory=dict)
    grouping: str = "group_id"
    inert: tuple[str, ...] = ()
