"""Takes the ways to other pages out of a figure: whoever has but a link must not follow or learn them.

Texts are not taken out here. A figure whose texts are hidden is drawn without them
(`app.figures.group_names`), so that nothing has to be searched for.
"""

from typing import Any

#: What the page needs of `layout.meta`: the caption, and why there is nothing to draw.
KEPT_META = ("sentence", "empty")
#: Why a rollout ended, in the words of inference engines and APIs. Anything else is a text of the file.
FINISH_REASONS = frozenset(
    (
        "stop", "length", "eos", "eos_token", "stop_sequence", "stop_string", "end_turn", "max_tokens",
        "max_length", "tool_calls", "tool_use", "function_call", "content_filter", "abort", "aborted",
        "cancelled", "error", "timeout", "truncated", "completed", "incomplete",
    )
)  # fmt: skip
OTHER_REASON = "other"

Plot = dict[str, Any]


def seal(figure: Plot) -> Plot:
    """A copy without local addresses (custom data that a click follows) and without ids beside the plot."""
    layout = dict(figure["layout"])
    layout["meta"] = {name: layout.get("meta", {}).get(name) for name in KEPT_META}
    return {"data": [_sealed(trace) for trace in figure["data"]], "layout": layout}


def _sealed(trace: Plot) -> Plot:
    kept = {name: value for name, value in trace.items() if name not in ("meta", "ids")}
    if "customdata" in kept:
        kept["customdata"] = _without_addresses(kept["customdata"])
    return kept


def _without_addresses(value: Any) -> Any:
    """Lists with every local address emptied; packed arrays and numbers as they are."""
    if isinstance(value, str):
        return "" if value.startswith("/") else value
    if isinstance(value, list | tuple):
        return [_without_addresses(part) for part in value]
    return value


def plain_finish_reason(reason: str | None) -> str | None:
    """The reason if it is one of the known words, else "other"."""
    known = reason is None or reason.strip().lower() in FINISH_REASONS
    return reason if known else OTHER_REASON
