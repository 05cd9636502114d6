"""The lines of the estimators' benchmark, and the lines as Markdown."""

from typing import Any

Row = dict[str, Any]


def row(
    what: str, size: str, found: Any, per: int, peer: str | None, at_least: float | None, at_most: float
) -> Row:
    """One line: our nanoseconds per unit, how many times the peer takes, and how many floors we take.

    At size S everything lies in the cache and calls cost more than bytes: no floor is asked for there.
    """
    return {
        "what": what,
        "size": size,
        "ns": found.median("ours") / per * 1e9,
        "unit": "token",
        "peer": peer,
        "faster": found.ratio("peer", "ours") if peer else None,
        "faster_at_least": at_least,
        "floors": found.ratio("ours", "floor"),
        "floors_at_most": None if size == "S" else at_most,
    }


def table(found: list[Row]) -> str:
    """The lines as Markdown; what misses its target is marked."""
    lines = [
        "| what | size | ns | times faster than | wanted | floors | at most |",
        "|---|---|---|---|---|---|---|",
    ]
    for each in found:
        short = each["faster_at_least"] and each["faster"] < each["faster_at_least"]
        slow = each["floors_at_most"] and each["floors"] > each["floors_at_most"]
        cells = [
            each["what"],
            each["size"],
            f"{each['ns']:.2f} / {each['unit']}",
            f"{each['faster']:.1f}× {each['peer']}" + (" (short)" if short else ""),
            f"{each['faster_at_least'] or '–'}",
            (f"{each['floors']:.1f}" if each["floors"] else "–") + (" (over)" if slow else ""),
            f"{each['floors_at_most'] or '–'}",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)
