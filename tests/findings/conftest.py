"""A data folder with a queue, for findings as an upload stores them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.working import Place, installation, make_template


@pytest.fixture(scope="session")
def data_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_template(tmp_path_factory.mktemp("data-template"))


@pytest.fixture
def place(tmp_path: Path, data_template: Path) -> Iterator[Place]:
    with installation(tmp_path, data_template) as found:
        yield found
