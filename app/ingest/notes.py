"""What a reader has to say: at once about a row, or once at the end about many rows."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from app.ingest.record import Problem, Severity

LISTED = 8  # rows that a summary names before it says how many more there are


@dataclass(slots=True)
class _Tally:
    message: str
    severity: Severity
    rows: list[int] = field(default_factory=list)
    count: int = 0


def listed(rows: Sequence[int | str], count: int, where: str = "") -> str:
    """ "row 3", "rows 3, 4 and 9", "rows 3, 4, 5 and 97 more"; `where` stands behind those that are named."""
    if count == 1:
        return f"row {rows[0]}{where}"
    if count > len(rows):
        return f"rows {', '.join(map(str, rows))}{where} and {count - len(rows)} more"
    return f"rows {', '.join(map(str, rows[:-1]))} and {rows[-1]}{where}"


class Notes:
    """Problems of one file. `drain` gives those of the last row, `summary` the counted ones at the end."""

    def __init__(self) -> None:
        self._now: list[Problem] = []
        self._tallies: dict[tuple[str, str | None], _Tally] = {}
        self._nonfinite: dict[str, dict[str, int]] = {}

    def warn(
        self, row: int | None, name: str | None, code: str, message: str, severity: Severity = "warning"
    ) -> None:
        """Say something about one row; the sentence begins with the row's number."""
        text = message if row is None else f"row {row}: {message}"
        self._now.append(Problem(text, code, severity, row, name))

    def tally(self, row: int, name: str | None, code: str, message: str, severity: Severity = "info") -> None:
        """Count a harmless or repeated thing; `message` is said once, followed by the rows it concerns."""
        tally = self._tallies.setdefault((code, name), _Tally(message, severity))
        tally.count += 1
        if len(tally.rows) < LISTED:
            tally.rows.append(row)

    def nonfinite(self, name: str, label: str, count: int) -> None:
        """Count values that are NaN, Infinity or -Infinity: kept, and left out of means."""
        counts = self._nonfinite.setdefault(name, {})
        counts[label] = counts.get(label, 0) + count

    def drain(self) -> Iterator[Problem]:
        """The problems said since the last call."""
        if self._now:
            said, self._now = self._now, []
            yield from said

    def summary(self) -> Iterator[Problem]:
        """One problem for each thing counted, in the order of its first row."""
        for (code, name), tally in self._tallies.items():
            where = listed(tally.rows, tally.count)
            yield Problem(f"{tally.message} ({where})", code, tally.severity, None, name)
        for name, counts in self._nonfinite.items():
            found = ", ".join(f"{count} {label} {name}" for label, count in counts.items())
            message = f"{found}: kept as recorded and left out of means"
            yield Problem(message, "nonfinite", "warning", None, name)
