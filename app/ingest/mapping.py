"""Which column is which field: as asked, as remembered of the same columns, else as guessed."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from app.errors import Unprocessable
from app.ingest.column_names import shown
from app.ingest.guesses import ANSWERS, FIELDS, INTEGERS, LISTS, NUMBERS, Guess, decimal_commas, guess
from app.ingest.options import Options
from app.ingest.record import Unreadable
from app.ingest.tabular import CSV, Look

COMPONENT = "reward_components."
CODE = "columns_unknown"
#: What a person misses most, and what it costs.
MISSED = {
    "reward": "no advantage can be computed",
    "prompt": "rows cannot be grouped by prompt",
    "group_id": "groups are derived",
    "step": "all rows are one step",
}
MOST_SHOWN = 24
SAYS = {"asked": "as asked", "remembered": "as remembered", "guessed": "guessed by name"}


@dataclass(frozen=True, slots=True)
class Remembered:
    """What was asked for tables of one shape before. `columns`: field -> column, "" for none."""

    columns: Mapping[str, str]
    decimal: str | None = None
    group_by: str | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    """What the caller says, and what is remembered of earlier uploads, by shape."""

    columns: Mapping[str, str] = field(default_factory=dict)
    decimal: str | None = None
    group_by: str | None = None
    remembered: Mapping[str, Remembered] = field(default_factory=dict)

    @classmethod
    def of(cls, options: Options, remembered: Mapping[str, Remembered]) -> "Asked":
        """Raises Unprocessable for a field that there is not."""
        check_fields(options.columns)
        return cls(options.columns, options.decimal, options.group_by, remembered)


@dataclass(frozen=True, slots=True)
class Chosen:
    """`fields`: field -> column; `origin`: field -> "asked", "remembered" or "guessed". `group_by` is the
    remembered rule, None where there is none or the caller gave one."""

    fields: dict[str, str]
    origin: dict[str, str]
    decimal: str | None
    group_by: str | None
    guess: Guess


def check_fields(columns: Mapping[str, str]) -> None:
    """Raises Unprocessable for a field that no column can be."""
    for name in columns:
        if name not in FIELDS and not (name.startswith(COMPONENT) and len(name) > len(COMPONENT)):
            raise Unprocessable(
                f"column.{name[:64]}: there is no such field. Fields are {', '.join(FIELDS)}, and "
                f"{COMPONENT}NAME for a part of the reward."
            )


def choose(look: Look, asked: Asked) -> Chosen:
    """The mapping of this table. Raises Unreadable where a column that was asked for is not there."""
    guessed = guess(look)
    known = asked.remembered.get(look.shape)
    said: dict[str, tuple[str, str]] = {}
    if known is not None:
        said = {name: (column, "remembered") for name, column in known.columns.items()}
    said |= {name: (column, "asked") for name, column in asked.columns.items()}
    for name, (column, origin) in said.items():
        if column and column not in look.columns and origin == "asked":
            raise Unreadable(f"there is no column {shown(column)!r} for {name}. {seen(look)}", CODE)
    taken = {column for column, _ in said.values()}
    for name, column in guessed.fields.items():
        if name not in said and column not in taken:
            said[name] = (column, "guessed")
    kept = {name: pair for name, pair in said.items() if pair[0] in look.columns}
    return Chosen(
        fields={name: column for name, (column, _) in kept.items()},
        origin={name: origin for name, (_, origin) in kept.items()},
        decimal=asked.decimal or (known.decimal if known else None),
        group_by=known.group_by if known and not asked.group_by else None,
        guess=guessed,
    )


def has_answer(chosen: Chosen) -> bool:
    return any(name in chosen.fields for name in ANSWERS)


def seen(look: Look) -> str:
    """The columns, for a sentence."""
    names = [shown(column) for column in look.columns]
    more = f" and {len(names) - MOST_SHOWN} more" if len(names) > MOST_SHOWN else ""
    return f"Columns seen ({look.written}): {', '.join(names[:MOST_SHOWN])}{more}."


def no_answer(look: Look, chosen: Chosen) -> Unreadable:
    """What to say where no column is the response."""
    maybe = [shown(column) for column in chosen.guess.texts if column not in chosen.fields.values()]
    perhaps = f" Perhaps {' or '.join(maybe)}?" if maybe else ""
    doubts = "".join(f" {doubt}." for doubt in chosen.guess.doubts)
    return Unreadable(
        f"no column is named like a response, so these are no rollouts yet. {seen(look)}{perhaps}{doubts} "
        "Say which it is with column.response=<column> (and column.reward=<column>, column.prompt=<column> "
        "…), or choose the columns on the upload's page.",
        CODE,
    )


def open_comma(look: Look, chosen: Chosen) -> tuple[str, str] | None:
    """(column, cell) with a comma in a number, where nobody has said what commas mean."""
    if look.kind != CSV or chosen.decimal is not None:
        return None
    return decimal_commas(look, numeric_columns(chosen))


def comma_question(look: Look, chosen: Chosen, found: tuple[str, str]) -> Unreadable:
    """What to ask where numbers are written with commas."""
    column, value = found
    lists = [shown(chosen.fields[name]) for name in chosen.fields if name in LISTS]
    cell = value if len(value) <= 40 else f"{value[:39]}…"
    trust = (
        " Lists with decimal commas are ambiguous, so per-token columns cannot be trusted from this export "
        f"({', '.join(lists)}): with decimal=comma they are left out."
        if lists
        else ""
    )
    return Unreadable(
        f"the column {shown(column)} holds {cell!r}: is the comma a decimal comma? Confirm with "
        f"decimal=comma (1,1 is then 1.1), or say decimal=point.{trust} {seen(look)}",
        "decimal_comma",
    )


def sentence(look: Look, chosen: Chosen) -> str:
    """What was taken as what, what is not used and what is missing."""
    parts = []
    for origin, how in SAYS.items():
        pairs = [
            f"{name} = {shown(column)}"
            for name, column in chosen.fields.items()
            if chosen.origin[name] == origin
        ]
        if pairs:
            parts.append(f"{how}: {', '.join(pairs)}")
    unused = [shown(column) for column in look.columns if column not in chosen.fields.values()]
    if unused:
        more = f" and {len(unused) - MOST_SHOWN} more" if len(unused) > MOST_SHOWN else ""
        parts.append(f"not used: {', '.join(unused[:MOST_SHOWN])}{more}")
    missed = [f"{name} ({cost})" for name, cost in MISSED.items() if name not in chosen.fields]
    if missed:
        parts.append(f"not found: {', '.join(missed)}")
    remedy = "change it with column.<field>=<column> or on the upload's page"
    return f"columns, {look.written}: {'; '.join(parts)}; {remedy}"


def numeric_columns(chosen: Chosen) -> list[str]:
    """The columns that are taken for numbers, single ones first, then lists of them."""
    numbers = [n for n in chosen.fields if n in NUMBERS or n in INTEGERS or n.startswith(COMPONENT)]
    lists = [name for name in chosen.fields if name in LISTS and name != "response_tokens"]
    return [chosen.fields[name] for name in (*numbers, *lists)]


def described(look: Look, chosen: Chosen) -> dict[str, Any]:
    """What goes into the header of the batch."""
    return {
        "columns": list(look.columns),
        "mapping": chosen.fields,
        "shape": look.shape,
        "how": chosen.origin,
    }
