"""From the token texts of a file to whole characters.

Trainers record token texts in three ways: as decoded text (pieces of a character became U+FFFD, or escaped
bytes), as the vocabulary form of a byte-level BPE ("Ġthe", "Ċ"), or as SentencePiece pieces ("▁the",
"<0x0A>"). Which one it is is only believed when the joined text equals the response, up to control tokens and
bytes that make no character, which decoders leave out or replace; otherwise the texts are shown as they were
recorded, with a sentence that says so.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from app.formatting import plural
from app.token_bytes import (
    CONTROL,
    ESCAPED,
    ToBytes,
    byte_level_or_control,
    cut,
    escaped_bytes,
    sentencepiece,
    spelled,
)

BROKEN = "\ufffd"
#: A character has four bytes at most, and so many tokens at most end inside it.
_MOST_INSIDE = 3
#: What the texts of a form have that no others have, as it is said.
_SIGNS: dict[ToBytes, tuple[str, ...]] = {byte_level_or_control: ("Ġ", "Ċ"), sentencepiece: ("▁",)}


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

    def add(self, text: str, count: int) -> None:
        self.texts.append(text)
        self.counts.append(count)


def join(texts: Sequence[str], response: str | None, most: int | None = None) -> Joined:
    """Clusters of the tokens. `response` is the whole text where it was recorded; `most`: only of the first
    so many tokens, and of those after them that end a character which these begin."""
    first = most is not None and most < len(texts)
    if most is None or not first:
        most = len(texts)
    seen = texts[:most]
    joined = "".join(seen)
    if response is None or _same(joined, response, first) or _same_but_controls(seen, response, first):
        return _as_recorded(texts, most, joined, response)
    for to_bytes in (escaped_bytes, byte_level_or_control, sentencepiece):
        found = _by_bytes(texts, most, to_bytes, response)
        if found is not None:
            return found
    walked = _walk(seen, response, first)
    return _single(seen, _difference(joined, response)) if walked is None else walked


def _as_recorded(texts: Sequence[str], most: int, joined: str, response: str | None) -> Joined:
    """Texts that stand as they are; vocabulary form is decoded where nothing else could be meant."""
    found = _by_bytes(texts, most, escaped_bytes) if ESCAPED.search(joined) else None
    if response is None:
        for to_bytes, signs in _SIGNS.items():
            if found is None and any(sign in joined for sign in signs):
                found = _by_bytes(texts, most, to_bytes)
    return _single(texts[:most]) if found is None else found


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
    controls = {text for text in set(texts) if CONTROL.fullmatch(text.strip())}
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


def _by_bytes(
    texts: Sequence[str], most: int, to_bytes: ToBytes, response: str | None = None
) -> Joined | None:
    """Clusters of the first tokens (see `join`) that end where characters end; None where the texts are not
    of this form, or do not tell the response."""
    pieces = _pieces(texts, most, to_bytes)
    if pieces is None:
        return None
    whole = cut(pieces)
    if response is not None and not _tells(whole.texts, response, len(pieces) < len(texts)):
        return None
    found = Joined([spelled(text) for text in whole.texts] if whole.invalid else whole.texts, whole.counts)
    start = 0
    for place, count in enumerate(whole.counts):
        if count > 1:
            own = pieces[start : start + count]
            found.spelled[place] = " | ".join(piece.hex(" ").upper() for piece in own)
        start += count
    found.note = _said(_SIGNS.get(to_bytes), "".join(texts[: len(pieces)]), whole.spans, whole.invalid)
    return found


def _pieces(texts: Sequence[str], most: int, to_bytes: ToBytes) -> list[bytes] | None:
    """The bytes of the first `most` tokens, and of those after them that end a character which these begin;
    None where the texts are not of this form."""
    pieces: list[bytes] = []
    ahead = 2 * _MOST_INSIDE
    while True:
        for text in texts[len(pieces) : most + ahead]:
            data = to_bytes(text)
            if data is None:
                return None
            pieces.append(data)
        if most >= len(texts):
            return pieces
        kept = next(end for end in accumulate(cut(pieces).counts) if end >= most)
        # Nearer to the end, a character of which only the beginning was read looks like bytes of none.
        if kept <= len(pieces) - _MOST_INSIDE or len(pieces) == len(texts):
            return pieces[:kept]
        ahead *= 4


def _tells(texts: Sequence[str], response: str, first: bool) -> bool:
    """Whether the clusters' texts are the response, which may lack what is no text: control tokens, and bytes
    that make no character."""
    joined = "".join(texts)
    if _same(joined, response, first) or _same_but_controls(texts, response, first):
        return True
    if not ESCAPED.search(joined):
        return False
    kept, rest = [ESCAPED.sub("", text) for text in texts], response.replace(BROKEN, "")
    if not rest:
        return BROKEN in response and not "".join(kept)
    return _same("".join(kept), rest, first) or _same_but_controls(kept, rest, first)


def _said(signs: Sequence[str] | None, joined: str, spans: dict[int, int], invalid: int) -> str | None:
    """What a reader must know of texts that are not shown as they were recorded."""
    said = []
    if signs is not None:
        seen = ", ".join(sign for sign in signs if sign in joined)
        in_form = f"in vocabulary form ({seen})" if seen else "in vocabulary form"
        said.append(f"Token texts were recorded {in_form} and are shown decoded.")
        over = [
            f"{plural(count, 'character')} {'spans' if count == 1 else 'span'} {width} tokens"
            f"{'' if count == 1 else ' each'}"
            for width, count in spans.items()
        ]
        if over:
            said.append(f"{', '.join(over)}: coloured by the strongest of them, with the numbers of each.")
    if invalid:
        have = "1 token has an invalid byte" if invalid == 1 else f"{invalid} tokens have invalid bytes"
        said.append(f"{have}, shown as <0x…>.")
    return " ".join(said) or None


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
