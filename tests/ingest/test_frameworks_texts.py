"""What formats of texts and rewards make of unusual rows: columns, tables, episodes, logs, plain text."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.ingest.reading import SAMPLES, Outcome, jsonl, read, read_rows

NAN = float("nan")


def areal(sample: int, **fields: Any) -> dict[str, Any]:
    row = {
        "task_id": 7, "sample_idx": sample, "seqlen": 9, "prompt_len": 4, "head_version": -1,
        "tail_version": 3, "reward": 1.0, "prompt": "p", "completion": f"c{sample}",
    }  # fmt: skip
    return row | fields


def test_areals_task_ids_begin_anew_after_a_restart(tmp_path: Path) -> None:
    again = [areal(0, completion="x"), areal(1, completion="y")]
    outcome = read_rows(tmp_path, areal(0), areal(1), *again)
    assert outcome.groups == {"7": [1, 2], "7 time 2": [3, 4]}
    assert "task ids began anew" in outcome.only("task_repeated").message


def test_areals_cut_of_several_turns_is_told(tmp_path: Path) -> None:
    outcome = read_rows(tmp_path, areal(0), areal(1, prompt="p and an answer"))
    assert outcome.only("prompt_cut").severity == "warning"


def test_results_of_two_environments_are_two_groups(tmp_path: Path) -> None:
    rows = [
        {"example_id": 0, "completion": text, "prompt": "p", "env_name": env, "advantage": 0.5}
        for env, text in (("a", "x"), ("a", "y"), ("b", "z"))
    ]
    path = jsonl(tmp_path, rows)
    outcome = read(path, names=["rollouts/step_7/train_rollouts.jsonl"])
    assert outcome.groups == {"0": [1, 2], "0 (whole number of b)": [3]}
    assert {(r.step, r.split, r.data_source) for r in outcome.rollouts} == {
        (7, "train", "a"),
        (7, "train", "b"),
    }
    assert outcome.headers[0].raw["framework"] == "prime-rl"


def test_tool_calls_inside_messages_become_objects(tmp_path: Path) -> None:
    call = {"id": "c", "function": {"name": "f"}}
    message = {"role": "assistant", "content": None, "tool_calls": [json.dumps(call), "not json"]}
    outcome = read_rows(tmp_path, {"example_id": 0, "completion": [message], "prompt": "p"})
    assert outcome.rollouts[0].messages == [message | {"tool_calls": [call, "not json"]}]


def test_tools_of_open_instruct_are_not_marked(tmp_path: Path) -> None:
    row = {
        "step": 1, "prompt_idx": 0, "sample_idx": 0, "prompt_tokens": [1], "response_tokens": [2, 3],
        "reward": 1.0, "logprobs": [-0.1], "request_info": {"num_calls": 2},
    }  # fmt: skip
    outcome = read_rows(tmp_path, row)
    assert "not marked" in outcome.only("tools_unmarked").message
    assert outcome.only("length_mismatch").field == "rollout_log_probs"


def swift(**fields: Any) -> dict[str, Any]:
    row = {
        "gen_step": [4, 4], "prompt": ["p", "p"], "completion": ["a", "b"], "Acc": [1.0, NAN],
        "advantages": [0.5, -0.5], "solution": ["1", "1"],
    }  # fmt: skip
    return row | fields


def test_columns_become_rows_and_nan_is_no_reward(tmp_path: Path) -> None:
    outcome = read_rows(tmp_path, swift(), swift(completion=["c", "d"]))
    assert [(r.row, r.response, r.step, r.reward) for r in outcome.rollouts] == [
        (1, "a", 4, 1.0), (2, "b", 4, None), (3, "c", 4, 1.0), (4, "d", 4, None),
    ]  # fmt: skip
    assert outcome.rollouts[1].reward_components == {"Acc": None}
    assert outcome.rollouts[0].extra == {"solution": "1"}


def test_a_column_of_another_length_is_left_out(tmp_path: Path) -> None:
    outcome = read_rows(tmp_path, swift(advantages=[0.5, 0.1, 0.2]))
    assert outcome.only("length_mismatch").field == "advantages"
    assert [rollout.advantage for rollout in outcome.rollouts] == [None, None]


def test_rows_of_the_ray_trainer_under_the_same_name(tmp_path: Path) -> None:
    row = {"step": "3", "prompt": "p", "completion": "a", "Acc": 1.0, "advantages": 0.5}
    (rollout,) = read_rows(tmp_path, row).rollouts
    assert (rollout.step, rollout.advantage, rollout.reward) == (3, 0.5, 1.0)


def test_rolls_agentic_dump_has_a_trajectory_an_entry(tmp_path: Path) -> None:
    messages = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]
    data = {"reward_info": {"episode_reward": 2.0}}
    row = {
        "trajectory_data": [None, json.dumps(data)], "messages": [None, json.dumps(messages)],
        "tools": [None, "[]"], "global_step": [5, 5],
    }  # fmt: skip
    outcome = read_rows(tmp_path, row)
    (rollout,) = outcome.rollouts
    assert (rollout.response, rollout.reward, rollout.step) == ("a", 2.0, 5)
    assert "without a trajectory" in outcome.only("no_trajectory").message


def table(folder: Path, columns: list[str], *rows: list[Any]) -> Outcome:
    path = folder / "x.table.json"
    path.write_text(json.dumps({"columns": columns, "data": rows}))
    return read(path)


def test_a_wide_table_skips_what_was_not_logged(tmp_path: Path) -> None:
    columns = ["step", "input_1", "output_1", "score_1", "input_2", "output_2", "score_2"]
    outcome = table(
        tmp_path, columns, [1, "p", "a", 1.0, None, None, None], [2, "p", "b", 0.0, "q", "c", NAN]
    )
    assert [(r.step, r.response, r.sample_id) for r in outcome.rollouts] == [
        (1, "a", "step 1 row 1"), (2, "b", "step 2 row 1"), (2, "c", "step 2 row 2"),
    ]  # fmt: skip


def test_cumulative_tables_count_each_row_once(tmp_path: Path) -> None:
    paths = []
    for count in (1, 2):
        data = [[step, f"text {step}", 1.0] for step in range(1, count + 1)]
        path = tmp_path / f"train_generated_samples_{count}.table.json"
        path.write_text(json.dumps({"columns": ["global_step", "text", "reward"], "data": data}))
        paths.append(path)
    outcome = read(*paths)
    assert [rollout.step for rollout in outcome.rollouts] == [1, 2]
    assert len(outcome.said("duplicate_row")) == 1


def test_rows_of_a_table_with_other_entries_are_listed(tmp_path: Path) -> None:
    columns = ["step", "prompt", "completion", "acc", "advantage"]
    outcome = table(tmp_path, columns, [1, "p", "a", 1.0, 0.0], [1, "p"], ["1", "p", "b", NAN, 0.0])
    assert outcome.errors == [2]
    assert [(r.step, r.reward) for r in outcome.rollouts] == [(1, 1.0), (1, None)]


def test_a_table_of_anything_else_is_no_rollouts(tmp_path: Path) -> None:
    assert "a table in JSON" in table(tmp_path, ["epoch", "image"], [1, "x"]).sentence()


LOG = "[prompt] p\n[output] {}\n[ground_truth] 42\n[score] {}\n\n"


@pytest.mark.parametrize(
    "words", ["", "[score] 1", "a\n[score] 1\nb", "a\n\n[prompt] b", "x\n[ground_truth] 1"]
)
def test_words_of_the_log_inside_an_output(words: str, tmp_path: Path) -> None:
    path = tmp_path / "generations.log"
    path.write_text(LOG.format("first", 1.0) + LOG.format(words, 0.5) + LOG.format("last", "None"))
    outcome = read(path)
    assert [(r.response, r.reward) for r in outcome.rollouts] == [
        ("first", 1.0),
        (words, 0.5),
        ("last", None),
    ]
    assert bool(outcome.said("ambiguous_block")) == ("\n[" in words)


def test_a_cut_log_names_the_block_that_is_not_whole(tmp_path: Path) -> None:
    path = tmp_path / "generations.log"
    path.write_text(LOG.format("first", 1.0) + "[prompt] p\n[output] half of")
    outcome = read(path)
    assert (len(outcome.rollouts), outcome.errors) == (1, [2])


def test_an_episode_of_steps_that_do_not_continue(tmp_path: Path) -> None:
    def step(text: str) -> dict[str, Any]:
        chat = [{"role": "user", "content": text}, {"role": "assistant", "content": f"re {text}"}]
        return {"chat_completions": chat, "reward": 0.0}

    trajectory = {"name": "solver", "uid": "u", "reward": 1.0, "steps": [step("a"), step("b")]}
    episode = {"training_step": 3, "episode_id": "t:4:0", "trajectories": [trajectory]}
    path = tmp_path / "train_step_3_epoch_0" / "episode.json"
    path.parent.mkdir()
    path.write_text(json.dumps(episode, indent=2))
    outcome = read(path)
    (rollout,) = outcome.rollouts
    assert (rollout.group_id, rollout.rollout_id, rollout.reward) == ("t:4/solver", "t:4:0", 1.0)
    assert rollout.messages == step("a")["chat_completions"] + step("b")["chat_completions"]
    assert "do not continue each other" in outcome.only("steps_apart").message


def test_an_episode_without_trajectories_is_told(tmp_path: Path) -> None:
    path = tmp_path / "episode.json"
    path.write_text(json.dumps({"training_step": 3, "episode_id": "t:0", "trajectories": []}, indent=2))
    assert "has no trajectory" in read(path).problems[0].message


def request(name: str, *texts: str, **fields: Any) -> dict[str, Any]:
    choices = [
        {
            "message": {"role": "assistant", "content": text},
            "logprobs": {
                "content": [
                    {"token": "?", "logprob": -0.5, "bytes": list(text.encode()[:2])},
                    {"token": "?", "logprob": -0.5, "bytes": list(text.encode()[2:])},
                ]
            },
            "finish_reason": "stop",
        }
        for text in texts
    ]
    return {"custom_id": name, "response": {"body": {"model": "m", "choices": choices}}} | fields


def test_tokens_that_end_inside_a_character_join_to_the_response(tmp_path: Path) -> None:
    (rollout,) = read_rows(tmp_path, request("a-0-1", "x\u00e9y")).rollouts
    assert rollout.response_tokens == ["x", "\u00e9y"]
    assert rollout.tokens["rollout_log_probs"].tolist() == [-0.5, -0.5]
    assert (rollout.group_id, rollout.sample_index, rollout.reward) == ("a-0", 1, None)


@pytest.mark.parametrize(
    ("ids", "groups"),
    [
        (("toy-0-0", "toy-0-1", "toy-1-0"), ["toy-0", "toy-0", "toy-1"]),
        (("request-1", "request-2"), ["request-1", "request-2"]),
        (("p3_sample_0", "p3_sample_1"), ["p3", "p3"]),
        (("abc", "def"), ["abc", "def"]),
    ],
)
def test_groups_of_requests(ids: tuple[str, ...], groups: list[str], tmp_path: Path) -> None:
    rollouts = read_rows(tmp_path, *(request(name, f"text {name}") for name in ids)).rollouts
    assert [rollout.group_id for rollout in rollouts] == groups
    assert all("group_id" in rollout.derived for rollout in rollouts)


def test_choices_of_one_request_are_a_group_and_failures_are_told(tmp_path: Path) -> None:
    failed = {"custom_id": "b", "response": None, "error": {"message": "rate limit"}}
    outcome = read_rows(tmp_path, request("a", "one", "two"), failed)
    assert outcome.groups == {"a": [1, 2]}
    assert "rate limit" in outcome.only("no_response").message


def log(**fields: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": "attachment://h"}, {"role": "assistant", "content": "a"}]
    sample = {
        "id": 1, "epoch": 1, "target": ["x", "y"], "messages": messages, "attachments": {"h": "long text"},
        "output": {"choices": [{"message": messages[1], "stop_reason": "stop"}]},
        "scores": {"m": {"value": "P"}}, "events": [1],
    }  # fmt: skip
    return {
        "version": 2, "status": "success", "eval": {"task": "t"}, "samples": [sample | fields],
        "results": {"headline": {"scorer": "n"}},
    }  # fmt: skip


def inspected(folder: Path, document: dict[str, Any]) -> Outcome:
    path = folder / "log.json"
    path.write_text(json.dumps(document, indent=2))
    return read(path)


def test_attachments_are_put_back_and_letters_become_points(tmp_path: Path) -> None:
    (rollout,) = inspected(tmp_path, log()).rollouts
    assert rollout.prompt == "user: long text"
    assert (rollout.reward, rollout.ground_truth, rollout.data_source) == (0.5, '["x", "y"]', "t")
    assert (rollout.group_id, rollout.sample_index, rollout.reward_components) == ("1", 1, None)


def test_several_scorers_are_parts_and_the_headline_is_the_reward(tmp_path: Path) -> None:
    document = log(scores={"m": {"value": 0.25}, "n": {"value": True}, "o": {"value": {"k": "C"}}})
    document["samples"], results = document["samples"], document.pop("results")
    ordered = {name: document[name] for name in ("version", "status", "eval")}
    ordered |= {"results": results, "samples": document["samples"]}
    (rollout,) = inspected(tmp_path, ordered).rollouts
    assert rollout.reward_components == {"m": 0.25, "n": 1.0, "o.k": 1.0}
    assert rollout.reward == 1.0 and "reward" in rollout.derived


def test_a_sample_that_failed_is_listed(tmp_path: Path) -> None:
    failed = log(messages=[], output={"choices": []}, error={"message": "sandbox"})
    assert "sandbox" in inspected(tmp_path, failed).only("no_response").message


def test_samples_of_skyrl_with_a_score_for_each_token() -> None:
    outcome = read(SAMPLES / "skyrl/dumped_evals/global_step_5_evals/toy_math_add.jsonl")
    for rollout in outcome.rollouts:
        rewards = rollout.tokens["token_level_rewards"].tolist()
        assert rollout.reward == pytest.approx(sum(rewards))
        assert rollout.derived["reward"] == "derived:sum(token_level_rewards)"
