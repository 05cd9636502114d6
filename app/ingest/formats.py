"""The formats that are read. The order is the tie-break: narrower ones first; a test proves that none is needed."""

from app.ingest import canonical_jsonl
from app.ingest.record import Format

FORMATS: tuple[Format, ...] = (canonical_jsonl.FORMAT,)
