"""The colours: one source, both themes, readable, and the files that pages load are made from it."""

from itertools import pairwise

import pytest

from app.figures import palette
from app.figures.palette import DARK, DIVERGING, LIGHT


def luminance(colour: str) -> float:
    """Relative luminance of WCAG 2."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_files_are_up_to_date() -> None:
    assert palette.CSS_FILE.read_text(encoding="utf-8") == palette.css(), "run python -m app.figures.palette"
    assert palette.JS_FILE.read_text(encoding="utf-8") == palette.js(), "run python -m app.figures.palette"


def test_every_colour_has_one_role() -> None:
    # The dark theme finds a colour's role by its light value.
    assert len(set(LIGHT.values())) == len(LIGHT) and set(LIGHT) == set(DARK)
    assert LIGHT["flip"] == "#d1495b"


@pytest.mark.parametrize(("theme", "least"), [(LIGHT, 6.7), (DARK, 4.9)])
def test_text_is_readable_on_every_advantage_colour(theme: dict[str, str], least: float) -> None:
    assert min(contrast(theme["ink"], theme[f"advantage-{i}"]) for i in range(11)) >= least


@pytest.mark.parametrize("theme", [LIGHT, DARK])
@pytest.mark.parametrize(
    "role", ["ink", "muted", "accent", "critical", "warning", "info", "ok", "positive", "negative"]
)
def test_roles_stand_out_from_the_ground(theme: dict[str, str], role: str) -> None:
    assert contrast(theme[role], theme["paper"]) >= (4.5 if role not in ("positive", "negative") else 3.0)


def test_diverging_scale_is_symmetric_about_its_middle() -> None:
    assert [edge for edge, _ in DIVERGING] == [i / 10 for i in range(11)]
    shades = [luminance(colour) for _, colour in DIVERGING]
    assert shades[5] == max(shades)
    assert all(a < b for a, b in pairwise(shades[:6])) and all(a > b for a, b in pairwise(shades[5:]))
    assert shades[0] == pytest.approx(shades[10], abs=0.03)
