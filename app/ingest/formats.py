"""The formats that are read. A test proves that no two claim the same file; should they, the narrower stands
first.
"""

from app.ingest import (
    canonical_jsonl,
    canonical_npz,
    canonical_parquet,
    canonical_safetensors,
    nemo_rl,
    prime_rl_exports,
    trl_parquet,
    verifiers_traces,
    verl_jsonl,
)
from app.ingest.record import Format, Join

FORMATS: tuple[Format, ...] = (
    trl_parquet.FORMAT,
    verl_jsonl.FORMAT,
    nemo_rl.FORMAT,
    prime_rl_exports.FORMAT,
    prime_rl_exports.MARKER,
    verifiers_traces.FORMAT,
    canonical_parquet.FORMAT,
    canonical_safetensors.FORMAT,
    canonical_npz.FORMAT,
    canonical_jsonl.FORMAT,
)

#: Formats whose rows complete each other's.
JOINS: tuple[Join, ...] = (prime_rl_exports.JOIN,)
