"""What formats with token arrays make of unusual rows: NeMo-RL, prime-rl, verifiers, Atropos, the boards."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from storage.arrays import is_missing
from tests.ingest.reading import SAMPLES, Outcome, read, read_rows


def nemo(**fields: Any) -> dict[str, Any]:
    row = {
        "content": [["ask", "answer"]], "rewards": [1.0], "input_lengths": [4], "idx": 0,
        "token_ids": [[5, 6, 7, 8, 0, 0]], "token_loss_mask": [[0, 0, 1, 1, 0, 0]],
        "sample_loss_mask": [1.0], "advantages": [[0.5] * 6],
        "generation_logprobs": [[0.0, 0.0, -1.0, -2.0, 0.0, 0.0]], "prev_logprobs": [[0.0] * 6],
    }  # fmt: skip
    return row | fields


def test_nemo_is_cut_at_its_length_and_at_the_first_trained_token(tmp_path: Path) -> None:
    outcome = read_rows(tmp_path, nemo())
    (rollout,) = outcome.rollouts
    assert rollout.prompt_ids is not None and rollout.prompt_ids.tolist() == [5, 6]
    assert rollout.tokens["response_ids"].tolist() == [7, 8]
    assert rollout.tokens["rollout_log_probs"].tolist() == [-1.0, -2.0]
    assert "padded to the longest row" in outcome.only("padding_cut").message


def test_a_masked_sample_of_nemo_keeps_where_its_response_begins(tmp_path: Path) -> None:
    outcome = read_rows(tmp_path, nemo(sample_loss_mask=[0.0]))
    (rollout,) = outcome.rollouts
    assert rollout.tokens["response_mask"].tolist() == [0, 0]
    assert rollout.tokens["response_ids"].tolist() == [7, 8]
    assert "sample_loss_mask is 0" in outcome.only("sample_masked").message


def test_nemos_filtered_rewards_are_those_of_the_row(tmp_path: Path) -> None:
    (rollout,) = read_rows(tmp_path, nemo(filtered_rewards=[0.25], rewards=[9.0])).rollouts
    assert (rollout.reward, rollout.extra["rewards"]) == (0.25, 9.0)


def test_a_length_of_nemo_past_its_arrays_cuts_nothing(tmp_path: Path) -> None:
    (rollout,) = read_rows(tmp_path, nemo(input_lengths=[9])).rollouts
    assert rollout.length == 4


def test_nemos_validation_has_messages(tmp_path: Path) -> None:
    content = [[{"role": "user", "content": "ask"}, {"role": "assistant", "content": "answer"}]]
    path = tmp_path / "val_data_step3.jsonl"
    path.write_text(json.dumps({"content": content, "rewards": [1.0], "idx": 0}) + "\n")
    (rollout,) = read(path).rollouts
    assert (rollout.response, rollout.reward, rollout.step, rollout.split) == ("answer", 1.0, 3, "val")
    assert rollout.prompt_messages == content[0][:1]


def test_several_turns_of_nemo_are_one_response(tmp_path: Path) -> None:
    (rollout,) = read_rows(tmp_path, nemo(content=[["ask", "a", "tool", "b"]])).rollouts
    assert rollout.response == "atoolb"
    assert rollout.derived["response"] == "derived:join(messages)"


def test_nothing_is_guessed_where_no_token_is_trained(tmp_path: Path) -> None:
    outcome = read_rows(tmp_path, nemo(token_loss_mask=[[0] * 6]))
    (rollout,) = outcome.rollouts
    assert rollout.prompt_ids is None and rollout.length == 4
    assert "where the response begins is not known" in outcome.only("no_trained_token").message


def test_arrays_of_other_lengths_are_left_out_of_the_row(tmp_path: Path) -> None:
    outcome = read_rows(tmp_path, nemo(advantages=[[0.5] * 3]))
    assert "advantages" not in outcome.rollouts[0].tokens
    assert outcome.only("length_mismatch").field == "advantages"


def export(**fields: Any) -> dict[str, Any]:
    row = {
        "schema_version": 1, "step": 5, "rank": 0, "micro_step": 0, "micro_sequence_idx": 0,
        "export_sequence_idx": 0, "env_name": "e", "token_ids": [1, 2, 3, 4],
        "loss_mask": [False, True, True, True], "advantages": [0.0, 1.0, 1.0, 1.0],
        "inference_logprobs": [0.0, -1.0, -2.0, -3.0], "trainer_logprobs": [None] * 4,
        "rl_weights": [0.0, 0.5, 1.0, 1.0], "is_masked": [False, False, True, False],
    }  # fmt: skip
    return row | fields


def test_streams_of_nulls_are_absent(tmp_path: Path) -> None:
    (rollout,) = read_rows(tmp_path, export()).rollouts
    assert "old_log_probs" not in rollout.tokens
    assert rollout.tokens["loss_weight"].tolist() == [0.5, 1.0, 1.0]
    assert rollout.extra["is_masked"] == [False, True, False]


def test_a_null_inside_a_stream_is_one_missing_value(tmp_path: Path) -> None:
    (rollout,) = read_rows(tmp_path, export(trainer_logprobs=[None, -1.0, None, -3.0])).rollouts
    assert is_missing(rollout.tokens["old_log_probs"]).tolist() == [False, True, False]


def node(parent: int | None, role: str, count: int, sampled: bool, **more: Any) -> dict[str, Any]:
    made: dict[str, Any] = {
        "message": {"role": role, "content": f"{role} {count}"}, "sampled": sampled,
        "token_ids": list(range(count)), "mask": [sampled] * count,
    }  # fmt: skip
    if sampled:
        made["logprobs"] = [-0.5] * count
    return made | ({} if parent is None else {"parent": parent}) | more


def episode(*nodes: dict[str, Any], **fields: Any) -> dict[str, Any]:
    trace = {"id": "t", "nodes": list(nodes), "rewards": {"a": {"score": 2.0, "weight": 0.5}, "b": None}}
    row = {
        "id": "e", "env": {"id": "env"}, "task": {"data": {"answer": "42"}}, "group": {"id": "g"},
        "traces": [trace],
    }  # fmt: skip
    return row | fields


def test_every_leaf_is_a_row(tmp_path: Path) -> None:
    nodes = [node(None, "user", 2, False), node(0, "assistant", 3, True), node(0, "assistant", 4, True)]
    outcome = read_rows(tmp_path, episode(*nodes), episode(*nodes[:2]))
    assert [(r.row, r.sample_id, r.segment, r.length) for r in outcome.rollouts] == [
        (1, "t#0", 0, 3), (2, "t#1", 1, 4), (3, "t", None, 3),
    ]  # fmt: skip
    first = outcome.rollouts[0]
    assert (first.reward, first.reward_components) == (1.0, {"a": 2.0, "b": None})
    assert (first.derived["reward"], first.ground_truth, first.data_source) == (
        "derived:sum(score x weight)", "42", "env",
    )  # fmt: skip


def test_agents_of_one_environment_are_told_apart(tmp_path: Path) -> None:
    nodes = [node(None, "user", 2, False), node(0, "assistant", 3, True)]
    lone = episode(*nodes)
    lone["traces"][0]["agent"] = {"name": "agent"}
    game = episode(*nodes)
    game["traces"] = [lone["traces"][0] | {"id": name, "agent": {"name": name}} for name in ("one", "two")]
    outcome = read_rows(tmp_path, lone, game)
    assert [rollout.data_source for rollout in outcome.rollouts] == ["env", "env/one", "env/two"]
    said = [rollout.derived.get("data_source") for rollout in outcome.rollouts]
    assert said == [None, "derived:environment/agent", "derived:environment/agent"]


def test_values_of_sampled_tokens_stand_where_they_were_sampled(tmp_path: Path) -> None:
    nodes = [
        node(None, "user", 2, False), node(0, "assistant", 2, True, advantages=[1.0, 2.0]),
        node(1, "tool", 3, False), node(2, "assistant", 1, True),
    ]  # fmt: skip
    (rollout,) = read_rows(tmp_path, episode(*nodes)).rollouts
    assert rollout.tokens["response_mask"].tolist() == [1, 1, 0, 0, 0, 1]
    advantages = rollout.tokens["advantages"]
    assert advantages[:2].tolist() == [1.0, 2.0] and is_missing(advantages[2:]).all()
    assert is_missing(rollout.tokens["rollout_log_probs"]).tolist() == [False] * 2 + [True] * 3 + [False]


@pytest.mark.parametrize(
    ("nodes", "why"),
    [
        ([node(3, "user", 1, False)], "whose parent is none of the nodes before it"),
        ([node(0, "user", 1, False)], "whose parent is none of the nodes before it"),
        ([{"message": "text"}], "has no message in node 0"),
        ([], "has no messages"),
        ([node(None, "user", 1, False)], "no sampled message"),
    ],
)
def test_a_graph_that_is_none_is_told(nodes: list[Any], why: str, tmp_path: Path) -> None:
    outcome = read_rows(tmp_path, episode(*nodes), episode(node(None, "assistant", 1, True)))
    assert len(outcome.rollouts) == 1
    assert any(why in problem.message for problem in outcome.problems)


def test_wrong_counts_of_a_message_are_left_out(tmp_path: Path) -> None:
    outcome = read_rows(tmp_path, episode(node(None, "assistant", 3, True, logprobs=[-1.0])))
    assert "rollout_log_probs" not in outcome.rollouts[0].tokens
    assert outcome.only("length_mismatch").field == "rollout_log_probs"


def test_branches_that_no_honest_trace_has_are_refused_at_once(tmp_path: Path) -> None:
    chain = [node(number - 1 if number else None, "user", 1, False) for number in range(3000)]
    fan = [node(2999, "assistant", 1, True) for _ in range(3000)]
    outcome = read_rows(tmp_path, episode(*chain, *fan))
    assert "more branches than can be read" in outcome.only("bad_trace").message


def group(**fields: Any) -> dict[str, Any]:
    row = {
        "tokens": [[1, 2, 3], [1, 2, 4, 5]], "masks": [[-100, -100, 3], [-100, 2, -100, 5]],
        "scores": [1.0, 0.0], "inference_logprobs": [[1.0, 1.0, -0.5], [1.0, -0.1, 1.0, -0.2]],
    }  # fmt: skip
    return row | fields


def test_atropos_lines_are_groups(tmp_path: Path) -> None:
    outcome = read_rows(tmp_path, group(), group(advantages=[0.5, [0.0, 1.0, 2.0, 3.0]]))
    assert outcome.groups == {"line-1": [1, 2], "line-2": [3, 4]}
    second, third, fourth = outcome.rollouts[1:]
    assert second.tokens["response_mask"].tolist() == [1, 0, 1]
    assert is_missing(second.tokens["rollout_log_probs"]).tolist() == [False, True, False]
    assert (third.advantage, fourth.tokens["advantages"].tolist()) == (0.5, [1.0, 2.0, 3.0])


def test_atropos_lists_of_another_length_are_left_out(tmp_path: Path) -> None:
    outcome = read_rows(tmp_path, group(scores=[1.0]))
    assert [rollout.reward for rollout in outcome.rollouts] == [None, None]
    assert outcome.only("length_mismatch").field == "scores"


def board(**fields: Any) -> dict[str, Any]:
    row = {
        "prompt": "p", "response": "a b", "response_tokens": ["a", "Ġb", "<pad>", "<pad>"], "step": 2,
        "logprobs": [-1.0, -2.0], "log_probs2": [-1.0, -2.0], "ref_logprobs": [-1.0, -1.5],
        "new_response_mask": [1, 1], "old_log_probs2_entropy": [0.1, 0.2], "reward": 1.0,
        "values": [0.0, 1.0, 0.0, 0.0], "token_rewards": [0.0, 1.0, 0.0, 0.0],
    }  # fmt: skip
    return row | fields


def test_rolls_board_is_cut_to_its_log_probs_and_has_no_critic(tmp_path: Path) -> None:
    outcome = read_rows(tmp_path, board())
    (rollout,) = outcome.rollouts
    assert outcome.headers[0].format == "roll-board"
    assert rollout.response_tokens == ["a", "Ġb"]
    assert "values" not in rollout.tokens and rollout.tokens["entropies"].tolist() == [0.1, 0.2]
    assert rollout.tokens["token_level_rewards"].tolist() == [0.0, 1.0]
    assert outcome.said("padding_cut") and outcome.said("values_copied")
    assert rollout.extra == {"log_probs2": [-1.0, -2.0]}


def test_values_of_a_real_critic_stay(tmp_path: Path) -> None:
    (rollout,) = read_rows(tmp_path, board(values=[0.3, 0.4, 0.0, 0.0])).rollouts
    assert rollout.tokens["values"].tolist() == [0.3, 0.4]


def sample_of(name: str) -> Outcome:
    return read(SAMPLES / name)


def test_a_board_without_a_mask_has_one_that_is_derived() -> None:
    outcome = sample_of("rl_logging_board/rollout_data_rank_0_1313.jsonl")
    assert outcome.headers[0].format == "rl-logging-board"
    for rollout in outcome.rollouts:
        assert rollout.derived["response_mask"] == "derived:all 1"
        assert np.all(rollout.tokens["response_mask"] == 1)
        assert rollout.response_tokens is not None and rollout.length == len(rollout.response_tokens)
