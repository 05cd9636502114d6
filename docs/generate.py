"""Write docs/reference from the registries, so that the reference cannot differ from the code.

`python docs/generate.py` rewrites the pages; `--check` only says which differ (a test calls `pages()`).
"""

import argparse
import inspect
import json
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from app.figures import FIGURES
from app.findings.explained import REFERENCE as THREAD
from app.findings.explained import explained, link_of
from app.ingest import FORMATS
from app.ingest.formats import JOINS
from app.ingest.record import About
from app.main import create_app
from app.settings import Settings
from docs import side_by_side
from docs.headers import headers_page
from estimators import CONVENTIONS, ESTIMATORS, Whitening, params_schema, settings_to_dict

REFERENCE = Path(__file__).resolve().parent / "reference"
NOTE = "<!-- Written by docs/generate.py; do not edit. -->\n\n"


def pages() -> dict[str, str]:
    """File name -> text of every page of the reference."""
    made = {
        "estimators.md": estimators_page(),
        "conventions.md": conventions_page(),
        "../estimators.md": side_by_side.estimators_page(),
        "../formats.md": formats_page(),
        "headers.md": headers_page(),
        "figures.md": figures_page(),
        "findings.md": findings_page(),
        "settings.md": settings_page(),
        "endpoints.md": endpoints_page(),
    }
    return {name: NOTE + text.rstrip() + "\n" for name, text in made.items()}


def module_text(member: Callable[..., Any]) -> str:
    """The docstring of the module that defines it, without its indentation."""
    return inspect.getdoc(sys.modules[member.__module__]) or ""


def table(head: tuple[str, ...], rows: list[tuple[Any, ...]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(cell(value) for value in row) + " |" for row in rows])


def cell(value: Any) -> str:
    return "–" if value in (None, "", ()) else str(value).replace("|", "\\|").replace("\n", " ")


def code(value: Any) -> str:
    return f"`{json.dumps(value, ensure_ascii=False)}`"


def estimators_page() -> str:
    out = ["# Estimators\n"]
    for name, estimator in ESTIMATORS.items():
        out += [
            f"\n## {name}\n",
            module_text(estimator.run),
            "\n**Needs** " + ", ".join(estimator.needs) + "\n",
        ]
        properties = params_schema(estimator)["properties"]
        rows = [(f"`{p}`", code(s.get("default")), s.get("description")) for p, s in properties.items()]
        out += [table(("parameter", "default", "meaning"), rows), "\n**Conventions** "]
        out.append(", ".join(f"`{c.name}`" for c in CONVENTIONS.values() if c.estimator == name) + "\n")
    return "\n".join(out)


def conventions_page() -> str:
    out = [
        "# Conventions\n",
        "An estimator with the parameters and the whitening of one framework. Listed is what differs from "
        "the estimator's defaults ([estimators](estimators.md)) and from whitening's; everything else can be "
        "given too, and so can the framework's own configuration keys.\n",
    ]
    for name, convention in CONVENTIONS.items():
        agrees = f"{convention.framework} {convention.version}" if convention.framework else "no framework"
        out += [
            f"\n## {name}\n",
            f"{convention.note} Estimator `{convention.estimator}`; agrees with {agrees}.\n",
        ]
        start = ESTIMATORS[convention.estimator].params()
        rows = [(f"`{key}`", code(value)) for key, value in unlike(convention.params, start)]
        rows += [(f"`whitening.{key}`", code(v)) for key, v in unlike(convention.whitening, Whitening())]
        out.append(table(("setting", "value"), rows) if rows else "All defaults.\n")
        if convention.aliases:
            out.append("\nAlso reads " + ", ".join(f"`{key}`" for key in convention.aliases) + ".\n")
        if convention.inert:
            keys = ", ".join(f"`{key}`" for key in convention.inert)
            out.append(f"\nTakes without effect {keys}.\n")
    return "\n".join(out)


def unlike(settings: Any, start: Any) -> list[tuple[str, Any]]:
    """The settings that differ from `start`, with their values."""
    usual = settings_to_dict(start)
    return [(key, value) for key, value in settings_to_dict(settings).items() if value != usual[key]]


def formats_page() -> str:
    out = [
        "# Formats\n",
        "Recognised by content, never by name; a step or a split may be in the name. Only a response and a "
        "reward are needed. Several files, a folder, a zip or a tar are one upload: metadata beside rows is "
        "kept with them, and rows of two files that are the same rollouts are joined (below), with a list of "
        "what is missing, double or in conflict.\n",
        table(
            ("format", "written by", "files"),
            [(f"[{f.name}](#{f.name})", f.about.setting, f.about.files) for f in FORMATS if f.about],
        ),
        "\n## Joins\n",
        table(
            ("rows of", "completed by", "matched by"),
            [(f"[{j.main}](#{j.main})", f"[{j.side}](#{j.side})", j.by) for j in JOINS],
        ),
    ]
    for form in FORMATS:
        out += [f"\n## {form.name}\n", f"**{form.title}**\n", module_text(form.read), ""]
        if form.companion:
            beside = ", ".join(f"[{name}](#{name})" for name in form.of)
            out.append(f"Holds no rows: kept with {beside}.\n")
        if form.about is not None:
            out += about_lines(form.about)
    return "\n".join(out)


