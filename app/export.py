"""One dashboard as one HTML file that opens from a disk with the network off.

Scripts, styles and data are inside. A policy in the file itself allows exactly those scripts and styles, by
their hashes, and no connection at all; data are islands of JSON in which nothing can end the element.
"""

import base64
import hashlib
import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache

from markupsafe import Markup

from app import templating
from app.panel_views import PanelView
from app.sharing import SharedView
from app.templating import STATIC

STYLES = (
    "css/palette.css",
    "css/base.css",
    "css/parts.css",
    "css/tokens.css",
    "css/charts.css",
    "css/panels.css",
)
#: Modules in the order in which they need each other; they become one.
MODULES = ("js/palette.js", "js/charts.js")
THEME = "js/theme.js"

_IMPORT = re.compile(r"^import .*;\n", re.MULTILINE)
_EXPORT = re.compile(r"^export (?=const|let|class|function|async)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Exported:
    """The variables of templates/pages/export.html. `plotly` is empty where no panel has a figure."""

    title: str
    note: str
    panels: tuple[PanelView, ...]
    hide_text: bool
    taken: float
    policy: str
    styles: Markup
    plotly_styles: Markup
    theme: Markup
    plotly: Markup
    module: Markup


def document(shown: SharedView) -> str:
    """The file's text. The same view gives the same text."""
    drawn = any(panel.figure is not None for panel in shown.panels)
    plotly = vendored("plotly") if drawn else Markup("")
    plotly_styles = vendored("plotly_css") if drawn else Markup("")
    scripts = (theme(), plotly, module()) if drawn else (theme(),)
    page = Exported(
        shown.title,
        shown.note,
        shown.panels,
        shown.hide_text,
        shown.taken,
        policy(scripts, (styles(), plotly_styles) if drawn else (styles(),)),
        styles(),
        plotly_styles,
        theme(),
        plotly,
        module() if drawn else Markup(""),
    )
    return templating.render("pages/export.html", page, templating.Here("", "", ""))


def policy(scripts: tuple[str, ...], styles: tuple[str, ...]) -> str:
    """The Content-Security-Policy of the file. `frame-ancestors` means nothing in a meta element."""
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src {' '.join(map(fingerprint, scripts))}",
            f"style-src {' '.join(map(fingerprint, styles))}",
            "img-src data: blob:",
            "form-action 'none'",
            "base-uri 'none'",
        )
    )


def fingerprint(text: str) -> str:
    """The source expression that allows an inline element with this very content."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


@lru_cache(maxsize=1)
def styles() -> Markup:
    return inline("".join((STATIC / name).read_text(encoding="utf-8") for name in STYLES), "style")


@lru_cache(maxsize=1)
def theme() -> Markup:
    return inline((STATIC / THEME).read_text(encoding="utf-8"), "script")


@lru_cache(maxsize=1)
def module() -> Markup:
    """The modules as one: their imports are what stands before them."""
    texts = [(STATIC / name).read_text(encoding="utf-8") for name in MODULES]
    return inline("".join(_EXPORT.sub("", _IMPORT.sub("", text)) for text in texts), "script")


@lru_cache(maxsize=2)
def vendored(name: str) -> Markup:
    file = templating.manifest()[name]["file"]
    return inline((STATIC / "vendor" / file).read_text(encoding="utf-8"), name.partition("_")[2] or "script")


def inline(text: str, element: str) -> Markup:
    """A file of ours as the content of an element. Browsers hash it with line feeds only."""
    text = text.replace("\r\n", "\n")
    if re.search(rf"</{element}|</style|<!--", text, re.IGNORECASE):
        raise ValueError(f"the text would end its {element} element")
    return Markup(text)


def file_name(title: str) -> str:
    """A plain name for the file: letters, digits and dashes."""
    plain = unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode()
    words = re.findall(r"[A-Za-z0-9]+", plain)
    return f"{'-'.join(words)[:60].strip('-') or 'dashboard'}.html"
