"""The allow list: names that pickles of rollouts hold, each with what takes the place of calling it."""

from collections.abc import Callable
from typing import Any

from app.inert import arrays, nested, tensors
from app.inert.values import Array, Dtype, Global, Items, Made, Refused, Storage

Call = Callable[[tuple[Any, ...]], Any]


def _first(args: tuple[Any, ...]) -> Any:
    return args[0] if args else None


def _dict(args: tuple[Any, ...]) -> Any:
    """An ordered or default dict: pairs are put in by later opcodes, or are the last argument."""
    if args and isinstance(args[-1], dict):
        return dict(args[-1])
    pairs = args[-1] if args and isinstance(args[-1], (list, tuple)) else ()
    return dict(tuple(pair) for pair in pairs)


def _list(args: tuple[Any, ...]) -> Any:
    return Items(list(args[0])) if args and isinstance(args[0], (list, tuple, set)) else Items()


def _set(args: tuple[Any, ...]) -> Any:
    return set(args[0]) if args else set()


def _text(args: tuple[Any, ...]) -> Any:
    return "/".join(str(part) for part in args)


def _size(args: tuple[Any, ...]) -> Any:
    return tensors.whole_numbers(args[0])


def _encode(args: tuple[Any, ...]) -> Any:
    """`_codecs.encode(text, "latin1")`: how protocol 2 writes bytes."""
    text, encoding = args if len(args) == 2 else (None, None)
    if not isinstance(text, str) or encoding not in ("latin1", "latin-1", "iso-8859-1"):
        raise Refused("bytes in it are written in an unknown way", "pickle_damaged")
    return memoryview(text.encode("latin-1", "replace"))


def _bytes(args: tuple[Any, ...]) -> Any:
    value = _first(args)
    if value is None:
        return memoryview(b"")
    return memoryview(value.encode("latin-1", "replace")) if isinstance(value, str) else value


def _reconstructor(args: tuple[Any, ...]) -> Any:
    what = _first(args)
    if not isinstance(what, Global) or what.name not in OBJECTS:
        raise Refused("an object of it is made in an unknown way", "pickle_damaged")
    return Made(what.name)


def _from_type(args: tuple[Any, ...]) -> Any:
    """(function, type, arguments, attributes): a tensor with attributes, which are left aside."""
    if len(args) < 3 or not isinstance(args[0], Global) or not isinstance(args[2], tuple):
        raise Refused("a tensor of it is made in an unknown way", "pickle_damaged")
    call = TENSOR_CALLS.get(args[0].name)
    if call is None:
        raise Refused("a tensor of it is made in an unknown way", "pickle_damaged")
    return call(args[2])


def _make_td(args: tuple[Any, ...]) -> Any:
    return Made("TensorDict", (), args[1] if len(args) > 1 else None)


def _date(args: tuple[Any, ...]) -> Any:
    """Dates are kept as the text of their fields."""
    raw = _first(args)
    if isinstance(raw, memoryview) and len(raw) in (4, 10):
        year, *rest = (raw[0] << 8) + raw[1], *raw[2:]
        day = f"{year:04}-{rest[0] & 0x7F:02}-{rest[1]:02}"
        return day if len(raw) == 4 else f"{day}T{rest[2]:02}:{rest[3]:02}:{rest[4]:02}"
    return " ".join(str(part) for part in args if isinstance(part, (int, str, float)))


def _dtype(args: tuple[Any, ...]) -> Any:
    return Dtype(arrays.checked_dtype(_first(args)))


