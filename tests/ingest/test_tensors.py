"""Whole-batch arrays: padded and ragged, every type, and every way in which a file can contradict itself."""

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import save_file

from app.errors import TooLarge
from app.settings import Settings
from tests.ingest.reading import Outcome, read

IDS = np.array([[1, 2, 0], [3, 0, 0], [4, 5, 6]], dtype=np.int64)
LENGTHS = np.array([2, 1, 3])
VALUES = np.array([[0.5, 1.5, 9], [2.5, 9, 9], [3.5, 4.5, 5.5]], dtype=np.float32)
CUT = [[0.5, 1.5], [2.5], [3.5, 4.5, 5.5]]


def npz(folder: Path, **arrays: Any) -> Outcome:
    np.savez_compressed(folder / "batch.npz", **arrays)
    return read(folder / "batch.npz")


def safetensors(folder: Path, arrays: dict[str, NDArray[Any]], **metadata: str) -> Outcome:
    save_file(arrays, folder / "batch.safetensors", metadata or None)
    return read(folder / "batch.safetensors")


def values(outcome: Outcome, name: str = "values") -> list[list[float]]:
    return [rollout.tokens[name].tolist() for rollout in outcome.rollouts]


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("container", ["npz", "safetensors"])
def test_padding_is_cut_at_the_lengths(container: str, order: Any, tmp_path: Path) -> None:
    arrays = {"response_ids": IDS, "response_lengths": LENGTHS, "values": np.asarray(VALUES, order=order)}
    if container == "safetensors":
        arrays["values"] = np.ascontiguousarray(arrays["values"])
    outcome = npz(tmp_path, **arrays) if container == "npz" else safetensors(tmp_path, arrays)
    assert values(outcome) == CUT
    assert values(outcome, "response_ids") == [[1, 2], [3], [4, 5, 6]]


def test_ragged_arrays_are_cut_at_the_offsets(tmp_path: Path) -> None:
    flat = np.concatenate([np.array(row) for row in CUT])
    outcome = npz(
        tmp_path,
        response_offsets=np.array([0, 2, 3, 6]),
        response_ids=np.arange(6),
        values=flat,
        prompt_offsets=np.array([0, 0, 1, 3]),
        prompt_ids=np.array([7, 8, 9]),
    )
    assert values(outcome) == CUT
    prompts = [rollout.prompt_ids for rollout in outcome.rollouts]
    assert [prompt.tolist() for prompt in prompts if prompt is not None] == [[], [7], [8, 9]]


def test_a_mask_may_stand_for_the_lengths(tmp_path: Path) -> None:
    mask = np.array([[1, 1, 0], [1, 0, 0], [1, 1, 1]], dtype=bool)
    outcome = npz(tmp_path, response_ids=IDS, response_mask=mask, values=VALUES)
    assert values(outcome) == VALUES.tolist()  # masked positions are part of the rollout
    assert values(outcome, "response_mask")[1] == [1, 0, 0]


