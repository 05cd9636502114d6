"""What every framework's cases are made with: canonical rows from columns, a batch from canonical rows."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from estimators import ROLLOUT_FIELDS, TOKEN_FIELDS, Batch, factorize
from estimators.groups import integer_ids
from tests.estimators.build import batch_of

FOLDER = Path(__file__).parent.parent / "data" / "cases"
Case = dict[str, Any]
Row = dict[str, Any]

NONFINITE = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}


@dataclass(frozen=True)
class Built:
    """rows        canonical rows in the order of the file; rows of several steps are several batches
    body        the estimate to ask for
    advantages  per row a number, or one per token; None: the framework refuses, and so must we
    returns     per row one per token, or None where nothing is to be compared
    on_masked   masked tokens are compared too
    """

    rows: list[Row]
    body: dict[str, Any]
    advantages: Sequence[Any] | None
    returns: Sequence[Any] | None = None
    on_masked: bool = False


#: Most cases are one request; one with two settings is two.
Builder = Callable[[Case], Built | list[Built]]


def paths() -> list[Path]:
    return sorted(FOLDER.glob("*.json"))


def load(path: Path) -> Case:
    """A case, its spelt-out numbers ("NaN", "Infinity") as numbers."""
    case: Case = json.loads(path.read_text())
    return {**case, "inputs": numbers(case["inputs"]), "expected": numbers(case["expected"])}


def numbers(value: Any) -> Any:
    if isinstance(value, str):
        return NONFINITE.get(value, value)
    if isinstance(value, list):
        return [numbers(each) for each in value]
    return {key: numbers(each) for key, each in value.items()} if isinstance(value, dict) else value


def rows_from(
    mask: Sequence[Sequence[float]],
    group: Sequence[Any] | None = None,
    components: Mapping[str, Sequence[float | None]] | None = None,
    **columns: Sequence[Any] | None,
) -> list[Row]:
    """A row per entry of `mask`; `columns` are canonical fields, an entry per row (None: not recorded)."""
    made = []
    for i, own in enumerate(mask):
        label = group[i] if group is not None else f"row {i}"
        row: Row = {
            "step": 0,
            "group_id": label,
            "prompt": f"prompt of {label}",
            "response_ids": [1000 * i + t for t in range(len(own))],
            "response_mask": [int(value) for value in own],
        }
        if components is not None:
            row["reward_components"] = {name: values[i] for name, values in components.items()}
        row |= {
            name: values[i]
            for name, values in columns.items()
            if values is not None and values[i] is not None
        }
        made.append(row)
    return made


def lone_tokens(count: int) -> list[list[int]]:
    """The mask of `count` responses of one token, for functions that know no tokens."""
    return [[1]] * count


def batch_from(rows: Sequence[Row], grouping: str = "group_id") -> Batch:
    """The rows as an `estimators.Batch`, without file, database or worker."""
    mask = [row["response_mask"] for row in rows]
    labels = [row["group_id"] for row in rows]
    group = integer_ids(labels) if grouping == "integer_id" else factorize(labels)[0]
    fields: dict[str, Any] = {}
    for name in TOKEN_FIELDS:
        if any(name in row for row in rows):
            fields[name] = [
                row.get(name, [float("nan")] * len(own)) for row, own in zip(rows, mask, strict=True)
            ]
    for name in ROLLOUT_FIELDS:
        if any(name in row for row in rows):
            fields[name] = [row.get(name) for row in rows]
    if any("prompt_ids" in row for row in rows):
        fields["prompt_length"] = [len(row.get("prompt_ids", ())) for row in rows]
    names = {name: None for row in rows for name in row.get("reward_components", {})}
    components = {name: [row.get("reward_components", {}).get(name) for row in rows] for name in names}
    return batch_of(mask, group.tolist(), [row.get("reward") for row in rows], components, **fields)


def by_step(rows: Sequence[Row]) -> list[list[Row]]:
    """The rows of each step, in the order of the steps."""
    return [[row for row in rows if row["step"] == step] for step in sorted({row["step"] for row in rows})]


def known(config: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Those keys of a framework's configuration that are given."""
    return {name: config[name] for name in names if config.get(name) is not None}
