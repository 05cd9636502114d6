"""Token text: hostile input stays text, tokens join to characters, colours mirror, 131k tokens are quick."""

import html
import re
import time
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app import tokens
from app.token_joins import join
from app.tokens import (
    CHUNK,
    MASKED,
    OVER,
    SEVERAL,
    SPECIAL,
    Chunk,
    chunk_html,
    chunks_of,
    lay_out,
    lay_out_ids,
    lay_out_whole,
)

#: Characters that must never reach a page as themselves.
FORBIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufffd\ud800-\udfff]"
)
ELEMENT = re.compile(r"<span[^>]*>(.*?)</span>", re.DOTALL)


def page_of(text: tokens.TokenText) -> str:
    return "".join(str(chunk_html(text, chunk)) for chunk in text.chunks)


def test_markup_of_a_model_stays_text() -> None:
    hostile = '</span></div><script>alert(1)</script><b onclick="x">&amp;'
    shown = page_of(lay_out([hostile, "ok"], hostile + "ok", None, None, 1.0))
    assert "<script" not in shown and 'onclick="' not in shown
    assert html.unescape(ELEMENT.findall(shown)[0]) == hostile


@pytest.mark.parametrize(
    ("character", "pill"),
    [("\u202e", "U+202E"), ("\u2066", "U+2066"), ("\u200b", "U+200B"), ("\u200d", "U+200D"),
     ("\ufeff", "U+FEFF"),
     ("\x07", "U+0007"), ("\x1b", "U+001B"), ("\u2028", "U+2028"), ("\ufffd", "U+FFFD"), ("\ud83d", "U+D83D"),
     ("\U000e0041", "U+E0041"), ("\u00ad", "U+00AD")],
)  # fmt: skip
def test_what_hides_or_reorders_is_a_pill(character: str, pill: str) -> None:
    shown = page_of(lay_out([f"a{character}b"], None, None, None, 1.0))
    assert f"a<b>{pill}</b>b" in shown and character not in shown
    assert character not in tokens.shown(f"x{character}") and pill in tokens.shown(f"x{character}")
    assert tokens.plain(f"x{character}") == f"x⟨{pill}⟩"


def test_newlines_and_tabs_are_glyphs_and_themselves() -> None:
    shown = page_of(lay_out(["a\n", "\t"], "a\n\t", None, None, 1.0))
    assert "a<i>⏎</i>\n" in shown and "<i>⇥</i>\t" in shown


@given(st.lists(st.text(max_size=6), max_size=40))
def test_any_text_is_one_element_a_token_and_safe(texts: list[str]) -> None:
    laid = lay_out(texts, None, None, None, 1.0)
    shown = page_of(laid)
    assert sum(laid.counts) == len(texts)
    assert len(ELEMENT.findall(shown)) == len(laid.texts) == shown.count("<span")
    assert not FORBIDDEN.search(shown)


def test_bytes_of_one_character_make_one_cluster() -> None:
    texts = ["Hi ", "\udce4\udcbd", "\udca0", "!"]
    laid = lay_out(texts, "Hi 你!", np.array([0.0, 0.2, -0.9, 0.1]), None, 1.0)
    assert laid.texts == ["Hi ", "你", "!"] and laid.counts == [1, 2, 1]
    assert laid.bytes == {1: "E4 BD | A0"}
    assert laid.flags[1] & SEVERAL
    assert laid.buckets[1] == 0  # −0.9: the strongest of its tokens
    assert 'data-n="2" data-bytes="E4 BD | A0"' in page_of(laid)


def test_replacement_characters_are_aligned_with_the_response() -> None:
    joined = join(["Hi ", "\ufffd", "\ufffd", " there"], "Hi 你 there")
    assert joined.texts == ["Hi ", "你", " there"] and joined.counts == [1, 2, 1] and joined.note is None


def test_vocabulary_forms_are_decoded_where_they_give_the_response() -> None:
    assert join(["Ġthe", "ä½", "ł", "Ċ"], " the你\n").texts == [" the", "你", "\n"]
    assert join(["▁the", "<0xE4>", "<0xBD>", "<0xA0>"], "the你").texts == [" the", "你"]


def test_texts_that_do_not_join_are_shown_as_recorded_and_said() -> None:
    joined = join(["one", "two"], "something else")
    assert joined.texts == ["one", "two"] and "from character 0 on" in (joined.note or "")
    assert "�" in join(["a\ufffd", "zz"], "quite other").texts[0]


@given(st.text(max_size=60), st.randoms(use_true_random=False))
def test_bytes_cut_anywhere_join_to_the_text(text: str, random: object) -> None:
    data = text.encode("utf-8", "surrogatepass")
    if text.encode("utf-8", "replace") != data:
        return
    cuts = sorted({random.randrange(len(data) + 1) for _ in range(8)} | {0, len(data)})  # type: ignore[attr-defined]
    pieces = [data[a:b].decode("utf-8", "surrogateescape") for a, b in pairwise(cuts)]
    joined = join(pieces, text)
    assert "".join(joined.texts) == text and sum(joined.counts) == len(pieces) and joined.note is None


