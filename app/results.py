"""What an estimate leaves behind: numbers per rollout, arrays per token, and a summary."""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain, pairwise, repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

import estimators
from app.ahead import ahead
from app.tasks import Task
from app.tensors import Loaded
from estimators import Moments
from estimators.aggregates import quantiles, running_moments
from storage import arrays, codec, estimates
from storage import jobs as job_rows
from storage.database import WriteSession
from storage.models import Estimate

QUANTILES = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
TOP_GROUPS = 32
#: Threads that pack parts: nearly all of it is done without holding the interpreter.
PACKERS = 2
#: About what a row of `estimate_rollout` takes.
ROW_BYTES = 2_000


@dataclass(frozen=True, slots=True)
class Result:
    """An estimate on the CPU, in storage order.

    advantages, raw, returns  `[N]` where per_token, else advantages and raw `[B]`; float64 or float32
    rollouts                  names of `storage.estimates.COLUMNS` -> `[B]` float64
    """

    advantages: NDArray[Any]
    raw: NDArray[Any]
    returns: NDArray[Any] | None
    per_token: bool
    moments: dict[str, Moments]
    rollouts: dict[str, NDArray[np.float64]]

    @classmethod
    def of(cls, found: estimators.Result) -> "Result":
        said = found.summaries
        columns = {
            "advantage": said.mean,
            "advantage_raw": said.raw_mean,
            "raw_m2": said.raw_m2,
            "advantage_min": said.min,
            "advantage_max": said.max,
            "total_abs": said.total_abs,
        }
        return cls(
            plain(found.advantages),
            plain(found.advantages_raw),
            None if found.returns is None else plain(found.returns),
            found.per_token,
            found.moments,
            {name: plain(values) for name, values in columns.items()},
        )


def plain(values: Tensor) -> NDArray[Any]:
    array: NDArray[Any] = values.cpu().numpy()
    return array


@dataclass(frozen=True, slots=True)
class Stretch:
    """The rollouts `start` … `end` (in storage order) of one part of a group."""

    group_no: int
    part: int
    start: int
    end: int


def stretches(loaded: Loaded) -> Iterator[Stretch]:
    """The parts of the batch, in storage order."""
    columns = loaded.columns
    places = np.stack([columns.group_no, columns.part], axis=1)
    starts = np.flatnonzero(np.any(places[1:] != places[:-1], axis=1)) + 1
    bounds = [0, *starts.tolist(), columns.rollouts] if columns.rollouts else []
    for start, end in pairwise(bounds):
        yield Stretch(int(columns.group_no[start]), int(columns.part[start]), start, end)


def store_results(
    task: Task, estimate_id: str, batch_id: str, loaded: Loaded, result: Result, sizes: Sequence[int]
) -> None:
    """Store everything, some parts of the batch in each transaction, with the progress. `sizes`: about how
    many bytes the first transactions store, one after the other; those that follow are as the last.

    The arrays of the next transaction are packed while one is under way.
    """
    offsets = plain(loaded.batch.offsets)
    fields = {"advantages": result.advantages, "advantages_raw": result.raw, "returns": result.returns}
    per_token = {
        estimates.field(name, estimate_id): values
        for name, values in fields.items()
        if result.per_token and values is not None
    }
    with ahead(packed(batch_id, loaded, offsets, per_token, sizes), task.check) as ready:
        for first, last, rows in ready:
            task.check()

            def store(
                session: WriteSession, first: int = first, last: int = last, rows: list[Any] = rows
            ) -> int:
                arrays.put_rows(session, rows)
                some = {name: values[first:last] for name, values in result.rollouts.items()}
                estimates.put_rollouts(session, estimate_id, loaded.columns.index[first:last], some)
                job_rows.progress(session, Estimate, estimate_id, done=last)
                return last

            task.commit(store)


