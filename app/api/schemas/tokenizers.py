"""Tokenizers and mappings of columns."""

from typing import Any, Literal

from pydantic import Field

from app.api.schemas.common import Shape, Time


class TokenizerItem(Shape):
    """A tokenizer.json that was uploaded. `bytes` and `sha256` are of the file as it was sent."""

    name: str = Field(examples=["qwen3"])
    sha256: str
    bytes: int
    model: str = Field(examples=["BPE"])
    decoder: str = Field(description="The steps of its decoder.", examples=["ByteLevel"])
    vocabulary: int = Field(description="Entries, added tokens included.", examples=[151669])
    special_tokens: int
    runs: list[str] = Field(description="Runs whose next uploads are decoded with it; the first 20.")
    created: Time


class TokenizerPage(Shape):
    items: list[TokenizerItem]
    next: str | None
    total: int


class TableColumn(Shape):
    """`cells`: its first values as text, long ones cut."""

    name: str
    holds: str = Field(examples=["numbers"])
    field: str | None = Field(description="What it is taken for.", examples=["reward"])
    origin: Literal["asked", "remembered", "guessed"] | None
    cells: list[str]


class MissingField(Shape):
    field: str
    cost: str


class TableColumns(Shape):
    """The first table of an upload. What `question` asks has to be said before it can be read."""

    file: str
    written: str = Field(examples=["a CSV separated by semicolons"])
    shape: str = Field(description="The same for tables with the same set of columns.")
    remembered: bool
    columns: list[TableColumn]
    fields: dict[str, str] = Field(description="Field -> column.")
    guessed: list[str] = Field(description="Fields that are guessed where nothing is said.")
    doubts: list[str]
    missing: list[MissingField]
    question: str | None
    decimal: str | None
    group_by: str | None


class MappingItem(Shape):
    """Which column is what in tables with just these columns. "" in `mapping`: the field is no column."""

    shape: str
    columns: list[str]
    mapping: dict[str, str]
    decimal: str | None
    group_by: str | None
    created: Time
    updated: Time


class MappingPage(Shape):
    items: list[MappingItem]
    next: str | None
    total: int


#: The body of a tokenizer, which is read as bytes.
TOKENIZER_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": {"type": "object", "description": "tokenizer.json"}}},
    }
}
