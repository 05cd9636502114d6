"""Token texts from ids: exact, checked against the response, refused where they do not match."""

import json
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models

from app.decoding import GIVE_UP, Decoder
from app.errors import Unprocessable
from app.ingest.record import Problem, Rollout
from app.token_joins import join
from app.vocabulary import Vocabulary, check, check_name
from tests.ingest.reading import SAMPLES, sample

TOY = (SAMPLES / "tokenizer" / "tokenizer.json").read_bytes()


@pytest.fixture(scope="module")
def toy() -> Vocabulary:
    return Vocabulary.load(check(TOY).data)


def sentencepiece() -> Tokenizer:
    words = ["<unk>", "▁Hello", "▁w", "orld", "<0xE4>", "<0xBD>", "<0xA0>", "!"]
    entries = {word: id for id, word in enumerate(words)}
    made = Tokenizer(models.BPE(vocab=entries, merges=[], byte_fallback=True, unk_token="<unk>"))
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    made.decoder = decoders.Sequence(steps)
    made.add_special_tokens([AddedToken("</s>", special=True)])
    return made


def rollout(row: int, ids: list[int], response: str | None, **columns: Any) -> Rollout:
    tokens = {"response_ids": np.array(ids, dtype=np.int64)}
    return Rollout(row, response=response, tokens=tokens, **columns)


def decoded(decoder: Decoder, *rollouts: Rollout) -> list[Problem]:
    def items() -> Iterator[Rollout]:
        yield from rollouts

    return [item for item in decoder.over(items()) if isinstance(item, Problem)]


def test_the_sample_decodes_to_the_texts_that_it_records(toy: Vocabulary) -> None:
    outcome = sample("canonical/batch.jsonl")
    for rollout in outcome.rollouts:
        assert rollout.response_tokens is not None
        assert toy.texts(rollout.tokens["response_ids"].tolist()) == rollout.response_tokens


def test_joined_texts_are_the_decoded_whole_for_any_ids(toy: Vocabulary) -> None:
    draw = random.Random(5)
    for _ in range(200):
        ids = [draw.randrange(512) for _ in range(draw.randrange(1, 60))]
        ids = [id for id in ids if toy.unknown([id]) is None]
        texts = toy.texts(ids)
        assert texts is not None and len(texts) == len(ids)
        assert "".join(texts) == toy.tokenizer.decode(ids, skip_special_tokens=False)


def test_sentencepiece_vocabularies_decode_token_by_token() -> None:
    vocabulary = Vocabulary.load(check(sentencepiece().to_str().encode()).data)
    texts = vocabulary.texts([1, 2, 3, 4, 5, 6, 7, 8])
    assert texts == ["Hello", " w", "orld", "", "", "你", "!", "</s>"]
    assert vocabulary.unknown([1, 99]) == 99
    cut = vocabulary.texts([1, 4, 5])
    assert cut is not None and "".join(cut) == vocabulary.tokenizer.decode([1, 4, 5])


def test_pieces_of_one_character_are_one_cluster_on_a_page() -> None:
    laid = join(["Hello", "", "", "你", "!"], "Hello你!")
    assert (laid.texts, laid.counts) == (["Hello", "你", "!"], [1, 3, 1])
    laid = join(["", "a", ""], "a")
    assert (laid.texts, laid.counts) == (["", "a", ""], [1, 1, 1])


def test_control_tokens_that_the_response_lacks_are_no_contradiction() -> None:
    laid = join(["Hi", "<|im_end|>"], "Hi")
    assert (laid.texts, laid.note) == (["Hi", "<|im_end|>"], None)
    assert join(["Ho", "<|im_end|>"], "Hi").note is not None


def test_matching_rows_get_texts_and_say_where_they_are_from(toy: Vocabulary) -> None:
    ids = [24, 389, 25, 267, 280, 455, 2]
    first = rollout(1, ids, "6·7 = 42 ✓")  # the special token at the end is not in the text
    second = rollout(2, ids, None, prompt_ids=np.array([294, 269, 305], dtype=np.int64))
    said = decoded(Decoder("toy", toy), first, second)
    assert first.response_tokens == ["6", "·", "7", " =", " 42", " ✓", "<|im_end|>"]
    assert first.derived == {"response_tokens": "derived:tokenizer:toy"}
    assert first.response == "6·7 = 42 ✓"
    assert second.response == "6·7 = 42 ✓<|im_end|>"
    assert second.prompt == "17 + 25"
    assert second.derived["prompt"] == second.derived["response"] == "derived:tokenizer:toy"
    codes = {problem.code: problem.message for problem in said}
    assert "could not be checked (row 2)" in codes["decoded_unchecked"]
    assert "token texts of 2 rows decoded with the tokenizer toy" in codes["tokens_decoded"]