def about_lines(about: About) -> list[str]:
    """What a format has, and has not, as a page says it."""
    derived = "; ".join(f"`{name}` ({rule})" for name, rule in about.derived.items())
    remedies: dict[str, list[str]] = {}
    for name, remedy in about.absent.items():
        remedies.setdefault(remedy, []).append(name)
    absent = [
        f"{names_of(names)}" + (f": {remedy}" if remedy else ": no setting is known that records it")
        for remedy, names in remedies.items()
    ]
    lines = [
        f"- **Written by** {about.setting}",
        f"- **Files** {about.files}",
        f"- **Recorded** {names_of(about.recorded)}",
    ]
    if about.sometimes:
        lines.append(f"- **Recorded in some** {names_of(about.sometimes)}")
    if derived:
        lines.append(f"- **Derived** {derived}")
    lines += [f"- **Absent** {line}" for line in absent]
    return [*lines, ""]


def names_of(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def figures_page() -> str:
    out = ["# Figures\n", "`GET /api/v1/batches/{id}/figures/{name}` (or `/runs/{run}/figures/{name}`).\n"]
    for name, figure in FIGURES.items():
        out += [
            f"\n## {name}\n",
            f"**{figure.title}.** {figure.shows}\n",
            "Needs: " + ", ".join(figure.needs) + "\n",
        ]
        rows = [
            (f"`{option}`", ", ".join(o.choices) or o.kind, code(o.default), o.says)
            for option, o in figure.options.items()
        ]
        if rows:
            out.append(table(("option", "values", "default", "meaning"), rows))
    return "\n".join(out)


def findings_page() -> str:
    said = explained()
    out = ["# Findings\n", "What Vantage says of a batch or a run, worst first. None fires on a clean one.\n"]
    rows = [(f"[`{each.code}`](#{each.code})", each.title) for each in said]
    out.append(table(("finding", "what it says"), rows))
    for of_run, heading in ((False, "Findings of a batch"), (True, "Findings of a run")):
        out.append(f"\n# {heading}\n")
        for each in (each for each in said if each.of_run == of_run):
            out += [f"\n## {each.code}\n", f"**{each.title}.**\n", *(f"{text}\n" for text in each.meaning)]
            out += [f"**Seen as:** {linked(each.seen)}\n", f"**Remedy:** {each.remedy}\n"]
            out.append(f"**Evidence:** {each.evidence}\n")
    return "\n".join(out)


def linked(text: str) -> str:
    """With the threads that are cited as links."""

    def link(found: re.Match[str]) -> str:
        where = link_of(found[1], found[2])
        return found[0] if where is None else f"[{found[0]}]({where})"

    return THREAD.sub(link, text)


def settings_page() -> str:
    rows = []
    out = ["# Settings\n", "Environment variables; an option of the command wins over them.\n"]
    for name, field in Settings.model_fields.items():
        default = field.default if not isinstance(field.default, Path) else str(field.default)
        out += [f"\n## VANTAGE_{name.upper()}\n", f"{field.description} Default: {code(default)}.\n"]
        rows.append(name)
    return "\n".join(out)


def endpoints_page() -> str:
    document = create_app(Settings()).openapi()
    out = ["# Endpoints\n"]
    for path, calls in document["paths"].items():
        for method, call in calls.items():
            out += [f"\n## {method.upper()} {path}\n", f"{call.get('summary', '')}\n"]
            if text := call.get("description"):
                out.append(f"{text}\n")
            rows = [
                (f"`{p['name']}`", p["in"], "yes" if p.get("required") else "no", p.get("description"))
                for p in call.get("parameters", [])
            ]
            if rows:
                out.append(table(("parameter", "in", "required", "meaning"), rows))
    return "\n".join(out)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", action="store_true", help="change nothing; status 1 if a page differs")
    check = parser.parse_args().check
    REFERENCE.mkdir(exist_ok=True)
    stale = []
    for name, text in pages().items():
        path = REFERENCE / name
        if not path.exists() or path.read_text() != text:
            stale.append(name)
            if not check:
                path.write_text(text)
    sys.stdout.write(f"{'stale' if check else 'written'}: {', '.join(stale) or 'nothing'}\n")
    sys.exit(bool(check and stale))


if __name__ == "__main__":
    main()
