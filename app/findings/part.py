"""A stretch of a batch as the checks see its tokens: a few thousand rollouts or one, all fields together."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Row

from app.findings.view import Bools, Floats, Ints
from storage import arrays, codec

#: Not one value per response token: of these `ragged` gives the values, `texts` the token texts.
RAGGED = ("prompt_ids", "response_tokens")
SIZES = "response_token_sizes"


@dataclass(frozen=True, slots=True)
class Stored:
    """One stored part: `rollouts` in it, its fields as stored, and the tokens of each of its rollouts."""

    rollouts: int
    rows: Mapping[str, Row[Any]]
    lengths: Ints

    @classmethod
    def of(cls, rollouts: int, rows: Mapping[str, Row[Any]]) -> "Stored":
        """Raises Corrupt where a field has not one entry per rollout."""
        lengths = np.zeros(rollouts, dtype=np.int64)
        for name, row in rows.items():
            sizes = _sizes(row)
            if sizes.size != rollouts:
                raise arrays.corrupt(row, ValueError(f"has {sizes.size} entries for {rollouts} rollouts"))
            if name not in RAGGED:
                np.maximum(lengths, sizes, out=lengths)
        return cls(rollouts, rows, lengths)


class Part:
    """`R` rollouts that follow each other in storage order, with all their `N` tokens end to end.

    rows      slice of the view's rollouts that these are
    lengths   `[R]` response tokens of each; `starts` `[R]` where they begin
    names     fields that any of the rollouts has
    mask      `[N]` trainable; True where no mask was recorded
    owner     `[N]` rollout of each token, 0 … R−1; `position` `[N]` its number in the rollout, from 0

    A field is decoded when it is first asked for, and kept until the part is let go.
    """

    def __init__(self, start: int, stored: Sequence[Stored]) -> None:
        self._stored = stored
        self._decoded: dict[str, NDArray[Any] | None] = {}
        self._made: dict[str, NDArray[Any]] = {}
        self.lengths: Ints = np.concatenate([part.lengths for part in stored])
        self.rollouts = int(self.lengths.size)
        self.rows = slice(start, start + self.rollouts)
        ends = np.cumsum(self.lengths)
        self.starts: Ints = ends - self.lengths
        self.tokens = int(ends[-1]) if self.rollouts else 0
        self.names = frozenset(name for part in stored for name in part.rows)
        self._filled = np.flatnonzero(self.lengths)

    def get(self, name: str) -> NDArray[Any] | None:
        """`[N]` the values as recorded; `MISSING` (whole numbers: 0) for a rollout without the field. None
        where no rollout of the part has it. Raises Corrupt."""
        if name not in self._decoded:
            self._decoded[name] = self._read(name) if name in self.names else None
        return self._decoded[name]

    def decode(self) -> None:
        """Decode every field now rather than when it is first asked for."""
        for name in self.names.difference(RAGGED):
            self.get(name)

    def floats(self, name: str) -> Floats | None:
        """`[N]` float64, NaN where the field is missing or null; infinities as they are."""
        values = self.get(name)
        return None if values is None else values.astype(np.float64, copy=False)

    def has(self, name: str) -> Bools:
        """`[R]` the rollout has the field."""
        found = np.zeros(self.rollouts, dtype=bool)
        start = 0
        for part in self._stored:
            if (row := part.rows.get(name)) is not None:
                found[start : start + part.rollouts] = _sizes(row) != arrays.ABSENT
            start += part.rollouts
        return found

    def has_token(self, name: str) -> Bools:
        """`[N]` the token's rollout has the field."""
        return self.spread(self.has(name))

    @cached_property
    def mask(self) -> Bools:
        values = self.get("response_mask")
        if values is None:
            return np.ones(self.tokens, dtype=bool)
        has = self.has("response_mask")
        return (values > 0) if has.all() else (values > 0) | ~self.spread(has)

    @cached_property
    def owner(self) -> Ints:
        return np.repeat(np.arange(self.rollouts, dtype=np.int64), self.lengths)

    @cached_property
    def position(self) -> Ints:
        within: Ints = np.arange(self.tokens, dtype=np.int64) - self.spread(self.starts)
        return within

    def spread(self, values: NDArray[Any]) -> NDArray[Any]:
        """`[N]` the value `[R]` of each token's rollout."""
        found: NDArray[Any] = np.repeat(values, self.lengths)
        return found

    def sum(self, values: NDArray[Any]) -> Floats:
        """`[R]` of `[N]`, in float64; booleans are counted. 0 for a rollout without tokens."""
        found: Floats = self._reduce(np.add, values.astype(np.float64, copy=False), 0.0)
        return found

    def count(self, values: Bools) -> Ints:
        """`[R]` how many of `[N]` are True."""
        found: Ints = self._reduce(np.add, values.astype(np.int64), 0)
        return found

    def low(self, values: NDArray[Any]) -> Floats:
        """`[R]` smallest of `[N]`; +inf without tokens."""
        found: Floats = self._reduce(np.minimum, values.astype(np.float64, copy=False), np.inf)
        return found

    def high(self, values: NDArray[Any]) -> Floats:
        """`[R]` largest of `[N]`; −inf without tokens."""
        found: Floats = self._reduce(np.maximum, values.astype(np.float64, copy=False), -np.inf)
        return found

    def last(self, where: Bools) -> Ints:
        """`[R]` place in `[N]` of the last token where `where`; −1 without one."""
        found: Ints = self._reduce(np.maximum, np.where(where, np.arange(self.tokens), -1), -1)
        return found

    def first(self, where: Bools) -> Ints:
        """`[R]` place in `[N]` of the first token where `where`; N without one."""
        found: Ints = self._reduce(
            np.minimum, np.where(where, np.arange(self.tokens), self.tokens), self.tokens
        )
        return found

    @property
    def ends(self) -> Ints:
        """`[R]` place in `[N]` of the last token; −1 for a rollout without tokens."""
        return np.where(self.lengths > 0, self.starts + self.lengths - 1, -1)

    def is_text(self, texts: Sequence[str]) -> Bools:
        """`[N]` the token's text is one of these; False where texts were not recorded."""
        found = np.zeros(self.tokens, dtype=bool)
        if SIZES not in self.names or "response_tokens" not in self.names:
            return found
        ends, sizes, data, has = self._text_index
        for text in texts:
            wanted = np.frombuffer(text.encode(), np.uint8)
            places = np.flatnonzero((sizes == wanted.size) & has)
            for i in range(wanted.size):  # nearly all drop out at the first character
                places = places[data[ends[places] - wanted.size + i] == wanted[i]]
            found[places] = True
        return found

    def once(self, name: str, make: Callable[[], NDArray[Any]]) -> NDArray[Any]:
        """What `make` gives, made once for all who ask for it by this name."""
        if (found := self._made.get(name)) is None:
            found = self._made[name] = make()
        return found

    def texts(self, places: Ints) -> list[str | None]:
        """The texts of some tokens, by their places in `[N]`; None where texts were not recorded."""
        if SIZES not in self.names or "response_tokens" not in self.names:
            return [None] * places.size
        ends, sizes, data, has = self._text_index
        return [
            data[end - size : end].tobytes().decode("utf-8", "replace") if there else None
            for end, size, there in zip(
                ends[places].tolist(), sizes[places].tolist(), has[places].tolist(), strict=True
            )
        ]

    @cached_property
    def _text_index(self) -> tuple[Ints, Ints, NDArray[Any], Bools]:
        sizes = self.get(SIZES)
        assert sizes is not None
        widths = sizes.astype(np.int64)
        data = np.concatenate([_values(p.rows["response_tokens"]) for p in self._stored if SIZES in p.rows])
        has = self.has_token(SIZES) & (widths.sum() == data.size)
        return np.cumsum(widths), widths, data, has

    def _reduce(self, function: np.ufunc, values: NDArray[Any], empty: float) -> Any:
        found = np.full(self.rollouts, empty, dtype=values.dtype)
        if self._filled.size:
            found[self._filled] = function.reduceat(values, self.starts[self._filled])
        return found

    def _read(self, name: str) -> NDArray[Any]:
        if name in RAGGED:
            raise ValueError(f"{name} is not one value per response token")
        read = [(p, None if (row := p.rows.get(name)) is None else _values(row)) for p in self._stored]
        kinds = {values.dtype for _, values in read if values is not None and values.size}
        dtype = np.result_type(*kinds) if kinds else np.dtype(np.float64)
        if len(read) == 1 and read[0][1] is not None and read[0][1].size == self.tokens:
            return read[0][1]
        out = np.full(self.tokens, arrays.MISSING if dtype.kind == "f" else 0, dtype=dtype)
        start = 0
        for part, values in read:
            end = start + int(part.lengths.sum())
            if values is not None:
                _place(out[start:end], values, _sizes(part.rows[name]), part.lengths)
            start = end
        return out


def _place(out: NDArray[Any], values: NDArray[Any], sizes: Ints, lengths: Ints) -> None:
    """Write a field's values where its rollouts' tokens are; a rollout without it is left as it is."""
    with np.errstate(invalid="ignore"):
        if values.size == out.size:
            out[...] = values
        else:
            fits = sizes == lengths
            out[np.repeat(fits, lengths)] = values[np.repeat(fits, np.maximum(sizes, 0))]


def _sizes(row: Row[Any]) -> Ints:
    return _checked(row, lambda: codec.slot_lengths(row.lengths)).astype(np.int64)


def _values(row: Row[Any]) -> NDArray[Any]:
    return _checked(row, lambda: codec.decode_flat(arrays.encoded_of(row)))


def _checked(row: Row[Any], read: Callable[[], NDArray[Any]]) -> NDArray[Any]:
    try:
        return read()
    except codec.Damaged as error:
        raise arrays.corrupt(row, error) from error
