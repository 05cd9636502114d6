"""Rollouts as a trainer has them (rows, columns, tensors, lists) to columns of plain numpy values.

Tensors are recognised by what they can do; no framework is imported.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

#: A column: one entry per rollout, or a padded array whose first axis is the rollouts.
Column = Any
Columns = dict[str, Column]

#: Fields with one value per response token.
PER_TOKEN = (
    "response_ids", "response_mask", "token_level_rewards", "token_level_scores", "values", "old_log_probs",
    "ref_log_probs", "rollout_log_probs", "entropies", "advantages", "returns", "loss_weight", "kl",
    "sum_pi_squared", "rollout_is_weights",
)  # fmt: skip


def copied(value: Any) -> Any:
    """The value in host memory of our own, so that the trainer may go on changing its own.

    Tensors become arrays (bfloat16, which numpy lacks, float32); lists are copied as deep as they are nested.
    """
    if isinstance(value, np.ndarray):
        return np.array(value)
    if hasattr(value, "detach") and hasattr(value, "cpu"):
        return _of_tensor(value)
    if isinstance(value, Mapping):
        return {str(name): copied(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        flat = not value or isinstance(value[0], (int, float, str, bool))
        return list(value) if flat else [copied(inner) for inner in value]
    return value


def _of_tensor(tensor: Any) -> Any:
    on_host = tensor.detach().cpu()
    if "bfloat16" in str(on_host.dtype):
        on_host = on_host.float()
    array = np.asarray(on_host.numpy())
    same = getattr(tensor, "data_ptr", None)
    shared = same is not None and on_host.data_ptr() == same()
    return np.array(array) if shared else array


def weight(value: Any) -> int:
    """About how many bytes of memory a copied value takes."""
    if isinstance(value, np.ndarray):
        return int(value.nbytes)
    if isinstance(value, str):
        return 50 + len(value)
    if isinstance(value, Mapping):
        return sum(map(weight, value.values()))
    if isinstance(value, list):
        if value and isinstance(value[0], (int, float, bool)):
            return 32 * len(value)
        return 56 + sum(map(weight, value))
    return 32


def columns_of(rollouts: Any) -> tuple[int, Columns]:
    """(number of rollouts, columns) of a list of rows or a mapping of columns. Raises ValueError.

    One text or number for a whole column stands for every rollout.
    """
    if isinstance(rollouts, Mapping):
        return _of_columns(rollouts)
    rows = list(rollouts)
    if not all(isinstance(row, Mapping) for row in rows):
        raise ValueError("rollouts must be a list of mappings (rows) or one mapping of columns")
    names = list(dict.fromkeys(str(name) for row in rows for name in row))
    return len(rows), {name: [row.get(name) for row in rows] for name in names}


def _of_columns(given: Mapping[Any, Any]) -> tuple[int, Columns]:
    columns = {str(name): value for name, value in given.items() if value is not None}
    sizes = {name: len(value) for name, value in columns.items() if _sized(value)}
    if not sizes:
        raise ValueError("no column has one entry per rollout")
    first = next(iter(sizes))
    count = sizes[first]
    for name, size in sizes.items():
        if size != count:
            raise ValueError(f"{name} has {size} entries but {first} has {count}: give one per rollout")
    return count, {name: value if name in sizes else [value] * count for name, value in columns.items()}


def _sized(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return value.ndim > 0
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def plain(value: Any) -> Any:
    """A value for JSON: arrays as lists, numpy numbers as Python's; what JSON has no form for as text."""
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    if isinstance(value, (np.ndarray, np.generic)):
        return plain(value.tolist())
    if isinstance(value, Mapping):
        return {str(name): plain(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(inner) for inner in value]
    return str(value)