def test_many_rows_are_read_in_pieces(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    lengths = rng.integers(0, 9, 1000)
    ids = rng.integers(0, 100, (1000, 8))
    outcome = npz(tmp_path, response_ids=ids, response_lengths=lengths, reward=rng.random(1000))
    assert len(outcome.rollouts) == 1000
    for rollout, row, length in zip(outcome.rollouts, ids, lengths, strict=True):
        assert rollout.tokens["response_ids"].tolist() == row[:length].tolist()
        assert rollout.tokens["response_ids"].base is None or rollout.tokens["response_ids"].base.size <= 8


@pytest.mark.parametrize("bad", [-1, 4])
def test_an_impossible_length_rejects_its_row(bad: int, tmp_path: Path) -> None:
    outcome = npz(tmp_path, response_ids=IDS, response_lengths=np.array([2, bad, 3]))
    assert [rollout.row for rollout in outcome.rollouts] == [1, 3]
    assert outcome.errors == [2]
    assert f"its length is {bad}, but response_ids is 3 wide" in outcome.only("length_mismatch").message


@pytest.mark.parametrize(
    ("array", "part"),
    [
        (np.ones((2, 3)), "there are 3 rows; give it as [3, T]"),
        (np.ones(3), "give it as [3, T]"),
        (np.ones((3, 3, 3)), "give it as [3, T]"),
        (np.array(["a", "b", "c"]), "it holds no numbers"),
    ],
)
def test_arrays_of_another_shape_are_left_out(array: NDArray[Any], part: str, tmp_path: Path) -> None:
    outcome = npz(tmp_path, response_ids=IDS, response_lengths=LENGTHS, values=array)
    assert all("values" not in rollout.tokens for rollout in outcome.rollouts)
    assert part in outcome.only("unusable_values").message


def test_ragged_arrays_of_another_size_are_left_out(tmp_path: Path) -> None:
    arrays = {"response_offsets": np.array([0, 2, 3]), "response_ids": np.arange(3), "values": np.ones(4)}
    outcome = npz(tmp_path, **arrays)
    assert "response_offsets ends at 3 for 2 rows" in outcome.only("unusable_values").message


@pytest.mark.parametrize("offsets", [[1, 2], [0, 3, 2], [[0, 1]], [0.0, 1.0], []])
def test_offsets_that_do_not_rise_are_refused(offsets: Any, tmp_path: Path) -> None:
    outcome = npz(tmp_path, response_offsets=np.array(offsets), response_ids=np.arange(2))
    assert "response_offsets" in outcome.sentence()


@pytest.mark.parametrize(("kind", "limit"), [(np.float16, 2048), (np.float32, 16777216), (np.float64, 2**53)])
def test_ids_of_a_floating_type_are_refused(kind: Any, limit: int, tmp_path: Path) -> None:
    outcome = npz(
        tmp_path, response_ids=IDS.astype(kind), response_lengths=LENGTHS, response=np.array(["a", "b", "c"])
    )
    assert all("response_ids" not in rollout.tokens for rollout in outcome.rollouts)
    assert f"cannot be exact above {limit} in {np.dtype(kind)}" in outcome.only("unusable_values").message


def test_whole_numbers_for_advantages_are_a_warning(tmp_path: Path) -> None:
    outcome = npz(tmp_path, response_ids=IDS, response_lengths=LENGTHS, advantages=IDS.astype(np.int8))
    assert values(outcome, "advantages") == [[1.0, 2.0], [3.0], [4.0, 5.0, 6.0]]
    problem = outcome.only("integer_values")
    assert (problem.severity, problem.field) == ("warning", "advantages")


def test_one_value_per_row_in_every_type(tmp_path: Path) -> None:
    outcome = npz(
        tmp_path,
        response_ids=IDS,
        response_lengths=LENGTHS,
        reward=np.array(["1.0", "x", "0"]),
        step=np.array([3, 3, 3], dtype=np.uint8),
        group_id=np.array([b"a", b"b", b"a"]),
        truncated=np.array([True, False, True]),
        data_source=np.array(["m", "m", "n"]),
        score=np.array([0.5, 0.25, 1.0]),
        weird=np.zeros((3, 2)),
    )
    first = outcome.rollouts[0]
    assert [rollout.reward for rollout in outcome.rollouts] == [1.0, None, 0.0]
    assert (first.step, first.group_id, first.truncated, first.data_source) == (3, "a", True, "m")
    assert first.extra == {"score": 0.5}
    assert "weird is float64 [3×2]" in outcome.only("unusable_values").message


def test_metadata_and_rows_of_safetensors(tmp_path: Path) -> None:
    rows = [{"group_id": "a", "response": "x"}, {"group_id": "b"}, 5]
    arrays = {"response_ids": IDS, "response_lengths": LENGTHS}
    outcome = safetensors(tmp_path, arrays, rollout_batch='{"run": "r"}', rows=json.dumps(rows))
    assert outcome.headers[0].run == "r"
    assert [rollout.response for rollout in outcome.rollouts] == ["x", None, None]
    outcome = safetensors(tmp_path, arrays, rollout_batch="[1]", rows='{"a": 1}')
    assert len(outcome.rollouts) == 3
    assert len(outcome.said("bad_metadata")) == 2
    outcome = safetensors(tmp_path, arrays, rows="[{}]")
    assert "rows has 1 entries for 3 rows" in outcome.only("length_mismatch").message


def test_bfloat16_is_exact(tmp_path: Path) -> None:
    save_file(
        {"response_ids": IDS, "response_lengths": LENGTHS, "values": np.zeros((3, 3), np.uint16)},
        tmp_path / "b.safetensors",
    )
    data = (tmp_path / "b.safetensors").read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    start, end = header["values"]["data_offsets"]
    header["values"]["dtype"] = "BF16"
    stored = (VALUES.view(np.uint32) >> 16).astype("<u2").tobytes()
    body = data[8 + length :]
    text = json.dumps(header).encode()
    (tmp_path / "b.safetensors").write_bytes(
        len(text).to_bytes(8, "little") + text + body[:start] + stored + body[end:]
    )
    outcome = read(tmp_path / "b.safetensors")
    assert values(outcome) == CUT
    assert outcome.rollouts[0].tokens["values"].dtype == np.float32


def test_object_arrays_are_never_loaded(tmp_path: Path) -> None:
    np.savez(
        tmp_path / "batch.npz",
        response_ids=IDS,
        response_lengths=LENGTHS,
        prompt=np.array([1, "a", None], dtype=object),
    )
    outcome = read(tmp_path / "batch.npz")
    assert len(outcome.rollouts) == 3
    assert "prompt is an object array (a pickle inside)" in outcome.only("unusable_values").message


def test_a_declared_shape_larger_than_the_file_is_left_out(tmp_path: Path) -> None:
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (3, 1000000000000)}"
    member = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header
    np.savez(tmp_path / "batch.npz", response_ids=IDS, response_lengths=LENGTHS)
    with zipfile.ZipFile(tmp_path / "batch.npz", "a") as archive:
        archive.writestr("values.npy", member)
        archive.writestr("returns.npy", b"nonsense")
    outcome = read(tmp_path / "batch.npz")
    assert len(outcome.rollouts) == 3
    said = " ".join(problem.message for problem in outcome.said("unusable_values"))
    assert "values declares 24,000,000,000,000 bytes" in said
    assert "returns has no valid npy header" in said


