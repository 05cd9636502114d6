"""From files to records. `read_all` iterates over the headers, rollouts and problems of an upload's files."""

from app.ingest.formats import FORMATS
from app.ingest.options import Options
from app.ingest.pipeline import Reading, read_all
from app.ingest.plan import detect
from app.ingest.record import File, Format, Header, Item, Problem, Rollout, Source
from app.ingest.sources import unwrap

__all__ = [
    "FORMATS",
    "File",
    "Format",
    "Header",
    "Item",
    "Options",
    "Problem",
    "Reading",
    "Rollout",
    "Source",
    "detect",
    "read_all",
    "unwrap",
]
