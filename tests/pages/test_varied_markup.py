"""Whatever a model writes stays text: on pages, in data islands, in JSON beside them and in a spreadsheet."""

import csv
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from app import tabular
from app.spreadsheet import FORMULA
from tests.findings.build import CASES
from tests.pages.conftest import Site, jsonl
from tests.pages.test_tokens import FORBIDDEN
from tests.pages.test_varied_pieces import CHUNK, read_back
from tests.pages.varied_markup import rows, text

HARMLESS = ("title", "value", "aria-label", "alt", "content", "data-pin", "href", "data-src", "placeholder")


class Elements(HTMLParser):
    """Start tags with their attributes, and what is in data islands."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.islands: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.cdata_elem == "script" and self.tags[-1][1].get("type") == "application/json":
            self.islands.append(data)


def safe(page: str, address: str) -> None:
    found = Elements()
    found.feed(page)
    for tag, attributes in found.tags:
        assert tag not in ("xpwned", "iframe", "base", "img", "object", "marquee"), (address, tag)
        for name, value in attributes.items():
            assert not name.startswith("on") and name not in ("srcdoc", "data-pwned"), (address, tag, name)
            assert "pwned" not in (value or "") or name in HARMLESS, (address, tag, name, value)
            if name in ("href", "src", "action", "data-src"):
                assert not re.match(r"\s*(javascript|data|vbscript):|//|https?://127.0.0.1/", value or ""), (
                    value
                )
    for island in found.islands:
        assert not re.search("[<>&\u2028\u2029]", island), address
        json.loads(island)
    drawn = re.sub(r'\svalue="[^"]*"', "", page)  # what a form sends back is never drawn
    assert not FORBIDDEN.search(drawn), (address, FORBIDDEN.search(drawn))


@pytest.mark.parametrize("seed", range(3))
def test_text_of_a_model_stays_text(fresh: Site, tmp_path: Path, seed: int) -> None:
    made = rows(np.random.default_rng([seed, 37]))
    batch = fresh.place.ingest(jsonl(made))["batches"][0]["id"]
    below = (
        "",
        "/groups/0",
        "/groups/1?view=side",
        "/rollouts/1",
        "/loss",
        "/verify",
        "/compare",
        "/whitening",
    )
    for address in ("/", *(f"/batches/{batch}{part}" for part in below)):
        safe(fresh.page(address), address)
    for place, row in enumerate(made):
        page = fresh.page(f"/batches/{batch}/rollouts/{place}?estimate=recorded")
        shown = read_back("".join(CHUNK.findall(page)))
        assert [text for text, _ in shown] == row["response_tokens"]
        given = fresh.data(f"/api/v1/batches/{batch}/rollouts/{place}")
        assert all(
            given[name] == row[name] for name in ("response", "prompt", "ground_truth", "response_tokens")
        )
    sheet(fresh, batch, tmp_path / "rows.csv", made)


def sheet(fresh: Site, batch: str, path: Path, made: list[dict[str, object]]) -> None:
    """Each cell is its text again, with an apostrophe in front of what a spreadsheet would run."""
    lines = fresh.client.get(f"/api/v1/batches/{batch}/rows").content.rstrip(b"\n").split(b"\n")
    assert tabular.write(path, "csv", lines) == len(made)
    with open(path, encoding="utf-8-sig", newline="") as file:
        read = list(csv.DictReader(file))
    for cells, row in zip(read, made, strict=True):
        for name in ("response", "prompt", "group_id", "data_source", "ground_truth", "finish_reason"):
            assert cells[name].removeprefix("'") == str(row[name]).removeprefix("'"), name
            assert cells[name] == row[name] or str(row[name]).strip(" \u00a0").startswith(FORMULA)
        assert not any(
            cell.strip(" \u00a0").startswith(FORMULA) for cell in cells.values() if not number(cell)
        )
        assert (
            float(cells["reward"]) == row["reward"] and json.loads(cells["advantages"]) == row["advantages"]
        )


def number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return not cell.startswith(("+", "\t", "\n", "\r"))


@pytest.mark.parametrize("seed", range(40))
def test_no_formula_gets_into_a_spreadsheet(tmp_path: Path, seed: int) -> None:
    random = np.random.default_rng([seed, 6])
    texts = [text(random) for _ in range(50)]
    lines = [json.dumps({"response": each, "reward": -1.5}).encode() for each in texts]
    assert tabular.write(tmp_path / "rows.csv", "csv", lines) == 50
    with open(tmp_path / "rows.csv", encoding="utf-8-sig", newline="") as file:
        cells = [(row["response"], row["reward"]) for row in csv.DictReader(file)]
    for (cell, reward), given in zip(cells, texts, strict=True):
        assert reward == "-1.5" and cell in (given, f"'{given}")
        assert not cell.lstrip(" ").startswith(FORMULA)


def test_the_known_case_of_a_formula(tmp_path: Path) -> None:
    (case,) = CASES.glob("37-*.json")
    known = json.loads(case.read_text())
    lines = [json.dumps({"response": row["response"]}).encode() for row in known["input"]["rows"]]
    tabular.write(tmp_path / "rows.csv", "csv", lines)
    with open(tmp_path / "rows.csv", encoding="utf-8-sig", newline="") as file:
        cells = [row["response"] for row in csv.DictReader(file)]
    assert cells[6].startswith(known["expect"]["csv_export_cell_6_starts_with"])
    assert [*cells[:6], *cells[7:]] == [
        row["response"] for i, row in enumerate(known["input"]["rows"]) if i != 6
    ]
