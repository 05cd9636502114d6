"""What is known of how a batch's advantages were configured."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from app.configured.effects import Choice, Effect, Framework
from app.configured.frameworks import CALLED
from app.configured.header import Settings, readings, settings
from app.configured.names import ESTIMATOR_NAMES, estimator_named, text
from estimators import CONVENTIONS, ESTIMATORS, Convention, Request
from estimators.parameters import read_settings, settings_to_dict

#: Keys that may change advantages, by their words; `HARMLESS` are of the model and the optimiser.
ABOUT = re.compile(
    r"(^|_)(adv\w*|rewards?|norm\w*|whiten\w*|std|kl\w*|gamma|lam\w*|lmbda|discount\w*|baseline|gae\w*|mask\w*"
    r"|filter\w*|truncat\w*|overlong|penalty|returns|leave\w*|shaping|estimator)(_|$)"
)
HARMLESS = re.compile(
    r"(^|_)(grad|gradient|layer|rms|attention|attn|qk|spectral|batch_norm|embed\w*|lora)_\w*|^rms\w*|^norm_type$"
)


#: Keys of the tables that name the estimator.
ESTIMATOR_KEYS = (
    "adv_estimator", "advantage_estimator", "advantage.estimator", "estimator", "algo.type", "algo",
)  # fmt: skip


#: What keys that choose among conventions are set to.
CHOICES = (True, False, "none", "group", "batch", "normalize_then_sum", "standard", "centered")


@dataclass(frozen=True, slots=True)
class Configured:
    """As far as the header says it, and Vantage understands it.

    convention         of the framework; None where framework or estimator are not named or not known, or no
                       convention computes what the settings say
    framework          as conventions call it; None where none is named or it is not known
    estimator          ours; None where it is not named or not known
    params             with a convention: all that `Request.from_dict` takes with it; without one: values
                       under names of parameters
    unknown_framework  what the header calls a framework that is not known
    unknown_estimator  what the header calls an estimator that is not known, or not in this framework
    not_understood     keys about advantages, of which it is not known here what they do
    alternatives       other conventions that it would be with settings of which the header says nothing
    """

    convention: str | None = None
    framework: str | None = None
    estimator: str | None = None
    params: dict[str, Any] = field(default_factory=dict)
    unknown_framework: str | None = None
    unknown_estimator: str | None = None
    not_understood: tuple[str, ...] = ()
    alternatives: tuple[str, ...] = ()


def configured(header: Mapping[str, Any], format: str = "") -> Configured:
    """`format`: that of the file, which tells the framework where the header does not."""
    framework, unknown = family(header, format)
    if framework is not None:
        return _in_framework(header, framework)
    said = settings(header, {"adv_estimator", "advantage_estimator"})
    name = _estimator_in(said)
    known = None if name is None else ESTIMATOR_NAMES.get(name, name)
    known = known if known in ESTIMATORS else None
    params = parameters(header)
    return Configured(
        None,
        None,
        known if unknown is None else None,
        params,
        unknown,
        None if known else name,
        tuple(_about(said.others, params)),
    )


def family(header: Mapping[str, Any], format: str) -> tuple[Framework | None, str | None]:
    """The framework that the header names, else that of the format; or the name of one that is not known."""
    said = text(header.get("framework"))
    name = (said or format.split("-")[0]).replace("_", "-").replace(" ", "-")
    known = CALLED.get(name) or CALLED.get(format if said is None else name)
    return known, (str(header["framework"]).strip() if said and known is None else None)


def _estimator_in(said: Settings) -> str | None:
    values = (said.values.get(name) for name in ESTIMATOR_KEYS)
    return next((name for value in values if (name := estimator_named(value)) is not None), None)


def _in_framework(header: Mapping[str, Any], framework: Framework) -> Configured:
    said = settings(header, framework.keys)
    name = _estimator_in(said)
    chosen = _chosen(said, framework, name)
    if chosen.convention is None:
        odd = tuple(dict.fromkeys((*chosen.unclear, *_odd(said, framework, None), *_about(said.others, ()))))
        unknown = name if name is not None and not chosen.unclear else None
        return Configured(
            None, framework.name, None, parameters(header), unknown_estimator=unknown, not_understood=odd
        )
    convention = CONVENTIONS[chosen.convention]
    params, refused = read(said, framework, convention, {**chosen.params})
    odd = tuple(dict.fromkeys((*refused, *_odd(said, framework, convention), *_about(said.others, params))))
    others = tuple(_otherwise(said, framework, name, convention.name))
    return Configured(
        convention.name, framework.name, convention.estimator, params, not_understood=odd, alternatives=others
    )


def _otherwise(said: Settings, framework: Framework, name: str | None, own: str) -> Iterator[str]:
    """The conventions that settings of which nothing is said would make of it, the version left as it is."""
    seen = {own, None}
    left = [key for key, effect in framework.keys.items() if effect.kind == "chooses"]
    for key in left:
        if key in said.values or key in ESTIMATOR_KEYS or key == "framework_version":
            continue
        for value in CHOICES:
            found = _chosen(Settings({**said.values, key: value}), framework, name).convention
            if found is not None and found not in seen:
                seen.add(found)
                yield found


def _chosen(said: Settings, framework: Framework, name: str | None) -> Choice:
    """The convention of the settings, as the framework's table says."""
    if framework.choose is not None:
        found = framework.choose(said, name)
        if found.convention is not None or found.unclear:
            return found
    return Choice(None if name is None else framework.estimators.get(name))


