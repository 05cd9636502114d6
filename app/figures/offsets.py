"""The table of task offsets: what one mean for the whole batch does to each data source."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from app.errors import BadRequest
from app.figures.agreement import Ints, signs
from app.figures.chosen import Floats
from app.figures.figure import Option
from app.figures.scopes import OPTIONS, SCOPES, Base, how, read_base, under
from storage.database import ReadSession
from storage.models import Batch

NO_SOURCE = "(none)"


@dataclass(frozen=True, slots=True)
class TaskOffset:
    """A data source: `n` rollouts that take part; means raw and whitened over the scope (None where not
    defined); shares of signs after whitening; `one_sign` where every one of at least two has the same;
    `both_in_group`:
    centred on their own groups they have both signs."""

    data_source: str
    n: int
    mean_raw: float | None
    mean_whitened: float | None
    positive: float
    negative: float
    one_sign: Literal["positive", "negative"] | None
    both_in_group: bool


@dataclass(frozen=True, slots=True)
class TaskOffsets:
    """`empty` says why there are no rows. `sentence`: what was whitened and how."""

    rows: tuple[TaskOffset, ...]
    scope: str
    sentence: str
    empty: str | None = None


SCOPE = Option("choice", "The scope.", "batch", SCOPES)


def task_offsets(session: ReadSession, batch: Batch, options: Mapping[str, Any] | None = None) -> TaskOffsets:
    """The table under option `scope` (default batch). `estimate`, `source`, `unit` as for the figures.

    Raises BadRequest for another option or value.
    """
    known = OPTIONS | {"scope": SCOPE}
    given = {name: value for name, value in (options or {}).items() if value not in (None, "")}
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise BadRequest(f"The table of tasks has no option {unknown[0]!r}; its options: {', '.join(known)}.")
    parsed = {
        name: option.value(name, given[name]) if name in given else option.default
        for name, option in known.items()
    }
    base = read_base(session, batch, parsed)
    scope = str(parsed["scope"])
    if base.why is not None or base.source is None:
        return TaskOffsets((), scope, "", base.why or "no values recorded: data_source.")
    after = under(base, scope)
    if after is None:
        return TaskOffsets((), scope, "", "there are too few values for a std in this scope.")
    names = [*base.sources, NO_SOURCE]
    within = under(base, "group")
    in_group = None if within is None else signs(within)
    numbers = np.unique(base.source).tolist()
    after_signs = signs(after)
    rows = tuple(_row(base, after, after_signs, in_group, number, names[number]) for number in numbers)
    return TaskOffsets(rows, scope, how(base))


def _row(
    base: Base, after: Floats, after_signs: Ints, in_group: Ints | None, number: int, name: str
) -> TaskOffset:
    """Of one data source; `in_group`: signs under the group's scope, where there is one."""
    mine = base.live & (base.source == number)
    sign = after_signs[mine]
    group_signs = set() if in_group is None else set(in_group[mine].tolist())
    n = int(mine.sum())
    one: Literal["positive", "negative"] | None = None
    if n >= 2 and abs(int(sign.sum())) == n:
        one = "positive" if sign[0] > 0 else "negative"
    return TaskOffset(
        data_source=name,
        n=n,
        mean_raw=float(base.mean[mine].mean()) if n else None,
        mean_whitened=float(after[mine].mean()) if n else None,
        positive=float((sign > 0).mean()) if n else 0.0,
        negative=float((sign < 0).mean()) if n else 0.0,
        one_sign=one,
        both_in_group={-1, 1} <= group_signs,
    )
