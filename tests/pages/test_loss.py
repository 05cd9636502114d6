"""The page of the loss weight: the modes on a batch, what the address says, what is lacking."""

import pytest

from tests.pages.conftest import Site


def test_modes_on_two_tasks(site: Site) -> None:
    said = site.data(f"/batches/{site.batches['two-tasks']}/loss.json")
    lines = {line["name"]: line for line in [*said["common"], *said["others"]]}
    assert [line["name"] for line in said["common"]] == [
        "token-mean", "token-sum", "seq-mean-token-sum", "seq-mean-token-mean", "seq-mean-token-sum-norm",
        "dapo", "dr_grpo",
    ]  # fmt: skip
    assert lines["token-sum"]["lightest"] == lines["token-sum"]["heaviest"] == 1.0
    assert lines["token-mean"]["heaviest"] == pytest.approx(1 / said["tokens"])
    # Per response, the longest weigh as much as the others; per token they weigh most.
    assert lines["seq-mean-token-mean"]["longest"] < lines["token-mean"]["longest"]
    assert said["mode"]["name"] == "token-mean" and said["why"] is None


def test_the_mode_and_its_constant_stand_in_the_address(site: Site) -> None:
    address = f"/batches/{site.batches['two-tasks']}/loss"
    said = site.data(f"{address}.json?mode=dr_grpo&scale=100&clip_low=&clip_high=0.28")
    assert said["mode"]["heaviest"] == pytest.approx(1 / (32 * 100))
    assert (said["clip_low"], said["clip_high"]) == (0.2, 0.28)
    assert all("mode=dr_grpo" in chart["src"] and "scale=100" in chart["src"] for chart in said["charts"])
    html = site.page(f"{address}?mode=dr_grpo")
    assert 'aria-current="true"><th scope="row"><a href="' in html
    assert site.data(f"{address}.json?mode=nothing")["mode"]["name"] == "token-mean"
    site.page(f"{address}?scale=-1", 422)


def test_what_the_ratio_lacks_is_named(site: Site) -> None:
    said = site.data(f"/batches/{site.batches['hostile']}/loss.json")
    assert said["ratio"] is None and [each["field"] for each in said["lacks"]] == ["rollout_log_probs"]
    assert "rollout_log_probs" in site.page(f"/batches/{site.batches['hostile']}/loss")


def test_without_tokens_nothing_is_weighed(site: Site) -> None:
    html = site.page(f"/batches/{site.batches['plain']}/loss")
    assert "Nothing can be weighed" in html and "no values recorded: response tokens" in html
