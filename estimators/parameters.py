"""Frozen dataclasses of settings: declared once, read from JSON and described as JSON Schema from there."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

Settings = TypeVar("Settings")

_JSON_TYPES: dict[type, str] = {float: "number", int: "integer", bool: "boolean", str: "string"}
_NAMES: dict[Any, str] = {NoneType: "null", float: "a number", int: "a whole number", bool: "true or false"}


@dataclass(frozen=True, slots=True)
class About:
    """One line about a setting, and its bounds: `gamma: Annotated[float, About("…", 0, 1)] = 1.0`."""

    description: str
    minimum: float | None = None
    maximum: float | None = None


def read_settings(start: Settings, given: Mapping[str, Any], what: str) -> Settings:
    """`start` with the values of `given` put in, each checked against its field's type and bounds. Null for a
    setting that cannot be null is as in a configuration: not given.

    `what` names the settings in messages ("params of gae"). Raises ValueError that names field and remedy.
    """
    declared = _declared(type(start))
    changes: dict[str, Any] = {}
    for name, value in given.items():
        if name not in declared:
            raise ValueError(f"{what} has no {name!r}; it has {', '.join(declared) or 'no settings'}.")
        hint, about = declared[name]
        if value is None and NoneType not in get_args(hint):
            continue
        where = f"{name} of {what}"
        changes[name] = _bounded(_typed(value, hint, where), about, where)
    changed: Settings = replace(start, **changes)  # type: ignore[type-var] # always a dataclass of settings
    return changed


def settings_to_dict(settings: Any) -> dict[str, Any]:
    """All fields as JSON values: tuples become lists."""
    plain: dict[str, Any] = asdict(settings)
    return {name: list(value) if isinstance(value, tuple) else value for name, value in plain.items()}


def settings_schema(kind: type[Any]) -> dict[str, Any]:
    """JSON Schema of a settings dataclass, defaults included."""
    declared, start = _declared(kind), settings_to_dict(kind())
    properties = {name: _schema(*declared[name]) | {"default": start[name]} for name in declared}
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _declared(kind: type[Any]) -> dict[str, tuple[Any, About]]:
    """Type and description of each field."""
    hints = get_type_hints(kind, include_extras=True)
    found: dict[str, tuple[Any, About]] = {}
    for each in fields(kind):
        hint = hints[each.name]
        if get_origin(hint) is Annotated:
            hint, about = get_args(hint)[:2]
        else:
            about = About("")
        found[each.name] = (hint, about)
    return found


def _bounded(value: Any, about: About, where: str) -> Any:
    for number in value if isinstance(value, tuple) else (value,):
        if isinstance(number, bool) or not isinstance(number, (int, float)):
            continue
        if not math.isfinite(number):
            raise ValueError(f"{where} is {number}; give a finite number.")
        if about.minimum is not None and number < about.minimum:
            raise ValueError(f"{where} is {number:g}; give at least {about.minimum:g}.")
        if about.maximum is not None and number > about.maximum:
            raise ValueError(f"{where} is {number:g}; give at most {about.maximum:g}.")
    return value


def _typed(value: Any, hint: Any, where: str) -> Any:
    """`value` as `hint`: bool, int, float, str, Literal, tuple, dict[str, …], settings, null, or a union."""
    origin = get_origin(hint)
    if is_dataclass(hint) and isinstance(value, Mapping):
        return read_settings(_start_of(hint), value, where)
    if origin in (UnionType, Union):
        return _either(value, hint, where)
    if origin is tuple and isinstance(value, (list, tuple)):
        return _tuple(value, get_args(hint), where)
    if origin is dict and isinstance(value, Mapping):
        inner = get_args(hint)[1]
        return {str(key): _typed(each, inner, f"{where}[{key!r}]") for key, each in value.items()}
    if origin is Literal and any(type(value) is type(one) and value == one for one in get_args(hint)):
        return value
    if hint in (float, int) and isinstance(value, (int, float)) and not isinstance(value, bool):
        if hint is float or float(value).is_integer():
            return hint(value)
    elif origin is None and isinstance(value, hint):
        return value
    raise ValueError(f"{where} is {value!r}; give {_wanted(hint)}.")


def _start_of(kind: Any) -> Any:
    """Settings with all their defaults."""
    return kind()


def _either(value: Any, hint: Any, where: str) -> Any:
    settings = [option for option in get_args(hint) if is_dataclass(option)]
    if settings and isinstance(value, Mapping):
        return _typed(value, settings[0], where)
    for option in get_args(hint):
        try:
            return _typed(value, option, where)
        except ValueError:
            continue
    raise ValueError(f"{where} is {value!r}; give {_wanted(hint)}.")


def _tuple(value: list[Any] | tuple[Any, ...], items: tuple[Any, ...], where: str) -> tuple[Any, ...]:
    if items[-1] is Ellipsis:
        return tuple(_typed(each, items[0], where) for each in value)
    if len(value) != len(items):
        raise ValueError(f"{where} has {len(value)} entries; give {len(items)}.")
    return tuple(_typed(each, item, where) for each, item in zip(value, items, strict=True))


def _wanted(hint: Any) -> str:
    origin = get_origin(hint)
    if origin is Literal:
        return "one of " + ", ".join(repr(each) for each in get_args(hint))
    if origin in (UnionType, Union):
        return " or ".join(_wanted(each) for each in get_args(hint))
    if origin is tuple:
        return "a list of numbers"
    if is_dataclass(hint):
        return f"an object of {', '.join(each.name for each in fields(hint))}"
    return "a mapping from names to numbers" if origin is dict else _NAMES.get(hint, "a text")


def _schema(hint: Any, about: About) -> dict[str, Any]:
    said = {name: value for name, value in asdict(about).items() if value not in (None, "")}
    return _type_schema(hint) | said


def _type_schema(hint: Any) -> dict[str, Any]:
    origin = get_origin(hint)
    if isinstance(hint, type) and is_dataclass(hint):
        return settings_schema(hint)
    if origin is Literal:
        return {"enum": list(get_args(hint))}
    if origin in (UnionType, Union):
        return {"anyOf": [_type_schema(each) for each in get_args(hint)]}
    if origin is tuple:
        items = get_args(hint)
        schema: dict[str, Any] = {"type": "array", "items": _type_schema(items[0])}
        return schema if items[-1] is Ellipsis else schema | {"minItems": len(items), "maxItems": len(items)}
    if origin is dict:
        return {"type": "object", "additionalProperties": _type_schema(get_args(hint)[1])}
    return {"type": "null"} if hint is NoneType else {"type": _JSON_TYPES[hint]}
