"""The formats that are read. A test proves that no two claim the same file; should they, the narrower stands
first.
"""

from app.ingest import (
    agent_lightning,
    areal,
    atropos,
    canonical_jsonl,
    canonical_npz,
    canonical_parquet,
    canonical_safetensors,
    nemo_rl,
    open_instruct,
    prime_rl_exports,
    skyrl_evals,
    trl_parquet,
    verifiers_results,
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
    verifiers_results.FORMAT,
    verifiers_results.META,
    areal.FORMAT,
    open_instruct.FORMAT,
    open_instruct.META,
    agent_lightning.FORMAT,
    atropos.FORMAT,
    skyrl_evals.FORMAT,
    skyrl_evals.METRICS,
    canonical_parquet.FORMAT,
    canonical_safetensors.FORMAT,
    canonical_npz.FORMAT,
    canonical_jsonl.FORMAT,
)

#: Formats whose rows complete each other's.
JOINS: tuple[Join, ...] = (prime_rl_exports.JOIN,)