def test_npz_bombs_stop_at_the_ratio(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "batch.npz", response_lengths=LENGTHS, values=np.zeros((3, 1_000_000)))
    with pytest.raises(TooLarge, match="times its compressed size"):
        read(tmp_path / "batch.npz")


def test_safetensors_with_a_false_header_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "batch.safetensors"
    save_file({"response_ids": IDS, "response_lengths": LENGTHS}, path)
    data = path.read_bytes()
    for broken in (data[:-8], data[:20], data[:8] + b"{" * 40 + data[48:], data[:9] + b"x" + data[10:]):
        path.write_bytes(broken)
        assert "not a valid safetensors file" in read(path).sentence()


def test_rows_of_a_batch_are_limited(tmp_path: Path) -> None:
    np.savez(tmp_path / "batch.npz", response_ids=IDS, response_lengths=LENGTHS)
    with pytest.raises(TooLarge, match="VANTAGE_MAX_ROWS"):
        read(tmp_path / "batch.npz", settings=Settings(max_rows=2))


def test_a_batch_without_ids_or_response_says_so(tmp_path: Path) -> None:
    outcome = npz(tmp_path, response_lengths=LENGTHS, values=VALUES)
    assert outcome.errors == [1, 2, 3, None]
    assert "no response or response_ids" in outcome.said("no_response")[0].message
