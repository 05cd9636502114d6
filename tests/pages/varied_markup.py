"""Texts of a model that some place would run, draw or obey, mixed anew from a seed."""

from typing import Any

import numpy as np

Random = np.random.Generator

DANGERS: dict[str, tuple[str, ...]] = {
    "html": (
        '<img src=x onerror="window.pwned=1">', "<svg/onload=window.pwned=1>", "</div></body></html>",
        "<xpwned data-pwned=1>", '" onmouseover="window.pwned=1', "' autofocus onfocus=window.pwned=1 '",
        "<iframe srcdoc='<script>window.pwned=1</script>'>", "<style>*{display:none}</style>",
        "&lt;b&gt;&amp;",
        "<textarea>", "<base href=//127.0.0.1/pwned>", "<a href=javascript:window.pwned=1>x</a>",
    ),
    "script": (
        "</script><script>window.pwned=1</script>", "<!--<script>", "-->", "]]>", "</SCRIPT\n>",
        "\\u003c/script>",
    ),
    "template": ("{{ 7*7 }}", "{% include 'x' %}", "${window.pwned=1}", "{{constructor.constructor('1')()}}"),
    "tags": ("<think>plan</think>", "<|im_end|>", "x<y<z & w", "a < b && c > d", "<0xFF>", "U+202E"),
    "brackets": ("arr[3] [/b] [red]x", "[[link]]", "[bold]", "\\[x\\]"),
    "markdown": ("[click](javascript:window.pwned=1)", "![x](http://127.0.0.1/pwned)", "`code`", "# head"),
    "formula": (
        '=HYPERLINK("http://127.0.0.1/x","y")', "+1+1", "-1-1", "@SUM(A1)", "\t=1+1", "=cmd|' /C calc'!A0",
        "＝1+1", "  =1+1", "\n=1", '","=1+1',
    ),
    "bidi": (
        "line\u2028sep", "\u202eRLO\u202c", "\u2066isolate\u2069", "zero\u200bwidth", "\ufeffmark", "\u200f",
    ),
    "terminal": (
        "\x1b[31mred\x1b[0m", "\x1b]8;;http://127.0.0.1\x07link", "bell\x07", "over\x08\x08", "\x9b31m",
    ),
}  # fmt: skip


def text(random: Random) -> str:
    """Up to five of any kinds, in any order, with and without something between."""
    kinds = list(DANGERS)
    parts = []
    for _ in range(int(random.integers(1, 6))):
        own = DANGERS[kinds[int(random.integers(len(kinds)))]]
        parts.append(own[int(random.integers(len(own)))])
    return (" ", "", "\n", "é👍")[int(random.integers(4))].join(parts)


def rows(random: Random, groups: int = 3, size: int = 4) -> list[dict[str, Any]]:
    """Canonical rows whose every text is dangerous."""
    made = []
    for group in range(groups):
        name, prompt, source = f"{text(random)}{group}", text(random), text(random)
        for place in range(size):
            tokens = [text(random) for _ in range(int(random.integers(1, 6)))]
            own = {
                    "step": 1,
                    "group_id": name,
                    "prompt": prompt,
                    "data_source": source,
                    "response": "".join(tokens),
                    "response_tokens": tokens,
                    "response_mask": [1] * len(tokens),
                    "reward": float(place % 2),
                    "advantages": random.normal(size=len(tokens)).tolist(),
                    "ground_truth": text(random),
                    "finish_reason": text(random),
                    "reward_components": {text(random): float(place % 2)},
                    "extra": {text(random): text(random)},
            }  # fmt: skip
            made.append(own)
    return made
