"""Every colour, once, for the light and the dark theme. Pages, figures and server-made SVG take theirs from
here.

How a figure gets its theme
---------------------------
A figure is built with the *light* colours, as plain `#rrggbb`, so that a script, a notebook or an exported
file shows it as it is. No light colour has two roles; therefore a page in the dark theme can replace each
light colour by the dark colour of the same role. `static/js/palette.js` holds both tables and the function
`recolour(figure, theme)` that does so, under colour attributes only (keys that end in `color` or `colors`,
and colour scales); `static/css/palette.css` gives every role as a custom property (`--role-name`). Both are
written from this module:

    python -m app.figures.palette

Sources: the diverging scales are made in OKLab with equal lightness at both ends (blue: reinforced, orange:
suppressed) and stay apart for the three kinds of colour blindness; text `ink` on any of them has a contrast
of at least 6.7 (light) and 4.9 (dark). Sequential: cividis. Categorical: Okabe and Ito, reordered. `flip`
means "changes sign" and nothing else.
"""

from pathlib import Path

from app.settings import ROOT

_DIVERGING_LIGHT = (
    "#e87f25", "#ee995c", "#f3b286", "#f7caad", "#f9e2d4", "#fafafa", "#d9e9fd", "#b9d7ff",
    "#98c5ff", "#77b3ff", "#53a0ff",
)  # fmt: skip
_DIVERGING_DARK = (
    "#a34d00", "#894608", "#6e3e19", "#553620", "#3c2d23", "#242424", "#27323f", "#293f5b",
    "#2a4d79", "#2a5b97", "#2769b7",
)  # fmt: skip
_SEQUENTIAL = (
    "#00224e", "#35456c", "#666970", "#948e77", "#c8b866", "#fee838",
)  # fmt: skip
_CATEGORIES_LIGHT = (
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#444b54", "#b8a800",
)  # fmt: skip
_CATEGORIES_DARK = (
    "#4da3dc", "#f28b3c", "#35c79a", "#e09cc4", "#86cdf5", "#f5b93d", "#c3cad4", "#f0e442",
)  # fmt: skip

_ROLES = {  # role: (light, dark)
    "paper": ("#ffffff", "#1b1b1b"),
    "raised": ("#f6f7f9", "#232427"),
    "ink": ("#111111", "#f2f2f2"),
    "muted": ("#5b6470", "#a7b0bc"),
    "rule": ("#d5d9e0", "#3a3f47"),
    "grid": ("#e9ebef", "#2c3036"),
    "zero": ("#9aa2ad", "#6b737e"),
    "accent": ("#0b57d0", "#8ab4f8"),
    "accent-soft": ("#e8f0fd", "#24324a"),
    "positive": ("#2a78d6", "#6aa9f5"),
    "negative": ("#c9610f", "#ee9a4d"),
    "flip": ("#d1495b", "#ee6b7c"),
    "masked": ("#c3c8cf", "#4a4f57"),
    "dim": ("#b4bac2", "#5a616b"),
    "band-outer": ("#d8e4f8", "#22314b"),
    "band-inner": ("#a9c5f2", "#2f4a78"),
    "signal-fail": ("#c2761f", "#c98a3a"),
    "signal-pass": ("#4f8fe0", "#5b93d6"),
    "signal-flat": ("#8a8f98", "#7b828c"),
    "signal-near": ("#e3c46b", "#b39a4c"),
    "signal-mixed": ("#1d7a5f", "#43b08f"),
    "signal-none": ("#dfe2e6", "#33373d"),
    "critical": ("#8a1c7c", "#e58ad8"),
    "warning": ("#8a5a00", "#e9b949"),
    "info": ("#35618f", "#8fb8e8"),
    "ok": ("#22703f", "#6cc48d"),
}


def _themed(index: int) -> dict[str, str]:
    diverging = (_DIVERGING_LIGHT, _DIVERGING_DARK)[index]
    categories = (_CATEGORIES_LIGHT, _CATEGORIES_DARK)[index]
    return {
        **{role: pair[index] for role, pair in _ROLES.items()},
        **{f"advantage-{i}": colour for i, colour in enumerate(diverging)},
        **{f"sequential-{i}": colour for i, colour in enumerate(_SEQUENTIAL)},
        **{f"category-{i}": colour for i, colour in enumerate(categories)},
    }


LIGHT: dict[str, str] = _themed(0)
DARK: dict[str, str] = _themed(1)

#: Plotly colour scale from −clip to +clip: orange (suppressed) over neutral to blue (reinforced).
DIVERGING: list[tuple[float, str]] = [(i / 10, LIGHT[f"advantage-{i}"]) for i in range(11)]
#: Plotly colour scale for counts and other one-sided quantities.
SEQUENTIAL: list[tuple[float, str]] = [(i / 5, LIGHT[f"sequential-{i}"]) for i in range(6)]
CATEGORIES: list[str] = [LIGHT[f"category-{i}"] for i in range(8)]

CSS_FILE = ROOT / "static" / "css" / "palette.css"
JS_FILE = ROOT / "static" / "js" / "palette.js"
_NOTE = "Written by python -m app.figures.palette; change app/figures/palette.py instead."

_CSS = """/* {note} */
:root {{
  color-scheme: light dark;
{light}
}}
:root[data-theme="light"] {{
  color-scheme: light;
}}
:root[data-theme="dark"] {{
  color-scheme: dark;
{dark}
}}
@media (prefers-color-scheme: dark) {{
  :root:not([data-theme="light"]) {{
  {dark_in_media}
  }}
}}
"""

_JS = """// {note}
export const LIGHT = Object.freeze({{
{light}
}});
export const DARK = Object.freeze({{
{dark}
}});

const TABLES = {{ light: LIGHT, dark: DARK }};
const NAME_OF = new Map(Object.entries(LIGHT).map(([name, colour]) => [colour, name]));
const IS_COLOUR = /colors?(scale)?$/;

// A copy of a figure made by the server (or of a part of one) with the colours of "light" or "dark".
export function recolour(figure, theme, isColour = false) {{
  if (typeof figure === "string") {{
    const name = isColour ? NAME_OF.get(figure) : undefined;
    return name === undefined ? figure : TABLES[theme][name];
  }}
  if (Array.isArray(figure)) return figure.map((part) => recolour(part, theme, isColour));
  if (figure === null || typeof figure !== "object" || ArrayBuffer.isView(figure)) return figure;
  const copy = {{}};
  for (const [key, part] of Object.entries(figure)) copy[key] = recolour(part, theme, IS_COLOUR.test(key));
  return copy;
}}
"""


def css() -> str:
    """The text of static/css/palette.css: a custom property per role, dark by attribute or preference."""
    light = "\n".join(f"  --{role}: {colour};" for role, colour in LIGHT.items())
    dark = "\n".join(f"  --{role}: {colour};" for role, colour in DARK.items() if colour != LIGHT[role])
    inner = dark.strip().replace("\n", "\n  ")
    return _CSS.format(note=_NOTE, light=light, dark=dark, dark_in_media=f"  {inner}")


def js() -> str:
    """The text of static/js/palette.js: both tables and `recolour`."""
    light = "\n".join(f'  "{role}": "{colour}",' for role, colour in LIGHT.items())
    dark = "\n".join(f'  "{role}": "{colour}",' for role, colour in DARK.items())
    return _JS.format(note=_NOTE, light=light, dark=dark)


def write(css_file: Path = CSS_FILE, js_file: Path = JS_FILE) -> None:
    """Write both files."""
    css_file.write_text(css(), encoding="utf-8")
    js_file.write_text(js(), encoding="utf-8")


if __name__ == "__main__":
    write()
