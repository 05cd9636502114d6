"""What a figure is, and its options.

A figure is one file with a `FIGURE`: rows in, a Plotly figure out as plain dicts (`{"data", "layout"}`),
built by hand. Traces: scatter, bar, heatmap, box. `layout.meta` holds the caption (`sentence`), `empty` (why
there is nothing to draw, else None) and the figure's own numbers.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from app.errors import BadRequest
from storage.database import ReadSession

Plot = dict[str, Any]
Options = Mapping[str, Any]

TRUE, FALSE = ("true", "1", "yes", "on"), ("false", "0", "no", "off", "")


@dataclass(frozen=True, slots=True)
class Option:
    """One query parameter of a figure. `choices` limits text; `says` explains it to a person."""

    kind: Literal["text", "integer", "number", "flag", "choice"]
    says: str
    default: str | int | float | bool | None = None
    choices: tuple[str, ...] = ()
    least: float = 0
    most: float = 2**31 - 1

    def value(self, name: str, given: Any) -> str | int | float | bool:
        """The typed value of what a query string or a stored panel gives. Raises BadRequest."""
        text = str(given).strip()
        if self.kind == "integer":
            return self._within(name, self._integer(name, text))
        if self.kind == "number":
            return self._within(name, self._number(name, text))
        if self.kind == "flag":
            if text.lower() not in TRUE + FALSE:
                raise BadRequest(f"Option {name!r} is {text!r}, but must be true or false.")
            return text.lower() in TRUE
        if self.kind == "choice" and text not in self.choices:
            raise BadRequest(f"Option {name!r} is {text!r}, but must be one of: {', '.join(self.choices)}.")
        return text

    def _integer(self, name: str, text: str) -> int:
        try:
            return int(text)
        except ValueError:
            raise BadRequest(f"Option {name!r} is {text!r}, but must be a whole number.") from None

    def _number(self, name: str, text: str) -> float:
        try:
            return float(text)
        except ValueError:
            raise BadRequest(f"Option {name!r} is {text!r}, but must be a number.") from None

    def _within(self, name: str, number: float) -> float:
        if not self.least <= number <= self.most:  # NaN is nowhere
            raise BadRequest(f"Option {name!r} is {number}, but must be from {self.least} to {self.most}.")
        return number


ESTIMATE = Option(
    "text", "Id of an estimate of the batch, or `recorded`; the default is the batch's default estimate."
)
GROUP = Option("text", "Only the rollouts of this prompt group (its `group_id`).")
UNIT = Option(
    "choice", "What counts once in a mean: each token or each response.", "response", ("token", "response")
)


@dataclass(frozen=True, slots=True)
class Figure:
    """`scope` says what `build` takes beside the session: a ready batch or a run.

    name, title, shows, needs  for people: what it is, what it answers, which fields it reads
    options                    option name -> Option; anything else is refused
    draw                       (session, batch or run, parsed options) -> figure
    """

    name: str
    title: str
    shows: str
    needs: tuple[str, ...]
    draw: Callable[[ReadSession, Any, dict[str, Any]], Plot]
    scope: Literal["batch", "run"] = "batch"
    options: dict[str, Option] = field(default_factory=dict)

    def build(self, session: ReadSession, subject: Any, options: Options | None = None) -> Plot:
        """The figure of a batch (or run). Raises BadRequest for an option it does not have or cannot read."""
        return self.draw(session, subject, self.parse(options or {}))

    def parse(self, options: Options) -> dict[str, Any]:
        """Every option with its typed value; None and "" are the default."""
        unknown = sorted(set(options) - set(self.options))
        if unknown:
            known = ", ".join(self.options) or "none"
            raise BadRequest(f"Figure {self.name!r} has no option {unknown[0]!r}; its options: {known}.")
        return {
            name: option.default
            if options.get(name) is None or options[name] == ""
            else option.value(name, options[name])
            for name, option in self.options.items()
        }

    def describe(self) -> dict[str, Any]:
        """For the list of figures: name, title, what it shows and needs, and each option."""
        return {
            "name": self.name,
            "title": self.title,
            "shows": self.shows,
            "needs": list(self.needs),
            "scope": self.scope,
            "options": {
                name: {"kind": option.kind, "default": option.default, "choices": list(option.choices)}
                | {"says": option.says}
                for name, option in self.options.items()
            },
        }
