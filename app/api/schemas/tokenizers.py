"""Tokenizers and mappings of columns."""

from typing import Any

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


#: The body of a tokenizer, which is read as bytes.
TOKENIZER_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": {"type": "object", "description": "tokenizer.json"}}},
    }
}