def packed(
    batch_id: str,
    loaded: Loaded,
    offsets: NDArray[np.int64],
    per_token: Mapping[str, NDArray[Any]],
    sizes: Sequence[int],
) -> Iterator[tuple[int, int, list[dict[str, Any]]]]:
    """Of each transaction: its first rollout, the one behind its last, and its rows of arrays."""

    def rows_of(stretch: Stretch) -> list[dict[str, Any]]:
        part = {name: slots(each, offsets, loaded.unknown, stretch) for name, each in per_token.items()}
        return list(arrays.rows_of(batch_id, stretch.group_no, stretch.part, part, codec.QUICK))

    width = sum(values.itemsize for values in per_token.values())
    with ThreadPoolExecutor(PACKERS, "packer") as pool:
        for chunk in chunks(loaded, offsets, width, sizes):
            rows = [row for part in pool.map(rows_of, chunk) for row in part]
            yield chunk[0].start, chunk[-1].end, rows


def chunks(
    loaded: Loaded, offsets: NDArray[np.int64], width: int, sizes: Sequence[int]
) -> Iterator[list[Stretch]]:
    """Neighbouring parts that take about as many bytes as the next of `sizes` says, at `width` bytes a token;
    at least one part."""
    following = chain(sizes, repeat(sizes[-1]))
    chunk: list[Stretch] = []
    size = next(following)
    for stretch in stretches(loaded):
        chunk.append(stretch)
        start, end = chunk[0].start, stretch.end
        if (offsets[end] - offsets[start]) * width + (end - start) * ROW_BYTES >= size:
            yield chunk
            chunk, size = [], next(following)
    if chunk:
        yield chunk


def slots(
    values: NDArray[Any], offsets: NDArray[np.int64], unknown: NDArray[np.bool_], stretch: Stretch
) -> list[NDArray[Any] | None]:
    """A field's values per slot of the part; None for a rollout whose tokens are not known."""
    return [
        None if unknown[i] else values[offsets[i] : offsets[i + 1]] for i in range(stretch.start, stretch.end)
    ]


def summarise(loaded: Loaded, result: Result) -> dict[str, Any]:
    """The summary of the API: what was computed `over`, its spread after whitening (and `raw`: before), the
    signs before and after, and which groups hold most of the total absolute advantage."""
    mask = plain(loaded.batch.response_mask)
    after, before = (
        (result.advantages[mask], result.raw[mask])
        if result.per_token
        else (result.rollouts["advantage"], result.rollouts["advantage_raw"])
    )
    return {
        "over": "tokens" if result.per_token else "rollouts",
        "rollouts": loaded.columns.rollouts,
        "tokens": int(mask.sum()) if loaded.batch.lengths_known else None,
        "rollouts_without_tokens": int(loaded.unknown.sum()),
        **spread_of(after),
        "raw": spread_of(before),
        "signs": {"before": signs(before), "after": signs(after)},
        "groups": shares(loaded, result.rollouts["total_abs"]),
    }


def spread_of(values: NDArray[Any]) -> dict[str, Any]:
    """count of finite values, their mean, std (ddof 1), min, max and quantiles; None where not defined."""
    moments = running_moments([values])
    if not moments.count:
        return {"count": 0, "mean": None, "std": None, "min": None, "max": None, "quantiles": {}}
    least, *found, greatest = quantiles([values], (0.0, *QUANTILES, 1.0))
    return {
        "count": int(moments.count),
        "mean": moments.mean,
        "std": moments.variance() ** 0.5 if moments.count > 1 else None,
        "min": least,
        "max": greatest,
        "quantiles": {f"{q:g}": value for q, value in zip(QUANTILES, found, strict=True)},
    }


def signs(values: NDArray[Any]) -> dict[str, int]:
    return {
        "negative": int(np.count_nonzero(values < 0)),
        "zero": int(np.count_nonzero(values == 0)),
        "positive": int(np.count_nonzero(values > 0)),
        "undefined": int(np.count_nonzero(np.isnan(values))),
    }


def shares(loaded: Loaded, total_abs: NDArray[np.float64]) -> list[dict[str, Any]]:
    """The groups with most Σ|A|, largest first, each with its share of the batch's."""
    numbers, inverse = np.unique(loaded.columns.group_no, return_inverse=True)
    sums = np.bincount(inverse, weights=np.nan_to_num(total_abs, posinf=0.0, neginf=0.0))
    whole = float(sums.sum())
    if whole <= 0:
        return []
    top = np.argsort(-sums, kind="stable")[:TOP_GROUPS]
    return [{"group_no": int(numbers[i]), "share": float(sums[i] / whole)} for i in top if sums[i] > 0]
