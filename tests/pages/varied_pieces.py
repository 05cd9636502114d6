"""Token texts in the form of a vocabulary, drawn from a seed: many scripts, characters cut anywhere, bytes
that make no character. What must be shown is known from how the bytes were put together.
"""

from dataclasses import dataclass
from itertools import accumulate

import numpy as np

Random = np.random.Generator

WORDS = (
    " hello", " the", "x", "\n", "\n\n", "\t", " ", "  if", "é", "straße", "你", "好", "数学", "한국어",
    "ひら", "سلام", "नमस्ते", "עברית", "ไทย", "👍", "🏳\ufe0f\u200d🌈", "👩\u200d👩\u200d👧\u200d👦", "👋🏽",
    "🇩🇪", "𝔘", "𠀀", "𓀀", "e\u0301", "=", "{", "<b>", "&", "“", "…", "\u00a0", "½",
)  # fmt: skip
#: Bytes that no character has, whatever whole character stands around them.
BROKEN = (b"\xff", b"\xfe", b"\xc0", b"\xe4\xbd", b"\xf0\x9f\x91", b"\xf5")
ENDS = ("<|im_end|>", "<|endoftext|>", "<｜end▁of▁sentence｜>", "</s>")


@dataclass(frozen=True, slots=True)
class Pieces:
    """texts, response   as a file has them; the response is None where it has none
    shown               text and number of tokens of each cluster
    invalid             tokens with a byte that makes no character
    spans               tokens -> characters that lie over so many
    """

    texts: list[str]
    response: str | None
    shown: list[tuple[str, int]]
    invalid: int
    spans: dict[int, int]


def letters() -> list[str]:
    """GPT-2's `bytes_to_unicode`: the letter of each byte."""
    kept = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    table, more = [""] * 256, 0
    for byte in range(256):
        if byte not in kept:
            more += 1
        table[byte] = chr(byte) if byte in kept else chr(255 + more)
    return table


LETTERS = letters()


def units(random: Random, broken: bool) -> list[bytes]:
    """Characters and single bytes that are none, in order; one with a sign of its form is among them."""
    found = [b" ", b"a"]
    for _ in range(int(random.integers(3, 40))):
        if broken and random.random() < 0.15:
            found += [bytes([byte]) for byte in BROKEN[int(random.integers(len(BROKEN)))]]
        else:
            found += [character.encode() for character in WORDS[int(random.integers(len(WORDS)))]]
    return found


def is_text(unit: bytes) -> bool:
    try:
        unit.decode()
    except UnicodeDecodeError:
        return False
    return True


def answer(random: Random, parts: list[bytes], fallback: bool) -> str | None:
    """As a decoder writes the bytes: what makes no character left out, or replaced in its way."""
    data = b"".join(parts)
    each = "".join(part.decode() if is_text(part) else "\ufffd" for part in parts)
    ways = (data.decode(errors="ignore"), each if fallback else data.decode(errors="replace"), None)
    return ways[int(random.integers(3))]


def byte_level(random: Random, broken: bool) -> Pieces:
    """Cut anywhere, as in the vocabularies of GPT-2, Llama 3, Qwen and DeepSeek."""
    parts = units(random, broken)
    size, often = sum(map(len, parts)), float(random.uniform(0.1, 0.9))
    ends = [at for at in range(1, size) if random.random() < often] + [size]
    pieces = cut(b"".join(parts), ends)
    texts = ["".join(LETTERS[byte] for byte in piece) for piece in pieces]
    return ended(random, texts, answer(random, parts, False), parts, ends)


def sentencepiece(random: Random, broken: bool) -> Pieces:
    """Whole characters with `▁` for a space, and bytes of those that the vocabulary lacks."""
    parts = units(random, broken)
    texts, ends, at = list[str](), list[int](), 0
    for part in parts:
        bare = not is_text(part) or part in b"\n\t" or random.random() < 0.3
        joins = bool(texts) and not texts[-1].startswith("<0x") and random.random() < 0.5
        if bare:
            texts += [f"<0x{byte:02X}>" for byte in part]
            ends += range(at + 1, at + len(part) + 1)
        elif joins:
            texts[-1] += part.decode().replace(" ", "▁")
            ends[-1] = at + len(part)
        else:
            texts.append(part.decode().replace(" ", "▁"))
            ends.append(at + len(part))
        at += len(part)
    if not any("▁" in text for text in texts):
        return sentencepiece(random, broken)
    return ended(random, texts, answer(random, parts, True), parts, ends)


def ended(
    random: Random, texts: list[str], response: str | None, parts: list[bytes], ends: list[int]
) -> Pieces:
    """With a control token behind them or not, which the response has or has not."""
    shown, invalid, spans = clusters(parts, ends)
    if random.random() < 0.5:
        end = ENDS[int(random.integers(len(ENDS)))]
        texts, shown = [*texts, end], [*shown, (end, 1)]
        if response is not None and random.random() < 0.5:
            response += end
    return Pieces(texts, response, shown, invalid, spans)


def cut(data: bytes, ends: list[int]) -> list[bytes]:
    return [data[a:b] for a, b in zip([0, *ends], ends, strict=False)]


def clusters(parts: list[bytes], ends: list[int]) -> tuple[list[tuple[str, int]], int, dict[int, int]]:
    """One unit after the other: which tokens it lies over, and where a token and a unit end together."""
    edges = list(accumulate(map(len, parts)))
    owner = [token for token, (a, b) in enumerate(zip([0, *ends], ends, strict=False)) for _ in range(a, b)]
    shown, text, tokens = list[tuple[str, int]](), "", 0
    invalid, spans = set[int](), dict[int, int]()
    for part, end in zip(parts, edges, strict=True):
        text += part.decode() if is_text(part) else f"<0x{part[0]:02X}>"
        over = owner[end - 1] - owner[end - len(part)] + 1
        if not is_text(part):
            invalid.add(owner[end - 1])
        if over > 1:
            spans[over] = spans.get(over, 0) + 1
        if end in ends:
            done = ends.index(end) + 1
            shown.append((text, done - tokens))
            text, tokens = "", done
    return shown, len(invalid), spans


FORMS = {make.__name__: make for make in (byte_level, sentencepiece)}
