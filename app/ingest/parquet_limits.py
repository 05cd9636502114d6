"""What a Parquet file would become, known before it is decoded.

A page of a few bytes can stand for as many values as its writer likes: dictionary and run-length encoding
repeat a value, DELTA_BYTE_ARRAY repeats the start of the text before. So the footer is held against the
limits, texts stay numbers of their dictionary until it is known how long they would be, and what would still
be large then is taken a few rows at a time.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from app.errors import TooLarge
from app.settings import Settings

WIDTHS = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 12, "FLOAT": 4, "DOUBLE": 8}
VIEW_BYTES = 16
#: A text in its dictionary: its number there.
KEY_BYTES = 4
#: Texts that may come out of one batch of rows; and out of a column, from which its dictionary is kept.
TEXT_BYTES = 64 << 20
PREFIXED = "DELTA_BYTE_ARRAY"
#: Arrow reads no column with one of these as numbers of a dictionary.
DELTAS = {PREFIXED, "DELTA_LENGTH_BYTE_ARRAY"}
DICTIONARIES = {"PLAIN_DICTIONARY", "RLE_DICTIONARY"}
#: Kinds of texts that Arrow can read as numbers of a dictionary.
TEXTS = ("NONE", "STRING", "ENUM", "JSON", "BSON")


@dataclass(slots=True)
class Leaf:
    """A column as the file stores it, over all row groups. `largest`: bytes of its largest chunk."""

    path: str
    is_text: bool
    width: int
    values: int = 0
    largest: int = 0
    expanded: int = 0
    encodings: set[str] = field(default_factory=set)

    @property
    def nested(self) -> bool:
        return "." in self.path

    @property
    def by_dictionary(self) -> bool:
        """Whether its texts are read as numbers of their dictionary."""
        if not self.is_text or self.encodings & DELTAS:
            return False
        return not self.nested or (self.expanded > TEXT_BYTES and bool(self.encodings & DICTIONARIES))

    @property
    def untold(self) -> bool:
        """Whether its values may be as long as a whole chunk, however many they are, and nothing tells."""
        repeats = self.encodings & DICTIONARIES and self.encodings & DELTAS
        return PREFIXED in self.encodings or bool(repeats)


@dataclass(frozen=True, slots=True)
class Declared:
    """`numbers`: bytes of all numbers; `longest`: of what one value may be that has no dictionary to tell."""

    leaves: list[Leaf]
    numbers: int
    longest: int

    @property
    def dictionaries(self) -> list[str]:
        return [leaf.path for leaf in self.leaves if leaf.by_dictionary]


def declared(file: Any) -> Declared:
    """What the footer says of the columns; nothing is decoded."""
    footer, schema = file.metadata, file.schema
    leaves = [leaf_of(schema.column(index)) for index in range(footer.num_columns)]
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        for index, leaf in enumerate(leaves):
            chunk = group.column(index)
            leaf.values += chunk.num_values
            leaf.largest = max(leaf.largest, chunk.total_uncompressed_size)
            leaf.expanded += chunk.num_values * chunk.total_uncompressed_size
            leaf.encodings.update(chunk.encodings)
    numbers = sum(leaf.values * leaf.width for leaf in leaves)
    longest = max((leaf.largest for leaf in leaves if leaf.untold), default=0)
    return Declared(leaves, numbers, longest)


def leaf_of(column: Any) -> Leaf:
    kind = column.physical_type
    text = kind == "BYTE_ARRAY" and column.logical_type.type in TEXTS
    nested = "." in column.path
    width = column.length if kind == "FIXED_LEN_BYTE_ARRAY" else WIDTHS.get(kind, KEY_BYTES if nested else 0)
    return Leaf(column.path, text, width)


def check_untold(name: str, found: Declared, settings: Settings) -> None:
    """Refuse lists of texts whose length nothing bounds: how many are in a row is known too late."""
    for leaf in found.leaves:
        if leaf.nested and leaf.untold and leaf.expanded > settings.max_expanded_bytes:
            encoding = min(leaf.encodings & DELTAS)
            raise TooLarge(
                f"{name}: the texts inside {leaf.path.partition('.')[0]} are written in the encoding "
                f"{encoding} and might expand past the limit of {settings.max_expanded_bytes:,} bytes "
                "(VANTAGE_MAX_EXPANDED_BYTES). Nothing of it was kept. Write them in another encoding."
            )


def expanded(column: Any) -> int:
    """Bytes that an Arrow array takes once each of its texts is spelled out, also those that share memory."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        return _of_dictionary(column)
    if pa.types.is_struct(kind):
        return sum(expanded(part) for part in column.flatten())
    if pa.types.is_map(kind):
        first, last = column.offsets[0].as_py(), column.offsets[-1].as_py()
        return expanded(column.keys[first:last]) + expanded(column.items[first:last])
    if is_list(kind):
        return expanded(column.flatten())
    if pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind):
        times = (pc.sum(column.sizes).as_py() or 0) if len(column.values) else 0
        # Where lists overlap, which of the values are there twice is not looked at.
        return expanded(column.values) * (1 if times <= len(column.values) else times)
    if pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
        heads = np.frombuffer(column.buffers()[1], np.int32).reshape(-1, VIEW_BYTES // 4)
        return int(heads[column.offset : column.offset + len(column), 0].sum(dtype=np.int64))
    if pa.types.is_run_end_encoded(kind):
        return expanded(column.values) * len(column)
    return int(column.nbytes)


def _of_dictionary(column: Any) -> int:
    words, keys = column.dictionary, column.indices
    if not len(words):
        return int(column.nbytes)
    if not is_bytes(words.type):
        largest = expanded(words) if pa.types.is_nested(words.type) else words.nbytes // len(words) + 1
        return len(keys) * largest
    lengths = pc.binary_length(words).cast(pa.int64()).take(keys)
    return (pc.sum(lengths).as_py() or 0) + KEY_BYTES * len(keys)


def spent_by(batch: Any, sizes: list[int]) -> int:
    """What the rows of a batch count for. A prompt that repeats is counted once."""
    once = [name == "prompt" and pa.types.is_dictionary(kind) for name, kind in columns_of(batch)]
    arrays = zip(batch.columns, sizes, once, strict=True)
    return sum(array.nbytes if is_once else size for array, size, is_once in arrays)


def columns_of(batch: Any) -> list[tuple[str, pa.DataType]]:
    return [(column.name, column.type) for column in batch.schema]


def is_bytes(kind: pa.DataType) -> bool:
    """Whether Arrow tells the length of each value."""
    text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    return bool(text or pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def pieces(batch: Any) -> Iterator[tuple[Any, list[int]]]:
    """The rows of a batch in parts that take TEXT_BYTES at most, or one row; and what each column takes.

    Rows share the texts of a column that is not nested, so there they take next to nothing.
    """
    sizes = [expanded(column) for column in batch.columns]
    shared = [pa.types.is_dictionary(column.type) for column in batch.columns]
    spent = sum(size for size, is_shared in zip(sizes, shared, strict=True) if not is_shared)
    if batch.num_rows < 2 or spent <= TEXT_BYTES:
        yield batch, sizes
        return
    half = batch.num_rows // 2
    for part in (batch.slice(0, half), batch.slice(half)):
        yield from pieces(part)


def spelled(column: Any) -> Any:
    """A nested column with its dictionaries' texts in their places."""
    kind = plain(column.type)
    if not pa.types.is_nested(kind) or kind == column.type:
        return column
    # Joined with nothing: a cast looks at the whole of what a part was cut from.
    return pa.concat_arrays([column]).cast(kind)


def plain(kind: pa.DataType) -> pa.DataType:
    """The type without dictionaries."""
    if pa.types.is_dictionary(kind):
        return plain(kind.value_type)
    if pa.types.is_struct(kind):
        return pa.struct([part.with_type(plain(part.type)) for part in kind])
    if pa.types.is_map(kind):
        return pa.map_(plain(kind.key_type), plain(kind.item_type))
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(plain(kind.value_type), kind.list_size)
    if is_list(kind):
        inner = kind.value_field.with_type(plain(kind.value_type))
        return pa.large_list(inner) if pa.types.is_large_list(kind) else pa.list_(inner)
    return kind
