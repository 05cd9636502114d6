"""The page on what a file's header may say of its advantages, from the tables that read it."""

from app.configured import FRAMEWORKS
from app.configured.effects import Effect, Framework
from app.configured.header import COMMANDS

#: What the kinds of effect are called, in the order of the page.
_KINDS = {
    "chooses": "Choose the convention",
    "sets": "Set a parameter or the whitening",
    "unless": "Understood only as",
}
_INTRO = f"""# What a header may say

The first line of a canonical file, or what a reader makes of a framework's own files, is the batch's header.
Of it Vantage reads how the advantages were computed: `framework`, the name of the estimator (`adv_estimator`,
or the framework's own key), and every key of the framework's configuration that is about advantages.

- Keys may lie in objects (`{{"algorithm": {{"gamma": 0.99}}}}`), have dots (`algorithm.gamma`), be flags
  (`--gamma`), or stand in a command line under {", ".join(f"`{name}`" for name in COMMANDS)}.
- Values may be texts: `"0.99"`, `"True"`, `"none"`, `"[0.3, 2]"`.
- A framework or an estimator that is not in these tables is called unknown; nothing is assumed of it.
- A key that may be about advantages and is in no table, or has a value that no convention here computes, is
  listed under `not_understood` of the answer of `POST /batches/{{id}}/reconcile`. No mistake is then named.
- With an estimator and no framework, any framework's convention of that estimator counts as configured.
- `params` of a request to reconcile takes every key that an estimate with the convention takes.
"""


def headers_page() -> str:
    return "\n".join([_INTRO, *(_section(each) for each in FRAMEWORKS)])


def _section(framework: Framework) -> str:
    names = " or ".join(f"`{name}`" for name in framework.called)
    out = [f"\n## {framework.called[0]}\n", f"`framework`: {names}. Read: {framework.source}.\n"]
    if framework.estimators:
        out.append("| estimator | convention |\n|---|---|")
        out += [f"| `{name}` | `{convention}` |" for name, convention in framework.estimators.items()]
    if framework.by_default:
        out.append(f"\nWithout an estimator the first estimate is `{framework.by_default}`.")
    for kind, title in _KINDS.items():
        rows = {key: effect for key, effect in framework.keys.items() if effect.kind == kind}
        if rows:
            out += [f"\n**{title}**\n", "| key | effect |\n|---|---|"]
            out += [f"| `{key}` | {_effect(effect)} |" for key, effect in rows.items()]
    return "\n".join([*out, _nothing(framework)])


def _effect(effect: Effect) -> str:
    said = effect.why
    if effect.values:
        values = " or ".join(f"`{_json(value)}`" for value in effect.values)
        said = f"{values}; else: {said}"
    if effect.only:
        said += f" (of {', '.join(effect.only)})"
    return said.replace("|", "\\|")


def _json(value: object) -> str:
    words = {None: "null", True: "true", False: "false"}
    return words.get(value, str(value)) if isinstance(value, (bool, type(None))) else str(value)


def _nothing(framework: Framework) -> str:
    """Keys without effect on advantages, by the reason."""
    reasons: dict[str, list[str]] = {}
    for key, effect in framework.keys.items():
        if effect.kind == "nothing":
            reasons.setdefault(effect.why, []).append(f"`{key}`")
    if not reasons:
        return ""
    lines = [f"- {why}: {', '.join(keys)}" for why, keys in reasons.items()]
    return "\n".join(["\n**Without effect on advantages**\n", *lines])
