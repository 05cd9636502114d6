"""Small builders that fill a database through the real storage functions.

    batch = make_batch(engine, rewards=[[1, 0, 0.5], [0, None]], arrays={"values": [[0.1, 0.2], None, …]})

Rewards are given per prompt group. Arrays are given per rollout in the order of the rewards; rollout `i` has
index `i`, group ids are "g0", "g1", … unless given. Each builder commits.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Engine

from storage import analyses, batches, estimates, jobs, runs, uploads
from storage.database import write
from storage.ids import new_id
from storage.models import Analysis, Batch, Estimate, Run, Upload

INTEGER_FIELDS = ("response_ids", "prompt_ids")


def make_run(engine: Engine, name: str = "run") -> Run:
    """The run of that name, made if it is not there."""
    with write(engine) as session:
        return runs.get_or_create(session, name)


def make_upload(
    engine: Engine, filename: str = "rollouts.jsonl", *, state: str = "succeeded", **columns: Any
) -> Upload:
    """An upload of a few bytes, succeeded unless said otherwise."""
    content = columns.pop("content", repr((filename, new_id())).encode())
    sha256 = columns.pop("sha256", hashlib.sha256(content).hexdigest())
    with write(engine) as session:
        return uploads.create(
            session,
            filename=filename,
            bytes=len(content),
            sha256=sha256,
            files=columns.pop("files", [{"filename": filename, "bytes": len(content), "sha256": sha256}]),
            request=columns.pop("request", {}),
            **{"format": "jsonl", "state": state, **columns},
        )


def make_batch(
    engine: Engine,
    rewards: Sequence[Sequence[float | None]] = ((1.0, 0.0),),
    *,
    run: str = "run",
    step: int | None = 1,
    split: str | None = None,
    upload: Upload | None = None,
    arrays: Mapping[str, Any] | None = None,
    lengths: Sequence[int] | None = None,
    group_ids: Sequence[str] | None = None,
    data_sources: Sequence[str | None] | None = None,
    prompts: Sequence[str | None] | None = None,
    columns: Mapping[str, Sequence[Any]] | None = None,
    ready: bool = True,
    **finish: Any,
) -> Batch:
    """A ready batch with one prompt group per entry of `rewards`.

    `arrays`: field -> one list (or None) per rollout; `lengths`: tokens per rollout, which get a
    `response_mask` of ones; `data_sources` and `prompts` are per group; `columns`: further columns of
    `Rollout` -> one value per rollout; the rest goes to `batches.finish` (`fields`, `findings`, …).
    """
    given = dict(arrays or {})
    if lengths is not None:
        given.setdefault("response_mask", [[1] * length for length in lengths])
    token_arrays = {name: [_array(name, value) for value in values] for name, values in given.items()}
    owner = upload or make_upload(engine)
    with write(engine) as session:
        run_row = runs.get_or_create(session, run)
        batch = batches.begin(
            session, run_id=run_row.id, upload_id=owner.id, format="jsonl", step=step, split=split
        )
        start = 0
        for group_no, scores in enumerate(rewards):
            members = range(start, start + len(scores))
            source = None if data_sources is None else data_sources[group_no]
            prompt = {
                "group_id": f"g{group_no}" if group_ids is None else group_ids[group_no],
                "data_source": source,
                "prompt": f"Prompt {group_no}" if prompts is None else prompts[group_no],
            }
            rows = [
                _rollout(
                    i, scores[i - start], source, token_arrays, {k: v[i] for k, v in (columns or {}).items()}
                )
                for i in members
            ]
            own = {name: [values[i] for i in members] for name, values in token_arrays.items()}
            batches.add_part(session, batch.id, group_no, 0, prompt, rows, own)
            start += len(scores)
        fields = {name: "recorded" for name in token_arrays}
        if ready:
            batches.finish(session, batch.id, **{"fields": fields, **finish})
        session.refresh(batch)
        return batch


def make_estimate(
    engine: Engine,
    batch_id: str,
    advantages: Sequence[float],
    *,
    convention: str | None = "grpo/verl",
    estimator: str = "grpo",
    request: dict[str, Any] | None = None,
    state: str = "succeeded",
    default: bool = False,
    **values: Sequence[float],
) -> Estimate:
    """A finished estimate with one advantage per rollout, by index; `values`: other columns of its rows."""
    asked = request or {"convention": convention, "estimator": estimator}
    with write(engine) as session:
        estimate, _ = estimates.request(
            session, batch_id, asked, hashlib.sha256(repr(asked).encode()).hexdigest(), estimator=estimator,
            convention=convention, default=default, total=len(advantages),
        )  # fmt: skip
        flat: NDArray[np.float64] = np.asarray(advantages, np.float64)
        stored: dict[str, Any] = {
            "advantage": flat,
            "advantage_raw": flat,
            "total_abs": np.abs(flat),
            **values,
        }
        estimates.put_rollouts(session, estimate.id, range(len(flat)), stored)
        if state == "succeeded":
            jobs.begin_attempt(session, Estimate, estimate.id, "test")
            estimates.finish(session, estimate.id, per_token=False, device="cpu", timing={}, summary={})
        session.refresh(estimate)
        return estimate


def _array(field: str, value: Any) -> Any:
    if value is None or field == "response_tokens" or isinstance(value, np.ndarray):
        return value
    if field == "response_mask":
        return np.asarray(value, np.uint8)
    return np.asarray(value, np.int64 if field in INTEGER_FIELDS else np.float64)


def _rollout(
    index: int,
    reward: float | None,
    source: str | None,
    arrays: Mapping[str, Sequence[Any]],
    more: dict[str, Any],
) -> dict[str, Any]:
    own = {name: values[index] for name, values in arrays.items() if values[index] is not None}
    lengths = [len(value) for name, value in own.items() if name != "prompt_ids"]
    mask = own.get("response_mask")
    row = {
        "index": index,
        "row": index + 1,
        "reward": reward,
        "data_source": source,
        "length": lengths[0] if lengths else None,
        "valid": None if mask is None else int(np.asarray(mask).sum()),
        "response": f"Response {index}",
        **more,
    }
    return {"digest": hashlib.sha256(repr((row, own)).encode()).hexdigest()[:32], **row}


def make_analysis(
    engine: Engine, batch_id: str, kind: str = "reconcile", request: Mapping[str, Any] | None = None
) -> Analysis:
    """A queued analysis of the batch."""
    asked = dict(request or {})
    with write(engine) as session:
        return analyses.request(session, batch_id, kind, asked, repr(sorted(asked.items())), total=1)[0]