def _odd(said: Settings, framework: Framework, convention: Convention | None) -> Iterator[str]:
    """Keys with a value that does what no convention here computes."""
    estimator = None if convention is None else convention.estimator
    for key, value in said.values.items():
        effect = framework.keys[key]
        applies = not effect.only or estimator is None or estimator in effect.only
        if effect.kind == "unless" and applies and not _any_of(value, effect.values):
            yield key


def _any_of(value: Any, values: tuple[Any, ...]) -> bool:
    return any(type(one) is type(each) and one == each for one in readings(value) for each in _wide(values))


def _wide(values: tuple[Any, ...]) -> Iterator[Any]:
    """The values, and whole numbers as either kind of number."""
    for each in values:
        yield each
        if isinstance(each, (int, float)) and not isinstance(each, bool):
            yield float(each)
            if float(each).is_integer():
                yield int(each)


def _about(others: Mapping[str, Any], params: Any) -> Iterator[str]:
    """Of the keys that no table has, those that may be about advantages and are no parameters of ours."""
    for path, value in others.items():
        leaf = path.rpartition(".")[2].lower()
        if value is None or leaf in params or leaf in OURS:
            continue
        if about(leaf):
            yield path


def about(key: str) -> bool:
    """Whether the words of a key, the last of a dotted path, may be about advantages."""
    leaf = key.rpartition(".")[2].lower()
    return bool(ABOUT.search(leaf)) and not HARMLESS.search(leaf)


def read(
    said: Settings, framework: Framework, convention: Convention, start: dict[str, Any]
) -> tuple[dict[str, Any], list[str]]:
    """(params that a request with the convention takes, keys with a value that it does not)."""
    taken, refused = start, []
    for key, value in _offered(said, framework, convention):
        name = framework.keys[key].name or key if key in framework.keys else key
        for each in readings(value):
            if takes(convention, {**taken, name: each}):
                taken = {**taken, name: each}
                break
        else:
            refused.append(key)
    return plain_params(convention, taken), refused


def _offered(said: Settings, framework: Framework, convention: Convention) -> Iterator[tuple[str, Any]]:
    """Keys that set something in this convention, those of the table first: a name of ours wins."""
    own = convention.params.__dataclass_fields__
    for key, value in said.values.items():
        effect: Effect = framework.keys[key]
        if effect.kind != "sets" or (effect.only and convention.estimator not in effect.only):
            continue
        name = effect.name or key
        if name in convention.aliases or name in own:
            yield key, value
    for path, value in said.others.items():
        if "." not in path and value is not None and path in own:
            yield path, value


def takes(convention: Convention, params: Mapping[str, Any]) -> bool:
    """Whether a request with the convention takes the params."""
    try:
        Request.from_dict({"convention": convention.name, "params": params})
    except (ValueError, TypeError):
        return False
    return True


def understood(convention: str, params: Mapping[str, Any]) -> dict[str, Any] | None:
    """The params as the convention takes them, also where values are texts; None where it takes one not."""
    taken: dict[str, Any] = {}
    for key, value in params.items():
        for each in readings(value):
            if takes(CONVENTIONS[convention], {**taken, key: each}):
                taken[key] = each
                break
        else:
            return None
    return taken


def plain_params(convention: Convention, given: Mapping[str, Any]) -> dict[str, Any]:
    """The same params under our names, but for keys that set the whitening, as JSON values."""
    request = Request.from_dict({"convention": convention.name, "params": given})
    values = settings_to_dict(request.params)
    found: dict[str, Any] = {}
    for name, value in given.items():
        alias = convention.aliases.get(name)
        if alias is not None and alias.whitening:
            found[name] = value
        elif alias is not None:
            found.update({each: values[each] for each in alias.settings(name, value)})
        else:
            found[name] = values.get(name, value)
    same = takes(convention, found) and request == Request.from_dict(
        {"convention": convention.name, "params": found}
    )
    return found if same else dict(given)


def merged(convention: str | None, params: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Params with others put over them, under whichever names; those that the convention takes, if any."""
    if convention is None or not over:
        return {**params, **over}
    known = CONVENTIONS[convention]
    taken = dict(over) if takes(known, over) else {k: v for k, v in over.items() if takes(known, {k: v})}
    return {**params, **plain_params(known, taken)}


def parameters(header: Mapping[str, Any]) -> dict[str, Any]:
    """Values under names of parameters, as far as every estimator with such a parameter takes them."""
    found: dict[str, Any] = {}
    for estimator in ESTIMATORS.values():
        start = estimator.params()
        for name in start.__dataclass_fields__:
            if header.get(name) is None or (name in found and found[name] is None):
                continue
            found[name] = next(
                filter(None, (_typed(start, name, each) for each in readings(header[name]))), None
            )
    return {name: value[0] for name, value in found.items() if value is not None}


def _typed(start: Any, name: str, value: Any) -> tuple[Any] | None:
    try:
        return (getattr(read_settings(start, {name: value}, ""), name),)
    except ValueError:
        return None


#: What clients and readers of Vantage write into headers, besides what they have of the configuration.
OURS = frozenset({"group_size", "loss_agg_mode", "loss_type", "clip_ratio_low", "clip_ratio_high"})
