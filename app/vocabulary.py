"""From the `tokenizer.json` that somebody sent to what decodes token ids: checked, and cut down to that.

Only decoding is needed, so whatever else the file holds (merges, normalisers, patterns that split text) is
not kept and never runs. Decoders that are no fixed tables are refused: a pattern can take for ever.
"""

import codecs
import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson
import zstandard
from tokenizers import Tokenizer
from tokenizers.decoders import DecodeStream

from app.errors import Unprocessable
from app.token_bytes import byte_level

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
NONE = "none"  # of an upload: no tokenizer, also where the run remembers one
MOST_ENTRIES = 4_000_000
DECODERS = frozenset(
    ("ByteLevel", "WordPiece", "Metaspace", "ByteFallback", "Fuse", "Strip", "CTC", "BPEDecoder", "Replace")
)
#: What decoding does not need, and what it needs instead.
_LEFT_OUT = dict.fromkeys(("truncation", "padding", "normalizer", "pre_tokenizer", "post_processor"))


@dataclass(frozen=True, slots=True)
class Checked:
    """A tokenizer that can be stored: `data` is what decoding needs, zstd JSON; the rest describes it."""

    sha256: str
    size: int
    model: str
    decoder: str
    vocabulary: int
    special: int
    data: bytes


def check_name(name: str) -> str:
    """The name, if it can be one. Raises Unprocessable."""
    if not NAME.fullmatch(name) or name.lower() == NONE:
        raise Unprocessable(
            "A tokenizer's name has 1 to 64 letters, digits, dots, dashes and underscores, begins with a "
            f"letter or digit, and is not {NONE!r}."
        )
    return name


def check(content: bytes) -> Checked:
    """The tokenizer that these bytes are. Raises Unprocessable with what is wrong."""
    try:
        document = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        reason = str(error).split(":", 1)[0]
        raise _refused(f"it is no JSON ({reason})") from None
    if not isinstance(document, dict) or not isinstance(document.get("model"), dict):
        raise _refused('it has no "model"')
    decoder = _decoder(document.get("decoder"))
    kept = _kept(document)
    tokenizer = _load(kept)
    special = [token for token in tokenizer.get_added_tokens_decoder().values() if token.special]
    return Checked(
        sha256=hashlib.sha256(content).hexdigest(),
        size=len(content),
        model=str(document["model"].get("type") or "unknown")[:32],
        decoder=decoder[:64],
        vocabulary=tokenizer.get_vocab_size(with_added_tokens=True),
        special=len(special),
        data=zstandard.compress(kept, 3),
    )


def _refused(why: str) -> Unprocessable:
    return Unprocessable(
        f"This is not a tokenizer.json that can be used: {why}. Send the file tokenizer.json that lies "
        "beside the model's weights (tokenizer.save_pretrained writes it)."
    )


def _decoder(value: Any) -> str:
    """The names of the decoder's steps. Raises Unprocessable for steps that are not taken."""
    if value is None:
        return "none"
    steps = value.get("decoders") if isinstance(value, dict) and value.get("type") == "Sequence" else [value]
    if not isinstance(steps, list) or not all(isinstance(step, dict) for step in steps):
        raise _refused('its "decoder" cannot be understood')
    for step in steps:
        if step.get("type") not in DECODERS:
            raise _refused(f"its decoder has a step of the kind {str(step.get('type'))[:40]!r}")
        pattern = step.get("pattern")
        if pattern is not None and not (isinstance(pattern, dict) and set(pattern) == {"String"}):
            raise _refused("its decoder replaces by a regular expression, which is not run")
    return "+".join(str(step["type"]) for step in steps)


def _kept(document: dict[str, Any]) -> bytes:
    """The parts that decoding needs, as JSON."""
    model = document["model"]
    entries = model.get("vocab")
    if not isinstance(entries, (dict, list)) or not entries:
        raise _refused("its model has no vocabulary")
    if len(entries) > MOST_ENTRIES:
        raise _refused(f"its vocabulary has more than {MOST_ENTRIES:,} entries")
    slim = {**model, "merges": []} if "merges" in model else model
    names = ("version", "added_tokens", "decoder")
    kept = {name: document[name] for name in names if name in document}
    return orjson.dumps({**kept, **_LEFT_OUT, "model": slim})


