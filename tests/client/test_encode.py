"""What the recorder writes is read as it was given, in whatever form it was given."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from app.ingest import File, Options, Problem, Rollout, read_all
from app.settings import Settings
from tests.client.rollouts import columns, lengths, ragged
from vantage_client.columns import columns_of, copied
from vantage_client.encode import encode


def read(folder: Path, rollouts: Any) -> tuple[str, list[Rollout], list[Problem]]:
    """Through the recorder's encoding and the server's reader: (ending, rollouts, problems)."""
    ending, content = encode(*columns_of(copied(rollouts)), {"run": "r", "gamma": 0.5})
    path = folder / f"step.{ending}"
    path.write_bytes(b"".join(content))
    items = list(read_all([File(path, path.name)], Options(), Settings(data_dir=folder)))
    problems = [item for item in items if isinstance(item, Problem)]
    return ending, [item for item in items if isinstance(item, Rollout)], problems


@pytest.mark.parametrize("form", ["numpy", "torch", "rows"])
def test_every_form_gives_the_same_rollouts(tmp_path: Path, form: str) -> None:
    given: Any = columns(3)
    if form == "torch":
        arrays = {name: torch.from_numpy(v) for name, v in given.items() if isinstance(v, np.ndarray)}
        given = {**given, **arrays}
    ending, found, problems = read(tmp_path, ragged(3) if form == "rows" else given)
    assert ending == "safetensors"
    assert problems == []
    plain = columns(3)
    for i, (rollout, length) in enumerate(zip(found, lengths(8), strict=True)):
        assert (rollout.prompt, rollout.group_id) == (f"prompt {i // 4}", f"g{i // 4}")
        assert rollout.response == f"answer {i} of step 3"
        assert rollout.reward == plain["reward"][i]
        assert rollout.tokens["response_ids"].tolist() == plain["response_ids"][i, :length].tolist()
        assert rollout.tokens["old_log_probs"].tolist() == plain["old_log_probs"][i, :length].tolist()
        assert rollout.tokens["response_mask"].tolist() == [1] * length


def test_without_lengths_a_padded_row_is_as_long_as_its_array(tmp_path: Path) -> None:
    given = columns(1, 4)
    del given["response_lengths"]
    _, found, problems = read(tmp_path, given)
    assert problems == []
    assert [rollout.length for rollout in found] == [6, 6, 6, 6]


def test_texts_alone_go_as_lines(tmp_path: Path) -> None:
    rows = [{"prompt": "p", "response": f"r{i}", "reward": reward} for i, reward in enumerate((0.5, None))]
    ending, found, _ = read(tmp_path, rows)
    assert ending == "jsonl"
    assert [(row.response, row.reward) for row in found] == [("r0", 0.5), ("r1", None)]


def test_what_only_some_rollouts_have_is_theirs_alone(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = ragged(1, 4)
    rows[2]["values"] = [0.5] * len(rows[2]["response_ids"])
    rows[1]["reward"] = float("nan")
    rows[0]["tool_calls"] = np.int64(3)
    _, found, _ = read(tmp_path, rows)
    assert ["values" in row.tokens for row in found] == [False, False, True, False]
    assert found[2].tokens["values"].tolist() == [0.5] * 3
    assert found[1].reward is not None and np.isnan(found[1].reward)
    assert found[0].extra["tool_calls"] == 3


def test_numbers_keep_every_bit(tmp_path: Path) -> None:
    odd = np.array([[0.1, -np.inf, np.nan, 1e-45]], np.float32)
    given = {
        "response": ["abcd"],
        "response_ids": torch.tensor([[2**40, 1, 2, 3]]),
        "old_log_probs": odd,
        "values": torch.tensor([[0.1, 0.2, 0.3, 0.4]], dtype=torch.float64),
        "entropies": torch.tensor([[0.1, 0.2, 0.3, 0.4]], dtype=torch.bfloat16),
    }
    _, (found,), _ = read(tmp_path, given)
    assert found.tokens["response_ids"].tolist() == [2**40, 1, 2, 3]
    assert found.tokens["old_log_probs"].astype(np.float32).tobytes() == odd.tobytes()
    assert found.tokens["values"].tolist() == [0.1, 0.2, 0.3, 0.4]
    assert found.tokens["entropies"].tolist() == given["entropies"].double().tolist()[0]  # type: ignore[attr-defined]


def test_a_copy_is_a_copy() -> None:
    array, tensor, rows = np.zeros(3), torch.zeros(3), [[1, 2], [3]]
    own = copied({"a": array, "t": tensor, "l": rows})
    array += 1
    tensor += 1
    rows[0].append(9)
    assert own["a"].tolist() == own["t"].tolist() == [0, 0, 0]
    assert own["l"] == [[1, 2], [3]]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"response": ["a", "b"], "reward": [1.0]}, "reward has 1 entries but response has 2"),
        ({"response": "a"}, "no column"),
        ([1, 2], "rows"),
    ],
)
def test_what_cannot_be_columns_is_said(given: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        columns_of(given)
