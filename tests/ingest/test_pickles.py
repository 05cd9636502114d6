"""Pickles are looked at, never run: what they would import is named, however it is written."""

import io
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.ingest.pickles import culprit, globals_of
from tests.ingest.reading import SAMPLES, read


class Call:
    """Pickles as a call of a function by its name."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.function, self.arguments = function, arguments

    def __reduce__(self) -> tuple[Any, Any]:
        return self.function, self.arguments


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_calls_are_found_in_every_protocol(protocol: int, tmp_path: Path) -> None:
    target = tmp_path / "was_run"
    data = pickle.dumps([1, "text", Call(io.open, str(target), "w")], protocol)
    assert globals_of(data)[-1] in ("io.open", "_io.open")
    data = pickle.dumps({"a": Call(eval, f"open({str(target)!r}, 'w')")}, protocol)
    path = tmp_path / "data.pkl"
    path.write_bytes(data)
    sentence = read(path).sentence()
    assert "eval" in sentence
    assert "wants to call" in sentence
    assert not target.exists()


def test_arrays_alone_are_plain_data() -> None:
    data = pickle.dumps({"a": np.ones(3), "b": [1, {2}], "c": (None, "x")})
    assert culprit(globals_of(data)) is None


def test_a_call_hidden_behind_plain_data_is_named() -> None:
    data = pickle.dumps([np.ones(2), Call(exec, "pass")])
    assert culprit(globals_of(data)) == ("builtins.exec", True)


def test_names_come_through_the_memo() -> None:
    text = b"\x80\x04\x8c\x02os\x94\x8c\x06system\x94h\x00h\x01\x93\x8c\x04true\x85R."
    assert culprit(globals_of(text)) == ("os.system", True)


def test_cut_and_damaged_pickles_name_what_was_found() -> None:
    data = pickle.dumps([Call(eval, "1"), "x" * 1000])
    assert globals_of(data[:-500]) == ["builtins.eval"]
    for position in range(len(data)):
        assert isinstance(globals_of(data[:position] + b"\xff" + data[position + 1 :]), list)


def test_a_class_in_a_torch_file_is_named() -> None:
    with zipfile.ZipFile(SAMPLES / "broken/needs_class.pt") as archive:
        data = archive.read("needs_class/data.pkl")
    assert culprit(globals_of(data)) == ("my_trainer.data.Batch", False)


def test_nothing_here_can_unpickle() -> None:
    folder = Path(__file__).parent.parent.parent / "app" / "ingest"
    for path in folder.glob("*.py"):
        text = path.read_text()
        for word in (
            "import pickle\n",
            "pickle.load",
            "Unpickler",
            "allow_pickle=True",
            "torch.load",
            "eval(",
            "exec(",
        ):
            assert word not in text, path.name
