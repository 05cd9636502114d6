"""What each opcode of a pickle does, all protocols: values are made by `Maker` and by nothing else."""

import re
import struct
from collections.abc import Callable
from typing import Any

from app.inert.machine import Machine, Maker
from app.inert.values import Items, Made, Refused

DEEPEST = 100_000
MAX_LONG = 64  # bytes of a whole number
TWO_64 = 1 << 64
#: What may be a key of a dict.
KEYS = (str, int, float, bytes, type(None), tuple)
#: Members of a dict or set whose hashes whoever wrote the file may have chosen.
MOST_CHOSEN = 10_000


def read(data: memoryview, maker: Maker) -> tuple[Any, int]:
    """The value of a pickle, and how many of its texts were not UTF-8. Raises Refused."""
    machine = Machine(data, maker)
    return machine.run(STEPS), machine.replaced


def _frame(machine: Machine) -> None:
    machine.take(8)


def _long(machine: Machine, size: int) -> None:
    if size > MAX_LONG:
        raise Refused("a whole number of it is longer than 64 bytes", "pickle_damaged")
    machine.push(machine.take_int(size, signed=True))


def _int_line(machine: Machine) -> None:
    text = machine.line()
    if text in ("00", "01"):
        machine.push(text == "01")
    elif re.fullmatch(r"-?\d{1,150}L?", text):
        machine.push(int(text.removesuffix("L")))
    else:
        raise Refused("a whole number of it cannot be read", "pickle_damaged")


def _text_line(machine: Machine) -> None:
    machine.push(machine.raw_line().decode("raw-unicode-escape"))


def _quoted_line(machine: Machine) -> None:
    machine.push(machine.line()[1:-1])


def _global(machine: Machine) -> None:
    module, name = machine.line(), machine.line()
    machine.push(machine.maker.named(module, name))


def _stack_global(machine: Machine) -> None:
    name, module = machine.pop(), machine.pop()
    if not isinstance(name, str) or not isinstance(module, str):
        raise Refused("a name in it is no text", "pickle_damaged")
    machine.push(machine.maker.named(module, name))


def _reduce(machine: Machine) -> None:
    args, what = machine.pop(), machine.pop()
    machine.push(machine.maker.call(what, _args(args)))


def _new(machine: Machine) -> None:
    args, what = machine.pop(), machine.pop()
    machine.push(machine.maker.call(what, _args(args)))


def _new_ex(machine: Machine) -> None:
    named, args, what = machine.pop(), machine.pop(), machine.pop()
    if named:
        raise Refused("an object of it is made with named arguments", "pickle")
    machine.push(machine.maker.call(what, _args(args)))


def _args(args: Any) -> tuple[Any, ...]:
    if not isinstance(args, tuple):
        raise Refused("the pickle is damaged (arguments are no tuple)", "pickle_damaged")
    return args


def _build(machine: Machine) -> None:
    state, what = machine.pop(), machine.pop()
    made = machine.maker.set_state(what, state)
    if made is not what:
        raise Refused("the pickle is damaged (an object changed)", "pickle_damaged")
    machine.push(made)


def _obj(machine: Machine) -> None:
    what, *args = machine.pop_mark()
    machine.push(machine.maker.call(what, tuple(args)))


def _inst(machine: Machine) -> None:
    module, name = machine.line(), machine.line()
    what = machine.maker.named(module, name)
    machine.push(machine.maker.call(what, tuple(machine.pop_mark())))


def _append(machine: Machine) -> None:
    value = machine.pop()
    _target(machine, Items).put((value,))


def _appends(machine: Machine) -> None:
    items = machine.pop_mark()
    target = _target(machine, (Items, Made, set))
    if isinstance(target, set):
        raise Refused("the pickle is damaged (a set is no list)", "pickle_damaged")
    if isinstance(target, Made):
        raise Refused(f"an object of {target.name} in it holds a list", "pickle")
    target.put(items)


def _target(machine: Machine, kinds: Any) -> Any:
    target = machine.stack[-1]
    if not isinstance(target, kinds):
        raise Refused("the pickle is damaged (items without a list or dict)", "pickle_damaged")
    return target


def _set_item(machine: Machine) -> None:
    value, key = machine.pop(), machine.pop()
    _put_pairs(machine, [key, value])


def _set_items(machine: Machine) -> None:
    _put_pairs(machine, machine.pop_mark())


def _put_pairs(machine: Machine, items: list[Any]) -> None:
    target = _target(machine, dict)
    keys = items[::2]
    if not all(isinstance(key, KEYS) for key in keys):
        raise Refused("a key of a dict in it is no text or number", "pickle")
    _check_hashes(keys, len(target))
    target.update(zip(items[::2], items[1::2], strict=True))