def test_a_row_that_does_not_match_stays_as_it_was_recorded(toy: Vocabulary) -> None:
    good = rollout(1, [24, 389, 25], "6·7")
    other = rollout(2, [24, 389, 25], "something else")
    beyond = rollout(3, [24, 99_999], "6?")
    masked = rollout(4, [24, -100], "6")
    said = decoded(Decoder("toy", toy), good, other, beyond, masked)
    assert good.response_tokens == ["6", "·", "7"]
    assert other.response_tokens is beyond.response_tokens is masked.response_tokens is None
    assert not other.derived
    text = "\n".join(problem.message for problem in said)
    assert "decode to '6·7', the response begins 'something else'" in text
    assert "negative ids are no tokens" in text
    assert {problem.severity for problem in said if problem.code == "tokenizer_mismatch"} == {"warning"}


def test_a_wrong_tokenizer_is_given_up_and_said(toy: Vocabulary) -> None:
    rows = [rollout(row, [24, 389, 25], f"text {row}") for row in range(1, GIVE_UP + 5)]
    last = rollout(99, [24, 389, 25], "6·7")
    said = decoded(Decoder("toy", toy), *rows, last)
    assert last.response_tokens is None
    assert "matched none of the first 16 rows" in said[-1].message
    assert said[-1].code == "wrong_tokenizer"


def test_recorded_texts_are_never_replaced(toy: Vocabulary) -> None:
    row = rollout(1, [24, 389, 25], "6·7", response_tokens=["a", "b", "c"])
    decoded(Decoder("toy", toy), row)
    assert row.response_tokens == ["a", "b", "c"]


def test_conversations_are_checked_by_what_the_model_said(toy: Vocabulary) -> None:
    said: list[Any] = [{"role": "assistant", "content": "6·7"}, {"role": "tool", "content": "42"}]
    derived = {"response": "derived:messages"}
    row = rollout(1, [24, 389, 25, 280], "assistant: 6·7\n\ntool: 42", messages=said, derived=dict(derived))
    decoded(Decoder("toy", toy), row)
    assert row.response_tokens == ["6", "·", "7", " 42"]
    said[0]["content"] = "8·8"
    other = rollout(1, [24, 389, 25, 280], "assistant: 8·8", messages=said, derived=dict(derived))
    decoded(Decoder("toy", toy), other)
    assert other.response_tokens is None


def broken(**changes: Any) -> bytes:
    return json.dumps(json.loads(TOY) | changes).encode()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"no", "no JSON"),
        (b"[]", 'no "model"'),
        (b"{}", 'no "model"'),
        (broken(model={"type": "BPE"}), "no vocabulary"),
        (broken(model={"type": "BPE", "vocab": {"a": -1}, "merges": []}), "not a tokenizer.json"),
        (broken(model={"type": "Zzz", "vocab": {"a": 1}}), "not a tokenizer.json"),
        (broken(decoder={"type": "Zzz"}), "'Zzz'"),
        (broken(decoder={"type": "Replace", "pattern": {"Regex": "(a+)+$"}, "content": ""}), "regular"),
        (broken(decoder=[1]), '"decoder" cannot be understood'),
        (b"[" * 5000, "no JSON"),
    ],
)
def test_what_is_no_tokenizer_is_refused_with_a_sentence(content: bytes, words: str) -> None:
    with pytest.raises(Unprocessable, match="tokenizer\\.json") as refused:
        check(content)
    assert words in refused.value.detail


def test_patterns_that_only_encode_are_not_kept() -> None:
    evil = {"type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Isolated", "invert": False}
    kept = Vocabulary.load(check(broken(pre_tokenizer=evil)).data)
    assert kept.texts([24, 389, 25]) == ["6", "·", "7"]
    assert kept.tokenizer.pre_tokenizer is None


@pytest.mark.parametrize("name", ["", "none", "None", "a/b", "-a", "a" * 65, "ä", "a b"])
def test_names_that_cannot_be(name: str) -> None:
    with pytest.raises(Unprocessable, match="1 to 64 letters"):
        check_name(name)
