"""`vantage export`: a batch or a whole run from a server into one file."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from app import tabular
from app.errors import NotFound, Unprocessable
from app.jobs import FINAL
from app.remote import Refused, Remote


def take_out(remote: Remote, what: str, format: str, path: Path, estimate: str | None) -> Iterator[str]:
    """Lines for a terminal. `what`: a batch's id, or a run's id or name. `estimate`: the id of one of the
    batch's, or a convention that is computed for every batch. Raises NotFound, Unprocessable, Away."""
    batches = batches_of(remote, what)
    chosen = [estimate_of(remote, batch, estimate) for batch in batches]
    partial = path.with_name(f".{path.name}.partial{path.suffix}")
    try:
        rows = tabular.write(partial, format, lines(remote, list(zip(batches, chosen, strict=True))))
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    yield f"{path}: {rows} rollouts of {len(batches)} {'batch' if len(batches) == 1 else 'batches'}"


def batches_of(remote: Remote, what: str) -> list[str]:
    """The batch, or the newest batch of each step and split of the run, in step order."""
    try:
        return [str(remote.get(f"/batches/{what}")["id"])]
    except Refused:
        pass
    found: list[dict[str, Any]] = []
    cursor: str | None = None
    while True:
        try:
            page = remote.get(f"/runs/{what}/steps", limit=200, cursor=cursor)
        except Refused:
            raise NotFound(f"There is no batch and no run {what!r} at {remote.url}.") from None
        found += page["items"]
        cursor = page["next"]
        if cursor is None:
            break
    if not found:
        raise Unprocessable(f"The run {what!r} has no batch yet.")
    return [row["batch"] for row in found if row["newest"]]


def estimate_of(remote: Remote, batch: str, asked: str | None) -> str | None:
    """The id of a finished estimate. Raises Unprocessable."""
    if asked is None:
        return None
    if "/" not in asked:
        return asked
    made = remote.post(f"/batches/{batch}/estimates", {"convention": asked}, wait=60)
    while made["state"] not in FINAL:
        made = remote.post(f"/batches/{batch}/estimates", {"convention": asked}, wait=60)
    if made["state"] != "succeeded":
        raise Unprocessable(f"{asked} cannot be computed for batch {batch}: {made['error']}")
    return str(made["id"])


def lines(remote: Remote, batches: Iterable[tuple[str, str | None]]) -> Iterator[bytes]:
    """The rows of all batches, one line each, with the first one's header in front."""
    for number, (batch, estimate) in enumerate(batches):
        found = split(remote.blocks(f"/batches/{batch}/rows", estimate=estimate))
        header = next(found)
        if not number:
            yield header
        yield from found


def split(blocks: Iterable[bytes]) -> Iterator[bytes]:
    rest = b""
    for block in blocks:
        *whole, rest = (rest + block).split(b"\n")
        yield from (line + b"\n" for line in whole)
    if rest:
        yield rest + b"\n"
