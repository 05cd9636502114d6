"""Files that are one JSON object: the same members as json.loads gives, however the bytes are cut."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from app.ingest import File, Source, documents, unwrap
from app.ingest.record import Unreadable
from app.settings import Settings

SETTINGS = Settings()
DOCUMENTS: list[dict[str, Any]] = [
    {},
    {"a": 1},
    {"a": [], "b": {}},
    {"list": [1, [2, 3], {"x": [4]}, "[,]", None], "after": {"list": [5]}},
    {"list": {"no": "list"}, "x": [1, 2]},
    {'quo"te': "a\\", "line\nend": ["\u2028", "}{]["], "": 0},
    {"list": [[], [[]], {}], "b": "\\"},
]


def source_of(path: Path, data: bytes) -> Source:
    path.write_bytes(data)
    (source,) = unwrap(File(path, path.name), SETTINGS)
    assert isinstance(source, Source)
    return source


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("block", [1, 7, 1 << 20])
def test_members_are_those_of_json(
    indent: int | None, block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(documents, "BLOCK", block)
    for number, document in enumerate(DOCUMENTS):
        text = json.dumps(document, indent=indent, ensure_ascii=False).encode()
        source = source_of(tmp_path / f"{number}", text)
        found: dict[str, Any] = {}
        for member in documents.members(source, SETTINGS, streamed=("list",)):
            value = documents.value(member, SETTINGS)
            if member.number:
                found.setdefault(member.key, []).append(value)
                assert len(found[member.key]) == member.number
            else:
                found[member.key] = value
        assert found == {name: value for name, value in document.items() if name != "list" or value}
        assert documents.keys(source) == tuple(document)
        assert documents.is_document(source)


def test_lines_of_objects_are_no_document(tmp_path: Path) -> None:
    source = source_of(tmp_path / "a", b'{"a": 1}\n{"b": 2}\n')
    assert not documents.is_document(source)
    assert documents.keys(source) == ("a",)
    assert documents.keys(source_of(tmp_path / "b", b"[1]")) == ()


def test_a_key_at_the_end_of_the_head_is_known(tmp_path: Path) -> None:
    data = json.dumps({"a": "x" * 10, "samples": ["y" * 100_000]}).encode()
    source = source_of(tmp_path / "a", data)
    assert documents.keys(source) == ("a", "samples")


def test_a_cut_document_gives_what_came_before(tmp_path: Path) -> None:
    source = source_of(tmp_path / "a", b'{"a": 1, "samples": [{"x": 1}, {"x": 2}, {"x"')
    found = []
    with pytest.raises(Unreadable, match="ends inside the document"):
        found += [member.data for member in documents.members(source, SETTINGS, streamed=("samples",))]
    assert found == []
    taken = []
    with pytest.raises(Unreadable):
        for member in documents.members(source, SETTINGS, streamed=("samples",)):
            taken.append(member.data)
    assert taken == [b"1", b'{"x": 1}', b'{"x": 2}']


def test_limits_are_sentences(tmp_path: Path) -> None:
    small = Settings(max_line_bytes=1000, max_depth=3)
    long = source_of(tmp_path / "a", json.dumps({"a": "x" * 5000, "b": "y" * (1 << 21)}).encode())
    with pytest.raises(Unreadable, match="VANTAGE_MAX_LINE_BYTES"):
        list(documents.members(long, small))
    deep = source_of(tmp_path / "b", b'{"a": [[[[1]]]]}')
    (member,) = documents.members(deep, small)
    with pytest.raises(Unreadable, match="nested deeper"):
        documents.value(member, small)
    bad = source_of(tmp_path / "c", b'{"a": [1, oops]}')
    (member,) = documents.members(bad, small)
    with pytest.raises(Unreadable, match="a is no JSON"):
        documents.value(member, small)


def test_damage_never_surprises(tmp_path: Path) -> None:
    chance = random.Random(7)
    text = json.dumps(DOCUMENTS[3] | DOCUMENTS[5], indent=1).encode()
    for number in range(300):
        data = bytearray(text)
        for _ in range(3):
            data[chance.randrange(len(data))] = chance.choice(b'{}[]",\\:x')
        source = source_of(tmp_path / f"{number}", bytes(data))
        documents.keys(source)
        documents.is_document(source)
        try:
            for member in documents.members(source, SETTINGS, streamed=("list",)):
                documents.value(member, SETTINGS)
        except Unreadable as error:
            assert str(error)
