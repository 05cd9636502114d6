"""Uploads that come in pieces."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from app.api.schemas.common import Shape, Time
from app.transfers import MAX_FILES

#: The integers that every JSON reader keeps exactly.
MOST_BYTES = 2**53 - 1


class FileToCome(BaseModel):
    """`bytes` as they are sent, compressed or not."""

    model_config = ConfigDict(extra="forbid")

    filename: str = Field(max_length=4096, examples=["dump/step_1.jsonl"])
    bytes: int = Field(ge=0, le=MOST_BYTES, strict=True, examples=[41943040])
    encoding: Literal["identity", "gzip", "zstd"] | None = Field(
        default=None, description="What the file is compressed with, where its content does not say so."
    )


class Beginning(BaseModel):
    """The files in the order in which their bytes will come."""

    model_config = ConfigDict(extra="forbid")

    files: list[FileToCome] = Field(min_length=1, max_length=MAX_FILES)


class Completion(BaseModel):
    model_config = ConfigDict(extra="forbid")

    sha256: str | None = Field(
        default=None,
        pattern="^[0-9a-fA-F]{64}$",
        description="Of all bytes in the order in which they were sent; the transfer is refused if they "
        "differ.",
    )


class ComingFile(Shape):
    filename: str
    bytes: int
    encoding: str | None


class TransferItem(Shape):
    """What is here of an upload that comes in pieces."""

    id: str
    files: list[ComingFile]
    bytes: int = Field(description="Of all files.")
    offset: int = Field(description="How many of them are here: where the next piece begins.")
    created: Time
    expires: float | None = Field(description="When it is deleted if nothing more comes; Unix seconds.")
    upload: str | None = Field(description="The upload that it became.")


class TransferDigests(Shape):
    """SHA-256 of what is here, block by block: whether a file is the one that was begun."""

    start: int
    step: int = Field(description="Bytes of each block; the last one of all may be shorter.")
    sha256: list[str]
    offset: int = Field(description="How many bytes are here.")
    next: int | None = Field(description="The `start` of the blocks that follow.")


#: The body of a piece, which is streamed to disk.
PIECE_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}
