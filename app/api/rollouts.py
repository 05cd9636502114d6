"""Rollouts of a batch: the list, one whole, one track of one."""

from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Path, Query, Request, Response
from numpy.typing import NDArray

from app.api.listing import Cursor, Limit, asked, listed
from app.api.lookup import MOST_INDEX, Id, Index, batch_of, estimate_in, rollout_of, version_of
from app.api.schemas.common import binary
from app.api.schemas.data import RolloutDetail, RolloutPage, Track
from app.api.strict import StrictRoute
from app.deps import Reader
from app.errors import AppError, NotFound, Unprocessable
from app.responses import body, etag, nonfinite_name, not_modified, numbers, respond
from storage import arrays, batches, rollouts
from storage.database import AnySession
from storage.models import Batch, Rollout
from storage.rollouts import Filter, RolloutRow

router = APIRouter(prefix="/api/v1/batches/{batch_id}/rollouts", tags=["batches"], route_class=StrictRoute)

OCTETS = "application/octet-stream"

#: `filter=name:value` -> how the value reads.
FILTERS: dict[str, type[str] | type[int] | type[float]] = {
    "group_id": str,
    "group_no": int,
    "data_source": str,
    "finish_reason": str,
    "reward_min": float,
    "reward_max": float,
}

#: Columns of a rollout that are shown under their own names.
SAME = (
    "index", "row", "file", "group_no", "sample_index", "sample_id", "data_source", "response", "messages",
    "reward", "reward_components", "advantage", "length", "valid", "ground_truth", "finish_reason",
    "truncated", "terminated",
    "policy_version", "reward_baseline", "bootstrap_value", "rollout_id", "segment", "rank", "micro_batch",
)  # fmt: skip

EstimateId = Annotated[
    str | None,
    Query(max_length=64, description="Id of the estimate whose advantages are shown; else the recorded."),
]


class NotAcceptable(AppError):
    status = 406
    title = "Not to be had in this form"


def filter_of(entries: list[str]) -> Filter:
    """`["reward_min:0.5", …]` as a Filter. Raises Unprocessable."""
    given: dict[str, Any] = {}
    for entry in entries:
        name, colon, text = entry.partition(":")
        if name not in FILTERS or not colon:
            known = ", ".join(f"{name}:…" for name in FILTERS)
            raise Unprocessable(f"The filter {entry[:100]!r} is not known. There are {known}.")
        if name in given:
            raise Unprocessable(f"The filter {name} is given twice. Give each once.")
        given[name] = value_of(name, text)
    return Filter(**given)


def value_of(name: str, text: str) -> str | int | float:
    try:
        value = FILTERS[name](text)
    except ValueError:
        raise Unprocessable(f"The filter {name} takes a number, not {text[:100]!r}.") from None
    if not isinstance(value, str) and not abs(value) <= (MOST_INDEX if name == "group_no" else np.inf):
        raise Unprocessable(f"The filter {name} takes a number within range, not {text[:100]!r}.")
    return value


