"""What every table has in common: the metadata with its naming convention, and the column types."""

from typing import Any, ClassVar

from sqlalchemy import BigInteger, Float, ForeignKey, MetaData
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from storage.types import Json, Key


class Base(DeclarativeBase):
    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(column_0_label)s",
            "uq": "uq_%(table_name)s_%(column_0_name)s",
            "ck": "ck_%(table_name)s_%(constraint_name)s",
            "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
            "pk": "pk_%(table_name)s",
        }
    )
    type_annotation_map: ClassVar[dict[Any, Any]] = {
        dict[str, Any]: Json,
        list[Any]: Json,
        int: BigInteger,
        float: Float(53),
    }


def batch_key(primary_key: bool = True) -> Mapped[str]:
    """The column that ties a row to its batch and disappears with it."""
    return mapped_column(Key(32), ForeignKey("batch.id", ondelete="CASCADE"), primary_key=primary_key)
