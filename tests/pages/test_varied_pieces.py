"""Pieces of characters are shown as whole ones, in any script, and every token keeps its own number."""

import json
import re

import numpy as np
import pytest
from markupsafe import Markup

from app.token_joins import join
from app.tokens import chunk_html, lay_out
from tests.findings.build import CASES
from tests.pages.conftest import Site, jsonl
from tests.pages.varied_pieces import FORMS, Pieces

SPAN = re.compile(r'<span class="[^"]*"(?: data-n="(\d+)")?[^>]*>(.*?)</span>', re.DOTALL)
CHUNK = re.compile(r'<div class="chunk[^"]*" data-start="\d+">(.*?)</div>', re.DOTALL)
GLYPHS = (("<i>⏎</i>\n", "\n"), ("<i>⇥</i>\t", "\t"))


def drawn(form: str, seed: int) -> Pieces:
    random = np.random.default_rng([seed, *form.encode()])
    return FORMS[form](random, broken=seed % 2 == 0)


def read_back(page: str) -> list[tuple[str, int]]:
    """Text and tokens of each element of a page."""
    found = []
    for count, body in SPAN.findall(page):
        for glyph, text in GLYPHS:
            body = body.replace(glyph, text)
        body = re.sub(r"<b>U\+([0-9A-F]+)</b>", lambda match: chr(int(match.group(1), 16)), body)
        assert "<" not in body, body
        found.append((Markup(body).unescape(), int(count or 1)))
    return found


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("form", FORMS)
def test_whole_characters_are_shown(form: str, seed: int) -> None:
    made = drawn(form, seed)
    joined = join(made.texts, made.response)
    assert list(zip(joined.texts, joined.counts, strict=True)) == made.shown, made
    said = joined.note or ""
    assert "vocabulary form" in said
    assert ("invalid" in said) == bool(made.invalid)
    if made.invalid:
        assert (
            f"{made.invalid} token{'s have invalid bytes' if made.invalid > 1 else ' has an invalid byte'}"
            in said
        )
    for width, count in made.spans.items():
        assert f"{count} character{'s span' if count > 1 else ' spans'} {width} tokens" in said
    laid = lay_out(made.texts, made.response, None, None, 1.0)
    page = "".join(chunk_html(laid, chunk) for chunk in laid.chunks)
    assert read_back(page) == made.shown


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("form", FORMS)
def test_the_first_tokens_end_with_a_whole_character(form: str, seed: int) -> None:
    made = drawn(form, seed)
    most = 1 + seed % len(made.texts)
    shown, tokens = list[tuple[str, int]](), 0
    for text, count in made.shown:
        if tokens >= most:
            break
        shown.append((text, count))
        tokens += count
    joined = join(made.texts, made.response, most)
    assert list(zip(joined.texts, joined.counts, strict=True)) == shown, made


def test_a_page_shows_them_and_keeps_every_number(fresh: Site) -> None:
    every = [drawn(form, seed) for form in FORMS for seed in range(100, 106)]
    rows = [
        {
            "group_id": "g",
            "prompt": "p",
            "reward": float(number % 2),
            "response_tokens": made.texts,
            "response_mask": [1] * len(made.texts),
            "advantages": np.random.default_rng(number).normal(size=len(made.texts)).tolist(),
            **({} if made.response is None else {"response": made.response}),
        }
        for number, made in enumerate(every)
    ]
    batch = fresh.place.ingest(jsonl(rows))["batches"][0]["id"]
    for number, (made, row) in enumerate(zip(every, rows, strict=True)):
        page = fresh.page(f"/batches/{batch}/rollouts/{number}?estimate=recorded")
        text = "".join(CHUNK.findall(page))
        assert read_back(text) == made.shown
        given = fresh.data(f"/api/v1/batches/{batch}/rollouts/{number}")
        assert given["advantages"] == row["advantages"] and given["response_tokens"] == made.texts
        assert not re.search("[\ud800-\udfff]", page)


def test_the_known_case_of_one_character_over_two_tokens() -> None:
    (path,) = CASES.glob("36-*.json")
    case = json.loads(path.read_text())
    (row,) = case["input"]["rows"]
    values = np.array(row["advantages"])
    laid = lay_out(row["tokens"], row["response"], values, None, 1.0)
    assert laid.texts == [each["text"] for each in case["expect"]["display"]]
    assert laid.counts == [len(each["tokens"]) for each in case["expect"]["display"]]
    assert laid.note is not None and "2 characters span 2 tokens each" in laid.note
    assert "Ġ, Ċ" in laid.note and "1 token has an invalid byte" in laid.note