@router.get("", response_model=RolloutPage)
def list_rollouts(
    request: Request,
    session: Reader,
    batch_id: Id,
    sort: Annotated[
        str,
        Query(
            max_length=32,
            description="`index`, `reward`, `length`, `advantage` or `group`; `-` in front: descending.",
        ),
    ] = "index",
    filter: Annotated[
        list[str] | None,
        Query(
            max_length=16,
            description="`name:value`, may be repeated: " + ", ".join(FILTERS),
            examples=[["data_source:math", "reward_min:0.5"]],
        ),
    ] = None,
    q: Annotated[
        str | None, Query(max_length=1000, description="Text in the prompt or the response.")
    ] = None,
    estimate: EstimateId = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Response:
    """List the rollouts of a batch."""
    batch = batch_of(session, batch_id)
    chosen = estimate_in(session, batch, estimate)
    tag = etag("rollouts", batch.id, version_of(chosen), sort, filter, q, limit, cursor)
    if unchanged := not_modified(request, tag):
        return unchanged
    narrowed = filter_of(filter or [])
    with asked(cursor):
        page = rollouts.page(
            session, batch.id, None if chosen is None else chosen.id, sort, narrowed, q, limit, cursor
        )
    return respond(request, listed(page, rollout_item), etag=tag)


def rollout_item(row: RolloutRow) -> dict[str, Any]:
    return {
        "index": row.index,
        "row": row.row,
        "group_no": row.group_no,
        "group_id": row.group_id,
        "data_source": row.data_source,
        "reward": row.reward,
        "nonfinite": {"reward": row.reward_nonfinite} if row.reward_nonfinite else {},
        "length": row.length,
        "valid": row.valid,
        "finish_reason": row.finish_reason,
        "advantage": row.advantage,
    }


@router.get("/{index}", response_model=RolloutDetail)
def get_rollout(request: Request, session: Reader, batch_id: Id, index: Index) -> Response:
    """A rollout whole: texts, reward, and every per-token array that was recorded, under its own name."""
    batch = batch_of(session, batch_id)
    tag = etag("rollout", batch.id, index)
    if unchanged := not_modified(request, tag):
        return unchanged
    return respond(request, describe(session, batch, rollout_of(session, batch, index)), etag=tag)


def describe(session: AnySession, batch: Batch, rollout: Rollout) -> dict[str, Any]:
    group = batches.group(session, batch.id, rollout.group_no)
    assert group is not None
    shown = {name: getattr(rollout, name) for name in SAME}
    odd = odd_columns(rollout)
    for name, values in arrays.rollout_arrays(session, rollout).items():
        if isinstance(values, np.ndarray):
            shown[name], names = numbers(values)
            odd |= {name: names} if names else {}
        else:
            shown[name] = values
    extra = {name: value for name, value in (rollout.extra or {}).items() if name != "_nonfinite"}
    return {
        "batch": batch.id,
        "group_id": group.group_id,
        **shown,
        "prompt": group.prompt if rollout.prompt is None else rollout.prompt,
        "prompt_messages": group.messages if rollout.prompt_messages is None else rollout.prompt_messages,
        "extra": extra or None,
        "nonfinite": odd,
    }


def odd_columns(rollout: Rollout) -> dict[str, Any]:
    """What the nulls among a rollout's single numbers stand for."""
    odd: dict[str, Any] = dict((rollout.extra or {}).get("_nonfinite", {}))
    if rollout.reward_nonfinite:
        odd["reward"] = rollout.reward_nonfinite
    parts = {
        name: nonfinite_name(value)
        for name, value in (rollout.reward_components or {}).items()
        if value is not None and not np.isfinite(value)
    }
    return odd | ({"reward_components": parts} if parts else {})


Start = Annotated[int, Query(ge=0, le=MOST_INDEX, description="First token, from 0.")]
End = Annotated[
    int | None, Query(ge=0, le=MOST_INDEX, description="Token behind the last; the end unless given.")
]


@router.get(
    "/{index}/tracks/{name}",
    response_model=Track,
    responses=binary(
        OCTETS, text="The values; with `Accept: application/octet-stream` as little-endian float32."
    ),
)
def get_track(
    request: Request,
    session: Reader,
    batch_id: Id,
    index: Index,
    name: Annotated[str, Path(max_length=96, description="Name of a per-token array of the rollout.")],
    start: Start = 0,
    end: End = None,
) -> Response:
    """One per-token array of a rollout, or a stretch of it."""
    batch = batch_of(session, batch_id)
    octets = OCTETS in request.headers.get("accept", "")
    tag = etag("track", batch.id, index, name, start, end, octets)
    if unchanged := not_modified(request, tag):
        return unchanged
    values = track_of(session, rollout_of(session, batch, index), name)
    stop = len(values) if end is None else min(end, len(values))
    if start > stop:
        raise Unprocessable(f"start={start} lies behind the end: the track has {len(values)} values.")
    part = values[start:stop]
    if octets:
        return body(request, little_endian(name, part), OCTETS, headers={"Vary": "Accept"}, etag=tag)
    shown, odd = numbers(part) if isinstance(part, np.ndarray) else (part, {})
    content = {
        "name": name,
        "start": start,
        "end": stop,
        "length": len(values),
        "values": shown,
        "nonfinite": odd,
    }
    return respond(request, content, headers={"Vary": "Accept"}, etag=tag)


def track_of(session: AnySession, rollout: Rollout, name: str) -> NDArray[Any] | list[str]:
    """The array of that name. Raises NotFound with the names that there are."""
    found = arrays.rollout_arrays(session, rollout, [name]).get(name)
    if found is None or ":" in name:
        there = ", ".join(sorted(arrays.rollout_arrays(session, rollout))) or "none"
        raise NotFound(f"The rollout has no track {name[:100]!r}. It has: {there}.")
    return found


def little_endian(name: str, values: NDArray[Any] | list[str]) -> bytes:
    if not isinstance(values, np.ndarray):
        raise NotAcceptable(f"{name} are texts. Ask for them as application/json.")
    with np.errstate(over="ignore"):  # beyond float32 is infinite there
        return values.astype("<f4").tobytes()
