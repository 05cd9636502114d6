"""What the caller of an upload may say about how its files are read."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from app.errors import BadRequest

DUPLICATES = ("keep", "drop")
DECIMALS = ("point", "comma")


@dataclass(frozen=True, slots=True)
class Options:
    """`group_by`: "prompt", "stride:N" or a column; `duplicates`: "drop" or "keep", None leaves it to the
    rows.

    `step`, `split` and `run` stand above what the file says. `format` is "auto" or the name of a format.
    `columns`: field -> column of a table, "" for a field that no column is; `decimal`: how a CSV writes
    numbers. `tokenizer`: name of the one that decodes ids, "none" for none.
    """

    run: str | None = None
    step: int | None = None
    split: str | None = None
    format: str = "auto"
    group_by: str | None = None
    duplicates: str | None = None
    tokenizer: str | None = None
    columns: dict[str, str] = field(default_factory=dict)
    decimal: str | None = None

    @classmethod
    def from_request(cls, request: Mapping[str, Any]) -> "Options":
        """Checked options; entries that do not concern reading are passed over. Raises BadRequest."""
        options = cls(**{name: request[name] for name in cls.__slots__ if request.get(name) is not None})
        stride(options.group_by)
        if options.duplicates not in (None, *DUPLICATES):
            raise BadRequest(f"duplicates={options.duplicates!r} is not known: use keep or drop.")
        if options.decimal not in (None, *DECIMALS):
            raise BadRequest(f"decimal={options.decimal!r} is not known: use point or comma.")
        return options


def stride(group_by: str | None) -> int | None:
    """N of "stride:N", None for every other rule. Raises BadRequest where N is no whole number above 0."""
    if group_by is None or not group_by.startswith("stride:"):
        return None
    digits = group_by.removeprefix("stride:")
    if not (digits.isascii() and digits.isdecimal()) or not 0 < int(digits) <= 1_000_000:
        raise BadRequest(f"group_by={group_by!r} is not understood: write stride:N with N rows per group.")
    return int(digits)
