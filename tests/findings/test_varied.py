"""Every kind of trouble is named in batches drawn from seeds, with its numbers and rows, and little else."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import Engine

from tests.findings.ingested import found
from tests.findings.memory import codes_of
from tests.findings.varied import GROUP_KINDS, Varied
from tests.findings.varied_tokens import TOKEN_KINDS

KINDS = GROUP_KINDS | TOKEN_KINDS
#: Those seen from prompts, or from fields that are kept as they are: they are read from a file.
FROM_FILES = ("by_text", "shifted_values")


def drawn(kind: str, seed: int) -> Varied:
    return KINDS[kind](np.random.default_rng([seed, *kind.encode()]))


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in FROM_FILES])
def test_it_is_named_and_nothing_unrelated(kind: str, seed: int) -> None:
    made = drawn(kind, seed)
    holds(made, codes_of(made.rows))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", FROM_FILES)
def test_it_is_named_in_a_file(sqlite_engine: Engine, tmp_path: Path, kind: str, seed: int) -> None:
    made = drawn(kind, seed)
    holds(made, found(sqlite_engine, tmp_path, made.rows))


def holds(made: Varied, said: dict[str, dict[str, Any]]) -> None:
    for code, expected in made.codes.items():
        assert code in said, (code, list(said))
        for name, value in expected.items():
            given: Any = said[code]["evidence"][name]
            assert given == (pytest.approx(value, rel=1e-3) if isinstance(value, float) else value), name
    for code, rollouts in made.rollouts.items():
        assert set(said[code]["rollouts"]) == rollouts, code
    loud = {code for code, each in said.items() if each["severity"] != "info"}
    assert loud <= {*made.codes, *made.also}, loud