def _load(data: bytes) -> Tokenizer:
    try:
        return Tokenizer.from_buffer(data)
    except (KeyboardInterrupt, SystemExit, MemoryError):
        raise
    except BaseException as error:  # a panic in the library is no Exception
        reason = str(error).splitlines()[0][:200] if str(error) else "it cannot be loaded"
        raise _refused(reason) from None


@dataclass(slots=True)
class Vocabulary:
    """What decodes the ids of responses, token by token."""

    tokenizer: Tokenizer
    special: re.Pattern[str] | None
    by_bytes: bool
    pieces: dict[int, bytes] = field(default_factory=dict)
    whole: dict[int, str | None] = field(default_factory=dict)  # text of pieces that are whole characters
    unused: set[int] = field(default_factory=set)

    @classmethod
    def load(cls, data: bytes) -> "Vocabulary":
        """From the `data` of `Checked`."""
        content = zstandard.decompress(data)
        tokenizer = _load(content)
        steps = set(_decoder(orjson.loads(content).get("decoder")).split("+"))
        added = tokenizer.get_added_tokens_decoder().values()
        texts = sorted((t.content for t in added if t.special and t.content.strip()), key=len, reverse=True)
        pattern = re.compile("|".join(map(re.escape, texts))) if texts else None
        return cls(tokenizer, pattern, "ByteLevel" in steps and steps <= {"ByteLevel", "Fuse"})

    def unknown(self, ids: Sequence[int]) -> int | None:
        """The first id that the vocabulary does not have."""
        for id in dict.fromkeys(ids):
            if id not in self.pieces and (id in self.unused or not self._look_up(id)):
                return id
        return None

    def texts(self, ids: Sequence[int]) -> list[str] | None:
        """The text of each token, special ones included; joined they are the decoded whole.

        A token that ends inside a character has the text "", and the token that ends the character has all
        of it. None where an id is unknown, or the decoder cannot be followed token by token.
        """
        if self.unknown(ids) is not None:
            return None
        return self._by_bytes(ids) if self.by_bytes else self._by_steps(ids)

    def bare(self, text: str) -> str:
        """The text without special tokens and outer white space: what two decodings are compared by."""
        return (text if self.special is None else self.special.sub("", text)).strip()

    def _look_up(self, id: int) -> bool:
        token = self.tokenizer.id_to_token(id) if 0 <= id < 2**32 else None
        if token is None:
            self.unused.add(id)
            return False
        piece = self.pieces[id] = self._bytes(token)
        try:
            self.whole[id] = piece.decode()
        except UnicodeDecodeError:
            self.whole[id] = None
        return True

    def _bytes(self, token: str) -> bytes:
        raw = byte_level(token) if self.by_bytes else None
        return token.encode("utf-8", "surrogatepass") if raw is None else raw

    def _by_bytes(self, ids: Sequence[int]) -> list[str]:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        pieces, whole, found, inside = self.pieces, self.whole, [], False
        for id in ids:
            text = None if inside else whole[id]
            if text is None:
                text = decoder.decode(pieces[id])
                inside = decoder.getstate()[0] != b""
            found.append(text)
        if inside:
            found[-1] += decoder.decode(b"", True)
        return found

    def _by_steps(self, ids: Sequence[int]) -> list[str] | None:
        stream = DecodeStream(skip_special_tokens=False)
        try:
            found = [stream.step(self.tokenizer, id) or "" for id in ids]
            whole = self.tokenizer.decode(list(ids), skip_special_tokens=False)
        except Exception:  # the library raises nothing more particular
            return None
        joined = "".join(found)
        if not whole.startswith(joined):
            return None
        if found:
            found[-1] += whole[len(joined) :]
        return found
