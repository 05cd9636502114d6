"""What the value of a file is, told by its shape: which rows it has and what is said of all of them."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from app.inert import arrays, files, nested, tensors
from app.inert.plain import entry, length
from app.inert.values import Array, Items, Made, Refused

#: Fields by which rows in a dict are known.
SAMPLES = "samples"
#: Columns that a rank's file has of all ranks.
WHOLE = frozenset(("raw_reward",))


@dataclass(slots=True)
class Layout:
    """Rows of a file: either `rows`, or `columns` of `size` entries each. `others` is of all rows."""

    name: str
    rows: list[Any] = field(default_factory=list)
    columns: dict[str, Any] = field(default_factory=dict)
    size: int = 0
    others: dict[Any, Any] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)

    def each(self) -> Iterator[dict[Any, Any]]:
        for row in self.rows:
            yield row if isinstance(row, dict) else {}
        if not self.rows:
            for index in range(self.size):
                yield {name: entry(column, index) for name, column in self.columns.items()}


def layout(root: Any) -> Layout:
    """Raises Refused where the value holds no rows."""
    root = nested.unwrapped(root)
    if isinstance(root, Made):
        if root.name == "verl.protocol.DataProto":
            return _dataproto(root.state)
        if root.name in ("TrainingInputBatch", "TensorBatch"):
            return _skyrl(root)
        raise Refused(f"it is one object of {root.name}, which holds no rows that are read")
    if isinstance(root, dict):
        return _dict(root)
    if isinstance(root, (list, tuple)) and length(root):
        rows = list(root)
        if rows and all(isinstance(row, dict) for row in rows):
            return Layout("rows", rows=rows)
    raise Refused("it holds neither rows (a list of dicts) nor columns (a dict of tensors)", "no_rows")


def _dict(root: dict[Any, Any]) -> Layout:
    samples = root.get(SAMPLES)
    if isinstance(samples, Items) and "rollout_id" in root:
        samples.spill()
        others = {name: value for name, value in root.items() if name != SAMPLES}
        return Layout("samples", rows=list(samples), others=others)
    if isinstance(root.get("rollout_data"), dict) and "rollout_id" in root:
        others = {name: value for name, value in root.items() if name != "rollout_data"}
        return _table("shard", root["rollout_data"], others, "tokens")
    if "tensordict" in root:
        inner = nested.unwrapped(root["tensordict"])
        if isinstance(inner, dict):
            extra = {name: root[name] for name in ("keys", "tags") if name in root}
            others = {name: value for name, value in root.items() if name not in (*extra, "tensordict")}
            return _table("queue", {**inner, **extra}, others, None)
    return _table("columns", root, {}, None)


def _dataproto(state: Any) -> Layout:
    """(bytes of a saved TensorDict, or the inner layout of the numpy method; non-tensors; what is said)."""
    if not isinstance(state, tuple) or len(state) != 3:
        raise Refused("its DataProto cannot be read", "pickle_damaged")
    batch, rest, meta = state
    columns = _batch(batch)
    columns |= {str(name): value for name, value in rest.items()} if isinstance(rest, dict) else {}
    others = meta if isinstance(meta, dict) else {}
    return _table("dataproto", columns, others, "responses")


def _batch(batch: Any) -> dict[str, Any]:
    if batch is None:
        return {}
    if isinstance(batch, memoryview):
        value = nested.unwrapped(files.torch_value(batch)[0])
        if isinstance(value, dict):
            return value
    if isinstance(batch, tuple) and len(batch) == 3 and isinstance(batch[2], dict):
        return {str(name): _encoded(one) for name, one in batch[2].items()}
    raise Refused("the tensors of its DataProto cannot be read", "pickle_damaged")


def _encoded(one: Any) -> Any:
    """(dtype, shape, bytes), or (layout, several of these) for a nested tensor."""
    if isinstance(one, tuple) and len(one) == 3:
        dtype, shape, data = one
        raw = nested.unwrapped(data)
        raw = raw if isinstance(raw, memoryview) else memoryview(raw).cast("B")
        values = arrays.from_bytes(raw, arrays.checked_dtype(dtype), tensors.whole_numbers(shape))
        return Array(values, None, values.shape)
    if isinstance(one, tuple) and len(one) == 2 and isinstance(one[1], list):
        return [_encoded(part) for part in one[1]]
    raise Refused("a tensor of its DataProto cannot be read", "pickle_damaged")


def _skyrl(root: Made) -> Layout:
    state = root.state if isinstance(root.state, dict) else next(iter(root.args), None)
    held = state.get("batch_dict") if isinstance(state, dict) else None
    if not isinstance(state, dict) or not isinstance(held, dict):
        raise Refused("its training batch cannot be read", "pickle_damaged")
    columns: dict[str, Any] = {}
    for name, one in held.items():
        if one is not None:
            columns[str(name)] = _saved(one)
    others = state.get("metadata")
    return _table("skyrl", columns, others if isinstance(others, dict) else {}, "sequences")


def _saved(one: Any) -> Any:
    """{format: "numpy", data, shape, dtype} or {format: "torch", data}; older: the saved bytes."""
    if isinstance(one, memoryview):
        return files.torch_value(one)[0]
    if not isinstance(one, dict):
        return one
    data = one.get("data")
    if one.get("format") == "numpy":
        shape = tensors.whole_numbers(one.get("shape"))
        values = arrays.from_bytes(data, arrays.checked_dtype(one.get("dtype")), shape)
        return Array(values, None, shape)
    if one.get("format") == "torch" and isinstance(data, memoryview):
        return files.torch_value(data)[0]
    return one


def _table(name: str, held: dict[Any, Any], others: dict[Any, Any], judge: str | None) -> Layout:
    """Columns that have as many entries as the judge, or as most of them have."""
    columns = {str(key): nested.unwrapped(value) for key, value in held.items()}
    sizes = {key: size for key, value in columns.items() if (size := length(value)) is not None}
    counts = Counter(sizes.values())
    if not counts:
        raise Refused("it holds neither rows (a list of dicts) nor columns (a dict of tensors)", "no_rows")
    size = sizes[judge] if judge in sizes else counts.most_common(1)[0][0]
    table = Layout(name, size=size, others=dict(others))
    for key, value in columns.items():
        if sizes.get(key) == size:
            table.columns[key] = value
        elif key in sizes and name != "columns" and key not in WHOLE:
            table.left_out[key] = f"has {sizes[key]:,} entries for {size:,} rows"
        else:
            table.others[key] = value
    return table
