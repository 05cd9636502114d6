"""Every finding says what it means, where it was met, what to do, and what its evidence is called."""

import pytest

from app.findings import FINDINGS
from app.findings.explained import REFERENCE, Explained, explained
from app.findings.of_run import RUN_FINDINGS


def test_every_finding_is_explained() -> None:
    assert [each.code for each in explained()] == [*FINDINGS, *RUN_FINDINGS]


@pytest.mark.parametrize("said", explained(), ids=lambda said: said.code)
def test_all_parts_are_there(said: Explained) -> None:
    assert said.meaning and said.meaning[0].rstrip().endswith((".", "?")), said.code
    for part in (said.seen, said.remedy, said.evidence):
        assert len(part) > 20 and part.endswith("."), said.code
    assert REFERENCE.search(said.seen), f"{said.code} names no public thread"
    assert "`" in said.evidence
