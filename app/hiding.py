"""Takes out of a figure what whoever gets a link must not see.

Always the ways to other pages; the text of rollouts where the link hides it.
What is left then has nothing of a prompt or response in it: numbers, names of tasks and of estimates, axis
titles, and the groups' numbers in place of their ids (which may be made of prompts).
"""

from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy import select

from app.figures.plotly import escape, shorten
from storage.database import ReadSession
from storage.models import Batch, Prompt

#: Members of a trace that hold one text (or anything else) per point.
PER_POINT = ("text", "hovertext", "customdata", "ids", "texttemplate", "meta")
#: What a hover text may take from them.
TAKEN = ("%{text", "%{hovertext", "%{customdata", "%{id", "%{meta")
#: What the page needs of `layout.meta`: the caption, and why there is nothing to draw.
KEPT_META = ("sentence", "empty")
#: Members whose texts are drawn. Others are Plotly's own words (`"type": "bar"`).
DRAWN = (
    "name",
    "legendgroup",
    "x",
    "y",
    "text",
    "title",
    "ticktext",
    "categoryarray",
    "hovertemplate",
    *KEPT_META,
)
#: A shorter group id is no text, and would be found everywhere.
SHORTEST = 4

Plot = dict[str, Any]


def seal(figure: Plot) -> Plot:
    """A copy without local addresses (custom data that a click follows) and without ids beside the plot."""
    layout = dict(figure["layout"])
    layout["meta"] = {name: layout.get("meta", {}).get(name) for name in KEPT_META}
    return {"data": [_sealed(trace) for trace in figure["data"]], "layout": layout}


def _sealed(trace: Plot) -> Plot:
    kept = {name: value for name, value in trace.items() if name not in ("meta", "ids")}
    if "customdata" in kept:
        kept["customdata"] = _texts(kept["customdata"], lambda text: "" if text.startswith("/") else text)
    return kept


def hide_text(session: ReadSession, batch: Batch, figure: Plot) -> Plot:
    """A copy without per-point texts, and with the batch's group ids replaced by their numbers everywhere."""
    rows = session.execute(select(Prompt.group_id, Prompt.group_no).where(Prompt.batch_id == batch.id))
    labels = _labels({group_id: f"group {group_no}" for group_id, group_no in rows})
    traces = [
        {name: value for name, value in trace.items() if name not in PER_POINT} for trace in figure["data"]
    ]
    hidden: Plot = _texts(
        {"data": traces, "layout": figure["layout"]}, lambda text: _relabelled(text, labels)
    )
    return hidden


def _without_texts(trace: Plot) -> Plot:
    hover = trace.get("hovertemplate")
    plain = isinstance(hover, str) and not any(name in hover for name in TAKEN)
    dropped = PER_POINT if plain else (*PER_POINT, "hovertemplate")
    return {name: value for name, value in trace.items() if name not in dropped}


def _labels(plain: Mapping[str, str]) -> dict[str, str]:
    """Every form in which a figure may show a group id -> its label."""
    found: dict[str, str] = {}
    for group_id, label in plain.items():
        for form in (group_id, shorten(group_id), escape(group_id), escape(shorten(group_id))):
            found.setdefault(form, label)
    return found


def _relabelled(text: str, labels: Mapping[str, str]) -> str:
    if text in labels:
        return labels[text]
    if len(text) < SHORTEST:
        return text
    for form in sorted(
        (form for form in labels if len(form) >= SHORTEST and form in text), key=len, reverse=True
    ):
        text = text.replace(form, labels[form])
    return text


def _texts(value: Any, change: Callable[[str], str], drawn: bool = True) -> Any:
    """A copy with every drawn text changed; packed arrays as they are."""
    if isinstance(value, str):
        return change(value) if drawn else value
    if isinstance(value, dict):
        if "bdata" in value:
            return value
        return {name: _texts(part, change, name in DRAWN) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_texts(part, change, drawn) for part in value]
    return value