def _check_hashes(keys: list[Any], held: int) -> None:
    """Refuse very many keys that may all have one hash: each would be compared with all before it.

    Hashes of texts and bytes cannot be chosen, and of whole numbers in 64 bits a few share one at most.
    """
    chosen = sum(isinstance(key, tuple) or _is_large(key) for key in keys)
    if chosen and held + len(keys) > MOST_CHOSEN:
        raise Refused("it has too many keys that are tuples or very large numbers", "pickle")


def _is_large(key: Any) -> bool:
    return isinstance(key, (int, float)) and not -TWO_64 < key < TWO_64  # NaN, too


def _add_items(machine: Machine) -> None:
    items, target = machine.pop_mark(), _target(machine, set)
    _check_hashes(items, len(target))
    target.update(items)


def _frozen(machine: Machine) -> None:
    items = machine.pop_mark()
    _check_hashes(items, 0)
    machine.push(frozenset(items))


def _put(machine: Machine, index: int) -> None:
    machine.memo[index] = machine.stack[-1]


def _mark(machine: Machine) -> None:
    if len(machine.marks) > DEEPEST:
        raise Refused("it is nested too deep", "too_deep")
    machine.marks.append(len(machine.stack))


def _persistent(machine: Machine) -> None:
    machine.push(machine.maker.persistent(machine.pop()))


def _duplicate(machine: Machine) -> None:
    machine.push(machine.stack[-1])


def _nothing(machine: Machine) -> None:
    """An opcode without effect on inert values."""


def _extension(machine: Machine) -> None:
    raise Refused("it uses the extension registry, which is not read", "pickle")


def _sized(size: int, push: Callable[[Machine, int], None]) -> Callable[[Machine], None]:
    return lambda machine: push(machine, machine.take_int(size))


def _push_text(machine: Machine, size: int) -> None:
    machine.push(machine.text(size))


def _push_bytes(machine: Machine, size: int) -> None:
    machine.push(machine.take(size))


def _push_get(machine: Machine, index: int) -> None:
    machine.push(machine.memo[index])


def _drop(machine: Machine) -> None:
    if machine.marks and machine.marks[-1] == len(machine.stack):
        machine.marks.pop()
    else:
        machine.pop()


Step = Callable[[Machine], None]
STEPS: dict[int, Step] = {ord(key): step for key, step in {
    "(": _mark, "0": _drop, "1": lambda m: m.pop_mark() and None,
    "2": _duplicate, "N": lambda m: m.push(None), "\x88": lambda m: m.push(True),
    "\x89": lambda m: m.push(False), "I": _int_line, "L": _int_line, "F": lambda m: m.push(float(m.line())),
    "J": lambda m: m.push(m.take_int(4, True)), "K": lambda m: m.push(m.take_int(1)),
    "M": lambda m: m.push(m.take_int(2)), "G": lambda m: m.push(struct.unpack(">d", m.take(8))[0]),
    "\x8a": _sized(1, _long), "\x8b": _sized(4, _long), "V": _text_line, "S": _quoted_line,
    "X": _sized(4, _push_text), "\x8c": _sized(1, _push_text), "\x8d": _sized(8, _push_text),
    "T": _sized(4, _push_text), "U": _sized(1, _push_text), "B": _sized(4, _push_bytes),
    "C": _sized(1, _push_bytes), "\x8e": _sized(8, _push_bytes), "\x96": _sized(8, _push_bytes),
    ")": lambda m: m.push(()), "t": lambda m: m.push(tuple(m.pop_mark())),
    "\x85": lambda m: m.pop_tuple(1), "\x86": lambda m: m.pop_tuple(2), "\x87": lambda m: m.pop_tuple(3),
    "]": lambda m: m.push(Items()), "l": lambda m: m.push(Items(m.pop_mark())), "a": _append, "e": _appends,
    "}": lambda m: m.push({}), "d": lambda m: _dict(m), "s": _set_item, "u": _set_items,
    "\x8f": lambda m: m.push(set()), "\x90": _add_items, "\x91": _frozen,
    "p": lambda m: _put(m, int(m.line())), "q": _sized(1, _put), "r": _sized(4, _put),
    "\x94": lambda m: _put(m, len(m.memo)), "g": lambda m: m.push(m.memo[int(m.line())]),
    "h": _sized(1, _push_get), "j": _sized(4, _push_get), "c": _global, "\x93": _stack_global, "R": _reduce,
    "b": _build, "i": _inst, "o": _obj, "\x81": _new, "\x92": _new_ex, "Q": _persistent,
    "P": lambda m: m.push(m.maker.persistent(m.line())), "\x80": lambda m: m.take(1) and None,
    "\x95": _frame, "\x82": _extension, "\x83": _extension, "\x84": _extension, "\x97": _extension,
    "\x98": _nothing,
}.items()}  # fmt: skip


def _dict(machine: Machine) -> None:
    items = machine.pop_mark()
    machine.push({})
    _put_pairs(machine, items)
