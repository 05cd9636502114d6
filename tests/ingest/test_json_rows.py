"""The fast parser's traps, each against the standard library."""

import contextlib
import json
from typing import Any

import numpy as np
import pytest
import simdjson
from hypothesis import given, settings
from hypothesis import strategies as st

from app.ingest.json_rows import NotJson, Overflow, Row, TooDeep, parse


def fields(line: bytes, depth: int = 64) -> dict[str, Any]:
    return parse(simdjson.Parser(), line, depth).fields


def test_lists_of_numbers_become_arrays() -> None:
    found = fields(b'{"response_ids": [1, 2], "advantages": [1, 2.5], "values": [], "other": [1, 2]}')
    assert found["response_ids"].dtype == np.int64
    assert found["advantages"].tolist() == [1.0, 2.5]
    assert found["values"].shape == (0,)
    assert found["other"] == [1, 2]


@pytest.mark.parametrize(
    "text", ["[[1],[2]]", "[[1], [2]]", "[1,[2]]", "[1, [2]]", "[ [1],2]", "[1,  [2]]", "[1,\t[2]]"]
)
def test_nested_lists_are_never_flattened(text: str) -> None:
    found = fields(f'{{"advantages": {text}}}'.encode())
    assert found["advantages"] == json.loads(text)


def test_large_ids_are_exact() -> None:
    assert fields(b'{"response_ids": [9007199254740993]}')["response_ids"].tolist() == [9007199254740993]
    assert fields(b'{"group_id": 9007199254740993}')["group_id"] == 9007199254740993
    assert fields(b'{"group_id": 12345678901234567890123}')["group_id"] == 12345678901234567890123


def test_the_last_of_repeated_keys_counts_and_is_said() -> None:
    row = parse(simdjson.Parser(), b'{"reward": 1, "reward": 2, "extra": {"a": 1, "a": 2}}', 64)
    assert row.fields["reward"] == 2
    assert row.repeated == ["a", "reward"]


def test_many_repeated_keys_cost_little() -> None:
    line = b"{" + b",".join(b'"k%d":1' % (index // 2) for index in range(100_000)) + b"}"
    assert len(parse(simdjson.Parser(), line, 64).repeated) == 50_000


def test_numbers_that_no_float_holds_are_marked() -> None:
    value = fields(b'{"reward": 1e400}')["reward"]
    assert isinstance(value, Overflow)
    assert value.text == "1e400"
    digits = b"9" * 5000
    assert isinstance(fields(b'{"reward": ' + digits + b"}")["reward"], Overflow)


def test_bare_nonfinite_words_are_read() -> None:
    found = fields(b'{"reward": NaN, "values": [Infinity, -Infinity, null]}')
    assert np.isnan(found["reward"])
    assert found["values"] == [np.inf, -np.inf, None]


def test_lone_surrogates_and_control_characters_are_kept() -> None:
    assert fields(b'{"response": "\\ud83d"}')["response"] == "\ud83d"
    assert fields(b'{"response": "a\tb"}')["response"] == "a\tb"
    assert fields(b'{"response": "\\u0000"}')["response"] == "\0"


def test_bytes_that_are_not_utf8_are_counted() -> None:
    row = parse(simdjson.Parser(), b'{"response": "\xe9\xe8 \xef\xbf\xbd"}', 64)
    assert row == Row({"response": "\ufffd\ufffd \ufffd"}, [], 2)


@pytest.mark.parametrize("value", [b"[" * 63 + b"]" * 63, b'{"a":' * 62 + b"1" + b"}" * 62])
def test_the_depth_limit_is_exact(value: bytes) -> None:
    assert fields(b'{"extra": ' + value + b"}")
    with pytest.raises(TooDeep):
        fields(b'{"extra": [[' + value + b"]]}")
    with pytest.raises(TooDeep):
        fields(b'{"reward": NaN, "extra": [[' + value + b"]]}")


def test_brackets_in_text_are_no_nesting() -> None:
    text = "[" * 500 + "{" * 500 + '\\"'
    assert fields(json.dumps({"response": text, "reward": 1e308}).encode())["response"] == text
    assert fields(json.dumps({"response": text, "reward": float("nan")}).encode())["response"] == text


@pytest.mark.parametrize(
    "line", [b"[1]", b"5", b'"a"', b"null", b"{", b'{"a"', b'{"a": }', b"", b"\xff", b"{}{}"]
)
def test_what_is_no_row_raises_one_exception(line: bytes) -> None:
    with pytest.raises(NotJson):
        fields(line)


def test_a_parser_is_free_again_after_a_failure() -> None:
    parser = simdjson.Parser()
    for line in (b'{"reward": NaN}', b"{broken", b'{"a": ' + b"[" * 2000 + b"]" * 2000 + b"}"):
        with contextlib.suppress(NotJson, TooDeep):
            parse(parser, line, 64)
        assert parser.parse(b'{"a": 1}') is not None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


def plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray) else value


@settings(max_examples=60, deadline=None)
@given(
    st.dictionaries(st.text() | st.sampled_from(["advantages", "response_ids", "values"]), JSON),
    st.booleans(),
)
def test_parsing_agrees_with_the_standard_library(row: dict[str, Any], compact: bool) -> None:
    text = json.dumps(row, separators=(",", ":") if compact else None)
    found = {key: plain(value) for key, value in fields(text.encode()).items()}
    assert repr(found) == repr(json.loads(text)) or found == json.loads(text)
