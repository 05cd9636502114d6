"""The lines of the estimators' benchmark, and the lines as Markdown."""

from typing import Any

Row = dict[str, Any]


def row(
    what: str,
    size: str,
    found: Any,
    per: int,
    peer: str | None,
    at_least: float | None,
    at_most: float,
    why: str = "",
    ours: str = "ours",
) -> Row:
    """One line: our nanoseconds per unit, how many times the peer takes, and how many floors we take.

    `why` is what a miss of this line is known to come from; it is printed only where the line misses.
    At size S everything lies in the cache and calls cost more than bytes: no floor is asked for there.
    """
    return {
        "what": what,
        "size": size,
        "ns": found.median(ours) / per * 1e9,
        "unit": "token",
        "peer": peer,
        "faster": found.ratio("peer", ours) if peer else None,
        "faster_at_least": at_least,
        "floors": found.ratio(ours, "floor"),
        "floors_at_most": None if size == "S" else at_most,
        "ns_at_most": None,
        "why": why,
    }


def misses(each: Row) -> list[str]:
    """By how much the line misses each of its goals, in words."""
    found = []
    faster, least = each["faster"], each["faster_at_least"]
    if least and faster < least:
        found.append(f"{faster:.3g}× of {least:g}×, {1 - faster / least:.0%} short")
    for value, most, unit in (
        (each["floors"], each["floors_at_most"], "copies"),
        (each["ns"], each["ns_at_most"], f"ns a {each['unit']}"),
    ):
        if most and value > most:
            found.append(f"{value:.3g} {unit} of at most {most:g}, {value / most - 1:.0%} over")
    return found


def table(found: list[Row]) -> str:
    """The lines as Markdown; what misses its target is marked."""
    lines = [
        "| what | size | ns | times faster than | wanted | floors | at most |",
        "|---|---|---|---|---|---|---|",
    ]
    for each in found:
        cells = [
            each["what"],
            each["size"],
            f"{each['ns']:.2f} / {each['unit']}"
            + (f" (≤ {each['ns_at_most']:g})" if each["ns_at_most"] else ""),
            f"{each['faster']:.1f}× {each['peer']}" if each["faster"] else "–",
            f"{each['faster_at_least'] or '–'}",
            f"{each['floors']:.1f}" if each["floors"] else "–",
            f"{each['floors_at_most'] or '–'}" + "".join(f" — {miss}" for miss in misses(each)),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def bounds_table(found: list[Row]) -> str:
    """The lines of accuracy, memory and growth."""
    lines = ["| what | size | measured | at most |", "|---|---|---|---|"]
    for each in found:
        over = "" if each["error"] <= each["at_most"] else " (over)"
        lines.append(
            f"| {each['what']} | {each['size']} | {each['error']:.3g}{over} | {each['at_most']:.3g} |"
        )
    return "\n".join(lines)