@pytest.mark.parametrize("cut", [1, 2, 3])
def test_a_long_run_of_half_characters_joins_to_the_text(cut: int) -> None:
    text = "\U00010000" * 40
    data = text.encode()
    cuts = [0, *range(cut, len(data), 4), len(data)]
    pieces = [data[a:b].decode("utf-8", "surrogateescape") for a, b in pairwise(cuts)]
    joined = join(pieces, text)
    assert "".join(joined.texts) == text and sum(joined.counts) == len(pieces) and joined.note is None


def test_colour_is_symmetric_centred_and_clipped() -> None:
    values = np.array([-9.0, -1.0, -0.5, -0.04, 0.0, 0.04, 0.5, 1.0, 9.0, np.nan])
    classes = tokens.bucket(values, 1.0).tolist()
    assert classes[:-1] == [0, 0, 2, 5, 5, 5, 8, 10, 10]
    assert [10 - each for each in classes[:-1]][::-1] == classes[:-1]
    assert classes[-1] == tokens.NO_VALUE
    assert tokens.bucket(values, 0.0)[:-1].tolist() == [5] * 9


def test_masked_special_and_over_range_tokens_say_so() -> None:
    laid = lay_out(
        ["a", "b", "<|im_end|>"], "ab<|im_end|>", np.array([0.1, 3.0, 0.0]), np.array([0, 1, 1]), 1.0
    )
    assert [flag & MASKED for flag in laid.flags] == [MASKED, 0, 0]
    assert [flag & OVER for flag in laid.flags] == [0, OVER, 0]
    assert [flag & SPECIAL for flag in laid.flags] == [0, 0, SPECIAL]
    assert 'class="b6 m"' in page_of(laid) and 'class="b10 o"' in page_of(laid)


def test_chunks_end_at_line_ends_and_cover_every_token() -> None:
    texts = ["word "] * 1000 + ["end\n"] + ["more "] * 700
    laid = lay_out(texts, "".join(texts), None, None, 1.0)
    assert laid.chunks[0].start == 0 and laid.chunks[-1].stop == len(texts)
    assert all(a.stop == b.start for a, b in pairwise(laid.chunks))
    assert all(chunk.stop - chunk.start <= CHUNK for chunk in laid.chunks)
    assert any(chunk.stop == 1001 and not chunk.cut for chunk in laid.chunks)
    assert laid.chunks[0].cut


def chunks_one_by_one(texts: list[str], counts: list[int]) -> list[Chunk]:
    """The rule of `app.tokens`, cluster after cluster."""
    chunks: list[Chunk] = []
    start, token = 0, 0
    while start < len(texts):
        stop, used, newline = start, 0, 0
        while stop < len(texts) and (used == 0 or used + counts[stop] <= CHUNK):
            used += counts[stop]
            stop += 1
            if used >= CHUNK // 2 and texts[stop - 1].endswith("\n"):
                newline = stop
        if stop < len(texts) and newline:
            stop = newline
        chunks.append(Chunk(start, stop, token, stop < len(texts) and not texts[stop - 1].endswith("\n")))
        token += sum(counts[start:stop])
        start = stop
    return chunks


@given(
    st.lists(st.tuples(st.sampled_from(["a", "\n", "b\n", "c"]), st.sampled_from([1, 2, 100, 300, 700])))
    .flatmap(lambda some: st.integers(0, 300).map(lambda more: some + [("d", 1)] * more + some))
)  # fmt: skip
def test_chunks_are_those_of_the_rule(clusters: list[tuple[str, int]]) -> None:
    texts, counts = [text for text, _ in clusters], [count for _, count in clusters]
    assert chunks_of(texts, np.array(counts, dtype=np.int64)) == chunks_one_by_one(texts, counts)


def test_the_first_tokens_alone() -> None:
    texts = [f"w{i} " for i in range(5000)]
    laid = lay_out(texts, "".join(texts), np.arange(5000.0), None, 10.0, most=2048)
    assert sum(laid.counts) == 2048 and laid.note is None


def test_ids_and_whole_text() -> None:
    ids = lay_out_ids(np.array([5, 7]), np.array([1.0, -1.0]), None, 1.0)
    assert page_of(ids) == '<span class="b10">5</span> <span class="b0">7</span>'
    whole = lay_out_whole("one\ntwo", -2.0, 1.0)
    assert whole.kind == "text" and set(whole.buckets) == {0}
    assert lay_out_whole("", None, 1.0).texts == [""]


def test_a_long_response_is_laid_out_within_a_second_of_processor_time() -> None:
    texts = [f" w{i % 7000}" for i in range(131_072)]
    began = time.process_time()
    laid = lay_out(texts, "".join(texts), np.linspace(-1, 1, len(texts)), np.ones(len(texts)), 0.9)
    size = sum(len(chunk_html(laid, chunk)) for chunk in laid.chunks)
    assert time.process_time() - began < 1.0
    assert size < 6_000_000 and len(laid.chunks) == 256