TENSOR_CALLS: dict[str, Call] = {
    "torch._utils._rebuild_tensor": lambda args: tensors.tensor(*args[:4]),
    "torch._utils._rebuild_tensor_v2": lambda args: tensors.tensor(*args[:4]),
    "torch._utils._rebuild_tensor_v3": nested.rebuilt_v3,
    "torch._utils._rebuild_nested_tensor": nested.strided,
    "torch.nested._internal.nested_tensor._rebuild_njt": nested.jagged,
    "torch.nested._internal.nested_tensor.rebuild_njt": nested.jagged,
}
CALLS: dict[str, Call] = TENSOR_CALLS | {
    "collections.OrderedDict": _dict, "collections.defaultdict": _dict, "builtins.dict": _dict,
    "collections.deque": _list, "builtins.list": _list, "builtins.set": _set, "builtins.frozenset": _set,
    "builtins.tuple": lambda args: tuple(args[0]) if args else (), "builtins.bytearray": _bytes,
    "builtins.bytes": _bytes, "builtins.str": _first, "builtins.int": _first, "builtins.float": _first,
    "builtins.bool": _first, "_codecs.encode": _encode, "copyreg._reconstructor": _reconstructor,
    "numpy.dtype": _dtype, "numpy.multiarray._reconstruct": lambda args: Array(),
    "numpy.multiarray.scalar": arrays.scalar, "numpy.numeric._frombuffer": arrays.from_buffer,
    "torch._tensor._rebuild_from_type_v2": _from_type, "tensordict._reductions._make_td": _make_td,
    "torch._utils._rebuild_parameter": _first,
    "torch.device": lambda args: ":".join(str(part) for part in args), "torch.Size": _size,
    "torch.serialization._get_layout": _first,
    "tensordict._reductions._rebuild_tensordict_files_consolidated": nested.consolidated,
    "pathlib.PosixPath": _text, "pathlib.PurePosixPath": _text, "pathlib._local.PosixPath": _text,
    "decimal.Decimal": _first, "datetime.datetime": _date, "datetime.date": _date,
    "datetime.timedelta": _date, "datetime.timezone": _date,
}  # fmt: skip
#: Classes whose objects are kept as their name, arguments and state.
OBJECTS = frozenset((
    "verl.protocol.DataProto", "TensorDict", "TrainingInputBatch", "TensorBatch", "NonTensorData",
    "NonTensorStack", "LinkedList", "uuid.UUID", "builtins.object", "torch._dynamo.decorators._DimRange",
))  # fmt: skip
#: Functions that make an object of their first argument.
OBJECT_CALLS = frozenset(("_rebuild_tensor_batch",))
#: Where a framework moved its classes: (beginning of the module, name) -> name on the list.
MOVED: tuple[tuple[str, frozenset[str]], ...] = (
    ("tensordict.", frozenset(("TensorDict", "NonTensorData", "NonTensorStack", "LinkedList"))),
    ("skyrl", frozenset(("TrainingInputBatch", "TensorBatch", "_rebuild_tensor_batch"))),
)
VALUES = frozenset((
    *(f"torch.{name}" for name in tensors.STORAGES), *(f"torch.storage.{name}" for name in tensors.STORAGES),
    *(f"torch.{name}" for name in tensors.DTYPES), "torch.storage.TypedStorage",
    "numpy.ndarray", "torch.Tensor",
    "torch.jagged", "torch.strided", "torch.nested._internal.nested_tensor.NestedTensor",
    *(f"numpy.{name}" for name in (
        "bool", "bool_", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16",
        "float32", "float64", "str_", "bytes_", "object_",
    )),
))  # fmt: skip


def canonical(module: str, name: str) -> str | None:
    """The name on the list, None for one that is not on it."""
    module = module.replace("__builtin__", "builtins").replace("copy_reg", "copyreg")
    for old in ("numpy.core.", "numpy._core."):
        if module.startswith(old):
            module = f"numpy.{module.removeprefix(old)}"
    full = f"{module}.{name}"
    if full in CALLS or full in VALUES or full in OBJECTS:
        return full
    for begin, moved in MOVED:
        if (f"{module}." if begin.endswith(".") else module).startswith(begin) and name in moved:
            return name
    return None


class Makes:
    """The maker of one pickle: `storages` gives the bytes of a PyTorch storage by its key."""

    def __init__(self, storages: Callable[[str, int], memoryview] | None = None) -> None:
        self._storages = storages

    def named(self, module: str, name: str) -> Global:
        found = canonical(module, name)
        if found is None:
            raise Refused(f"{module}.{name}", "not_listed")
        return Global(found)

    def call(self, what: Any, args: tuple[Any, ...]) -> Any:
        if not isinstance(what, Global):
            raise Refused("the pickle is damaged (something is called that is no name)", "pickle_damaged")
        if what.name in OBJECT_CALLS:
            return Made(args[0].name if args and isinstance(args[0], Global) else what.name, args[1:])
        if what.name in OBJECTS:
            return Made(what.name, args)
        made = CALLS.get(what.name)
        if made is None:
            raise Refused(f"the pickle is damaged ({what.name} is called)", "pickle_damaged")
        return made(args)

    def set_state(self, what: Any, state: Any) -> Any:
        if isinstance(what, Array):
            arrays.set_state(what, state)
        elif isinstance(what, Dtype):
            arrays.set_dtype_state(what, state)
        elif isinstance(what, Made):
            what.state = state
        elif not isinstance(what, dict):
            raise Refused("the pickle is damaged (a state without an object)", "pickle_damaged")
        return what

    def persistent(self, key: Any) -> Any:
        """("storage", kind, key, device, items): where a PyTorch tensor's numbers are."""
        if self._storages is None or not isinstance(key, tuple) or len(key) < 5 or key[0] != "storage":
            raise Refused("it refers to something outside of it", "pickle_damaged")
        _, kind, name, _, count = key[:5]
        short = kind.name.rpartition(".")[2] if isinstance(kind, Global) else ""
        dtype = tensors.STORAGES.get(short)
        if dtype is None or not isinstance(name, str) or type(count) is not int or count < 0:
            raise Refused("a tensor of it has a storage of an unknown kind", "pickle_damaged")
        size = count * tensors.DTYPES[dtype][0]
        data = self._storages(name, size)
        return Storage(data, dtype)
