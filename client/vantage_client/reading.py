"""Reading back: what a page or an address of the API shows, as numpy columns or a pandas frame."""

import importlib
import io
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import numpy as np
from numpy.typing import NDArray

from vantage_client.http import Server

API = "/api/v1"
NONFINITE = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}


@dataclass(frozen=True)
class Table:
    """Named columns of one length. A column of numbers is an array, null in it NaN; else a list.

    Columns with one array per row (per-token values) are lists of arrays. `about`: what else there was.
    """

    columns: dict[str, Any]
    about: dict[str, Any] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Any:
        return self.columns[name]

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def frame(self) -> Any:
        """As a pandas DataFrame. Raises ImportError where pandas is not installed."""
        try:
            pandas = importlib.import_module("pandas")
        except ImportError:
            raise ImportError("frame() needs pandas: pip install pandas. `columns` has the arrays.") from None
        return pandas.DataFrame(self.columns)


class Client:
    """Reads from one server. Raises `vantage_client.http.Refused` with the server's sentence, or `Away`."""

    def __init__(self, url: str, token: str | None = None, timeout: float = 120.0) -> None:
        self.server = Server(url, token, timeout)

    def json(self, path: str, **query: Any) -> Any:
        """The JSON at /api/v1`path`."""
        return self.server.ask(f"{API}{path}", query).json()

    def items(self, path: str, **query: Any) -> Iterator[dict[str, Any]]:
        """Every item of a list, page by page."""
        cursor: str | None = None
        while True:
            page = self.json(path, **{"limit": 200, **query}, cursor=cursor)
            yield from page["items"]
            cursor = page["next"]
            if cursor is None:
                return

    def runs(self) -> Table:
        return table(self.items("/runs"))

    def steps(self, run: str) -> Table:
        """The batches of a run, in step order, with what is known of each."""
        return table(self.items(f"/runs/{quote(run, safe='')}/steps"))

    def rollouts(self, batch: str, estimate: str | None = None) -> Table:
        """The rollouts of a batch; `advantage` is of the estimate, else as recorded."""
        about = self.json(f"/batches/{batch}")
        return table(self.items(f"/batches/{batch}/rollouts", estimate=estimate), about)

    def rollout(self, batch: str, index: int) -> dict[str, Any]:
        """One rollout, its per-token values as arrays."""
        return restored(self.json(f"/batches/{batch}/rollouts/{index}"))

    def estimate(self, batch: str, convention: str | None = None, **request: Any) -> dict[str, Any]:
        """A computed estimate: of a convention's name, or as the API takes it (estimator, params …)."""
        body = {"convention": convention, **request} if convention else request
        made: dict[str, Any] = self.server.ask(
            f"{API}/batches/{batch}/estimates",
            {"wait": 60},
            json.dumps(body).encode(),
            {"Content-Type": "application/json"},
            "POST",
        ).json()
        while made["state"] in ("queued", "running"):
            made = self.json(f"/estimates/{made['id']}")
        return made

    def advantages(self, estimate: str) -> Table:
        """Advantages per token of every rollout, in the order of the batch, each a list of arrays."""
        answer = self.server.ask(f"{API}/estimates/{estimate}/advantages", {"format": "npz"})
        return ragged(answer.body)

    def get(self, url: str) -> Any:
        """What a page of this server shows: a run's steps, a batch's rollouts, a rollout, an estimate.

        Any other address of the API gives its JSON, lists as a `Table`.
        """
        parts = urlsplit(url)
        path = parts.path.removeprefix(urlsplit(self.server.url).path.rstrip("/")).removeprefix(API)
        path = path.removesuffix(".json")
        query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        for pattern, read in READERS:
            if match := pattern.fullmatch(path):
                return read(self, query, *match.groups())
        found = self.json(path, **query)
        if isinstance(found, Mapping) and isinstance(found.get("items"), list):
            return table(self.items(path, **query))
        return restored(found) if isinstance(found, Mapping) else found


def get(url: str, token: str | None = None) -> Any:
    """`Client.get` at the server that the address names."""
    parts = urlsplit(url)
    return Client(f"{parts.scheme}://{parts.netloc}", token).get(url)


def _rollouts(client: Client, query: Mapping[str, str], batch: str) -> Table:
    estimate = query.get("estimate")
    return client.rollouts(batch, None if estimate == "recorded" else estimate)


READERS: tuple[tuple[re.Pattern[str], Any], ...] = (
    (re.compile(r"/runs"), lambda client, query: client.runs()),
    (re.compile(r"/runs/([^/]+)(?:/steps)?"), lambda client, query, run: client.steps(run)),
    (re.compile(r"/batches/([^/]+)(?:/rollouts)?"), _rollouts),
    (
        re.compile(r"/batches/([^/]+)/rollouts/(\d+)"),
        lambda client, query, batch, index: client.rollout(batch, int(index)),
    ),
    (
        re.compile(r"/estimates/([^/]+)/advantages"),
        lambda client, query, estimate: client.advantages(estimate),
    ),
)


def table(items: Iterator[Mapping[str, Any]] | list[Any], about: dict[str, Any] | None = None) -> Table:
    """Objects as columns."""
    rows = [restored(item) for item in items]
    names = dict.fromkeys(name for row in rows for name in row)
    return Table({name: column([row.get(name) for row in rows]) for name in names}, about or {})


def column(values: list[Any]) -> Any:
    """An array where every value is a number, a truth value or null; else the list."""
    kinds = {type(value) for value in values}
    if kinds <= {int} or kinds <= {bool}:
        return np.asarray(values)
    if kinds <= {int, float, type(None)} and kinds != {type(None)}:
        return np.asarray([np.nan if value is None else value for value in values], np.float64)
    return values


def restored(found: Mapping[str, Any]) -> dict[str, Any]:
    """The object with its lists of numbers as arrays, and its non-finite numbers back in their places."""
    odd = found.get("nonfinite") or {}
    made: dict[str, Any] = {}
    for name, value in found.items():
        if name == "nonfinite":
            continue
        named = odd.get(name)
        if isinstance(named, str):
            value = NONFINITE[named]
        elif isinstance(value, list) and value and not isinstance(value[0], (str, dict, list)):
            value = _array(value, named if isinstance(named, Mapping) else {})
        made[name] = value
    return made


def _array(values: list[Any], odd: Mapping[str, str]) -> Any:
    made = column(values)
    if odd and isinstance(made, np.ndarray):
        for place, name in odd.items():
            made[int(place)] = NONFINITE[name]
    return made


def ragged(content: bytes) -> Table:
    """Arrays end to end with their offsets, as columns of one array per rollout, by `index`."""
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        held: dict[str, NDArray[Any]] = {name: arrays[name] for name in arrays.files}
    index, offsets = held.pop("index"), held.pop("response_offsets")
    order = np.argsort(index)
    columns: dict[str, Any] = {"index": index[order]}
    for name, flat in held.items():
        pieces = np.split(flat, offsets[1:-1])
        columns[name] = [pieces[i] for i in order]
    return Table(columns)
