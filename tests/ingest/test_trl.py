"""TRL's completions: components, a derived reward, one advantage a row, groups from runs of prompts."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.ingest.reading import Outcome, read, sample

CONVERSATIONAL = "trl/conversational_completions/completions_00001.parquet"


def table(**columns: Any) -> dict[str, Any]:
    fixed = {"step": [2, 2], "prompt": ["p", "p"], "completion": ["a", "b"]}
    return fixed | columns | {"advantage": [0.5, -0.5]}


def written(folder: Path, columns: dict[str, Any], name: str = "completions_00002.parquet") -> Outcome:
    pq.write_table(pa.table(columns), folder / name)
    return read(folder / name)


def test_a_real_file() -> None:
    outcome = sample(CONVERSATIONAL)
    assert outcome.headers[0].raw["framework"] == "trl"
    assert outcome.headers[0].raw["reward_functions"] == ["accuracy_reward", "reward_length"]
    first = outcome.rollouts[0]
    assert first.reward_components == {"accuracy_reward": 0.0, "reward_length": -2.8125}
    assert first.reward == -2.8125
    assert first.derived["reward"] == "derived:sum(components, weights 1)"
    assert first.derived["group_id"] == "derived:adjacent_prompt"
    assert first.advantage == -1.1687840223312378
    assert first.extra == {"answer": "8"}
    assert first.prompt_messages is not None and first.prompt_messages[0]["role"] == "system"
    assert first.response is not None and first.response.startswith("\x13 think")
    assert first.messages is not None and len(first.messages) == 3
    assert "weights 1" in outcome.only("reward_derived").message


def test_advantages_of_a_group_sum_to_zero() -> None:
    outcome = sample(CONVERSATIONAL)
    sums: dict[str | None, float] = {}
    for rollout in outcome.rollouts:
        sums[rollout.group_id] = sums.get(rollout.group_id, 0.0) + (rollout.advantage or 0.0)
    assert all(abs(total) < 1e-5 for total in sums.values())


def test_plain_text_prompts(tmp_path: Path) -> None:
    outcome = written(tmp_path, table(correct=[1.0, 0.0]))
    assert [(rollout.prompt, rollout.response, rollout.reward) for rollout in outcome.rollouts] == [
        ("p", "a", 1.0), ("p", "b", 0.0),
    ]  # fmt: skip


def test_a_reward_that_does_not_apply_is_left_out_of_the_sum(tmp_path: Path) -> None:
    outcome = written(
        tmp_path, table(code=[None, None], math=[1.0, None]) | {"code": pa.array([None, None], pa.float64())}
    )
    first, second = outcome.rollouts
    assert first.reward_components == {"code": None, "math": 1.0}
    assert (first.reward, second.reward) == (1.0, None)
    assert "reward" not in second.derived


def test_nan_of_a_component_is_kept_and_left_out_of_the_sum(tmp_path: Path) -> None:
    nan = float("nan")
    outcome = written(tmp_path, table(a=[1.0, 1.0], b=[nan, 0.5]))
    first = outcome.rollouts[0]
    assert first.reward == 1.0
    assert (
        first.reward_components is not None and first.reward_components["b"] != first.reward_components["b"]
    )
    assert "1 NaN b" in outcome.only("nonfinite").message


def test_numbers_that_users_log_are_no_rewards(tmp_path: Path) -> None:
    outcome = written(tmp_path, table(good=[1.0, 0.0], answer=["x", "y"], length=[3.0, 4.0]))
    assert outcome.rollouts[0].reward_components == {"good": 1.0}
    assert outcome.rollouts[0].extra == {"answer": "x", "length": 3.0}


def test_without_reward_columns_there_is_no_reward(tmp_path: Path) -> None:
    outcome = written(tmp_path, table())
    assert [rollout.reward for rollout in outcome.rollouts] == [None, None]
    assert outcome.said("reward_derived") == []


@pytest.mark.parametrize("step", [None, "2"])
def test_steps_from_the_name_and_from_text(step: str | None, tmp_path: Path) -> None:
    outcome = written(tmp_path, table() | {"step": pa.array([step, step], pa.string())})
    assert {rollout.step for rollout in outcome.rollouts} == {2}


def test_unequal_runs_are_a_warning(tmp_path: Path) -> None:
    columns = {name: values * 2 for name, values in table(r=[1.0, 0.0]).items()} | {
        "prompt": ["a", "a", "a", "b"]
    }
    outcome = written(tmp_path, columns)
    assert "unequal size (1 to 3 rows)" in outcome.only("unequal_groups").message


def test_rows_without_a_completion_are_rejected(tmp_path: Path) -> None:
    outcome = written(tmp_path, table() | {"completion": ["a", None]})
    assert outcome.errors == [2]


def test_conversations_with_tool_calls_are_rendered(tmp_path: Path) -> None:
    chat = [
        [
            {"role": "assistant", "content": None, "tool_calls": '[{"name": "calc"}]'},
            {"role": "tool", "content": "4"},
        ],
        [{"role": "assistant", "content": "b"}],
    ]
    outcome = written(tmp_path, table() | {"completion": chat})
    assert [rollout.response for rollout in outcome.rollouts] == [
        'assistant: [{"name": "calc"}]\n\ntool: 4',
        "b",
    ]
