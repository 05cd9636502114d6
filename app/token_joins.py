"""From the token texts of a file to whole characters.

Trainers record token texts in three ways: as decoded text (pieces of a character became U+FFFD, or escaped
bytes), as the vocabulary form of a byte-level BPE ("Ġthe", "Ċ"), or as SentencePiece pieces ("▁the",
"<0x0A>"). Which one it is is only believed when the joined text equals the response; otherwise the texts are
shown as they were recorded, with a sentence that says so.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

_BYTE_PIECE = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_ESCAPED_BYTE = re.compile("[\udc80-\udcff]")
#: How tokenizers write tokens that are no text; recorded responses often come without them.
_CONTROL = re.compile(r"<[^<>\s]{1,80}>|\[/?[A-Z_]{2,12}\]")
BROKEN = "\ufffd"
#: A character has four bytes at most, and so many tokens at most end inside it.
_MOST_INSIDE = 3
#: More undecoded bytes than any character has: the texts are not what they were taken for.
_MOST_PENDING = 64


@dataclass(slots=True)
class Joined:
    """Clusters of tokens that make whole characters together.

    texts, counts   text of each cluster and how many tokens are in it
    spelled         `E4 | BD A0` for a cluster of several tokens, where the bytes are known
    note            what a reader must know, or None
    """

    texts: list[str] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    spelled: dict[int, str] = field(default_factory=dict)
    note: str | None = None

    def add(self, text: str, count: int, pieces: Sequence[bytes] = ()) -> None:
        if len(pieces) > 1:
            self.spelled[len(self.texts)] = " | ".join(piece.hex(" ").upper() for piece in pieces)
        self.texts.append(text)
        self.counts.append(count)


def join(texts: Sequence[str], response: str | None, first: bool = False) -> Joined:
    """Clusters of the tokens. `response` is the whole text where it was recorded; `first`: the texts are only
    its first tokens."""
    joined = "".join(texts)
    if response is None or _same(joined, response, first) or _same_but_controls(texts, response, first):
        return _as_recorded(texts, joined, response)
    for to_bytes in (_escaped_bytes, byte_level, _sentencepiece):
        found = _by_bytes(texts, to_bytes)
        if found is not None and _same("".join(found.texts), response, first):
            return found
    walked = _walk(texts, response, first)
    return _single(texts, _difference(joined, response)) if walked is None else walked


def _as_recorded(texts: Sequence[str], joined: str, response: str | None) -> Joined:
    """Texts that stand as they are; vocabulary form is decoded where nothing else could be meant."""
    if _ESCAPED_BYTE.search(joined):
        found = _by_bytes(texts, _escaped_bytes)
        if found is not None:
            return found
    if response is None and ("Ġ" in joined or "Ċ" in joined):
        found = _by_bytes(texts, byte_level)
        if found is not None:
            found.note = "Token texts were recorded in vocabulary form and are shown decoded."
            return found
    return _single(texts)


def _single(texts: Sequence[str], note: str | None = None) -> Joined:
    """Every token by itself; tokens without text that stand before a character are one with the token that
    ends it."""
    if "" not in texts:
        return Joined(list(texts), [1] * len(texts), {}, note)
    found, before = Joined(note=note), 0
    for text in texts:
        if not text and before < _MOST_INSIDE:
            before += 1
            continue
        inside = before if text[:1] > "\x7f" else 0
        for _ in range(before - inside):
            found.add("", 1)
        found.add(text, inside + 1)
        before = 0
    for _ in range(before):
        found.add("", 1)
    return found


def _same_but_controls(texts: Sequence[str], response: str, first: bool) -> bool:
    """Whether the texts join to the response once control tokens that it does not have are left out."""
    controls = {text for text in set(texts) if _CONTROL.fullmatch(text.strip())}
    left_out = {text for text in controls if text.strip() not in response}
    if not left_out:
        return False
    joined = "".join(text for text in texts if text not in left_out)
    return _same(joined, response, first) or (not first and joined.strip() == response.strip())


def _same(decoded: str, response: str, first: bool) -> bool:
    if first:
        # The last character may be cut off in the middle, and is then no character of the response.
        whole = decoded.rstrip("".join(map(chr, range(0xDC80, 0xDD00))))
        return response.startswith((whole, whole.removeprefix(" ")))
    # SentencePiece puts one space before the text, and decoding takes it away again.
    return decoded == response or decoded == " " + response


def _difference(joined: str, response: str) -> str:
    at = next((i for i, (a, b) in enumerate(zip(joined, response, strict=False)) if a != b), None)
    at = min(len(joined), len(response)) if at is None else at
    return (
        f"The token texts do not join to the recorded response (from character {at} on); "
        "they are shown as they were recorded."
    )


def _byte_table() -> dict[str, int]:
    """The letters that byte-level BPE writes for the 256 bytes (GPT-2's bytes_to_unicode, reversed)."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    table = {chr(byte): byte for byte in plain}
    others = (byte for byte in range(256) if byte not in plain)
    table.update({chr(256 + place): byte for place, byte in enumerate(others)})
    return table


_BYTES = _byte_table()


def _escaped_bytes(text: str) -> bytes | None:
    """Bytes of a text in which undecodable bytes were kept as U+DC80 … U+DCFF."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return None


def byte_level(text: str) -> bytes | None:
    """Bytes of a token in byte-level vocabulary form."""
    try:
        return bytes(_BYTES[character] for character in text)
    except KeyError:
        return None


def _sentencepiece(text: str) -> bytes | None:
    match = _BYTE_PIECE.fullmatch(text)
    if match:
        return bytes([int(match.group(1), 16)])
    return _escaped_bytes(text.replace("▁", " "))


def _by_bytes(texts: Sequence[str], to_bytes: Callable[[str], bytes | None]) -> Joined | None:
    """Clusters that end where the bytes so far are whole characters; None where they never are."""
    found = Joined()
    pending: list[bytes] = []
    for text in texts:
        data = to_bytes(text)
        if data is None:
            return None
        pending.append(data)
        together = b"".join(pending)
        whole = _decoded(together)
        if whole is not None:
            found.add(whole, len(pending), pending)
            pending = []
        elif len(together) > _MOST_PENDING and all(_decoded(together[:-n]) is None for n in (1, 2, 3)):
            return None  # more than a character's last bytes is missing: these are no bytes of a text
    if pending:  # the response ends inside a character
        found.add(b"".join(pending).decode("utf-8", "surrogateescape"), len(pending), pending)
    return found


def _decoded(data: bytes) -> str | None:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _walk(texts: Sequence[str], response: str, first: bool) -> Joined | None:
    """Aligns texts with U+FFFD in them to the response: a run of broken tokens lies between whole ones."""
    if not any(BROKEN in text for text in texts):
        return None
    found = Joined()
    position, number = 0, 0
    while number < len(texts):
        text = texts[number]
        if BROKEN not in text:
            if not response.startswith(text, position):
                return None
            found.add(text, 1)
            position, number = position + len(text), number + 1
            continue
        stop = number
        while stop < len(texts) and BROKEN in texts[stop]:
            stop += 1
        end = _end_of_broken(texts, stop - number, stop, response, position)
        if end is None or (first and stop == len(texts)):
            return None
        found.add(response[position:end], stop - number)
        position, number = end, stop
    return found if first or position == len(response) else None


def _end_of_broken(texts: Sequence[str], count: int, stop: int, response: str, position: int) -> int | None:
    """Where in the response the run of `count` broken tokens before `stop` ends."""
    if stop == len(texts):
        return len(response)
    # All whole tokens up to the next broken one must follow: a short one alone could be found too early.
    following: list[str] = []
    for text in texts[stop : stop + 64]:
        if BROKEN in text:
            break
        following.append(text)
    found = response.find("".join(following), position + 1)
    return found if 0 <= found <= position + 8 * count else None
