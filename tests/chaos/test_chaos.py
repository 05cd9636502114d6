"""A short run of the chaos: `make chaos` is the long one."""

from pathlib import Path

import pytest

from tests import databases
from tests.chaos.run import chaos

pytestmark = pytest.mark.acceptance

SECONDS = 20.0


@pytest.mark.parametrize("kind", databases.KINDS)
def test_nothing_is_lost_wrong_or_double_whatever_is_killed(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = request.getfixturevalue("empty_url") if kind == "postgresql" else None
    report = chaos(tmp_path, url, SECONDS, seed=1)
    assert report["violations"] == []
    assert report["kills"]
    assert report["uploads"]
