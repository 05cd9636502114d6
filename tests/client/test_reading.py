"""Reading back: what a page shows, as numpy columns."""

import importlib.util

import numpy as np
import pytest

from tests.client.conftest import Site
from tests.client.rollouts import columns, lengths
from vantage_client import Table, get
from vantage_client.http import Away, Refused
from vantage_client.reading import restored, table


@pytest.fixture
def batch(site: Site) -> str:
    with site.recorder("read back") as recorder:
        recorder.log(1, columns(1))
        assert recorder.flush(read=True)
    return str(site.client.steps("read back")["batch"][0])


def test_addresses_of_pages_give_what_they_show(site: Site, batch: str) -> None:
    url = site.server.url
    run = site.client.json("/runs/read back")["id"]
    assert get(f"{url}/runs/{run}")["step"].tolist() == [1]
    rollouts = get(f"{url}/batches/{batch}?estimate=recorded")
    assert rollouts["reward"].tolist() == columns(1)["reward"].tolist()
    assert rollouts["length"].tolist() == lengths(8).tolist()
    assert len(rollouts) == 8
    assert rollouts.about["rollouts"] == 8
    assert "read back" in get(f"{url}/runs")["name"]
    one = get(f"{url}/batches/{batch}/rollouts/3.json")
    assert one["response_ids"].dtype.kind == "i"
    assert one["old_log_probs"].tolist() == columns(1)["old_log_probs"][3, :4].tolist()
    groups = get(f"{url}/api/v1/batches/{batch}/groups")
    assert groups["size"].tolist() == [4, 4]


def test_an_estimate_comes_in_the_order_of_the_batch(site: Site, batch: str) -> None:
    made = site.client.estimate(batch, "grpo/verl")
    assert made["state"] == "succeeded"
    found = get(f"{site.server.url}/api/v1/estimates/{made['id']}/advantages")
    assert found["index"].tolist() == list(range(8))
    assert [len(values) for values in found["advantages"]] == lengths(8).tolist()
    rewards = columns(1)["reward"][:4]
    expected = (rewards - rewards.mean()) / (rewards.std(ddof=1) + 1e-6)
    assert [values[0] for values in found["advantages"][:4]] == pytest.approx(expected.tolist(), abs=1e-6)


def test_numbers_that_json_has_not_come_back() -> None:
    found = restored({"a": [1.0, None, None], "b": None, "nonfinite": {"a": {"1": "-Infinity"}, "b": "NaN"}})
    assert found["a"].tolist()[:2] == [1.0, -np.inf]
    assert np.isnan(found["a"][2]) and np.isnan(found["b"])
    assert np.isnan(table([{"x": 1}, {"x": None}])["x"][1])


def test_pandas_is_used_where_it_is() -> None:
    held = Table({"x": np.arange(2)})
    if importlib.util.find_spec("pandas"):
        assert held.frame()["x"].tolist() == [0, 1]
    else:
        with pytest.raises(ImportError, match="pip install pandas"):
            held.frame()


def test_refusals_are_the_servers_own_sentence(site: Site) -> None:
    with pytest.raises(Refused, match="There is no batch") as refused:
        site.client.rollout("none", 0)
    assert refused.value.status == 404
    with pytest.raises(Away, match="does not answer"):
        get("http://127.0.0.1:9/runs")
