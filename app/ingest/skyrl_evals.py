"""SkyRL's evaluation dumps: dumped_evals/global_step_{N}_evals/{data_source}.jsonl, a row a sample.

`score` is a number, or a list with one for each token, which become the token-level rewards; their sum is
then the reward, named as derived. aggregated_results.jsonl beside the rows holds metrics and goes into the
batch's header. There is no group id: groups are identical prompts.
"""

import json
import math
from collections.abc import Iterator
from typing import Any

from app.ingest import jsonl, names, prompts, scalars, token_arrays
from app.ingest.json_rows import a_kind
from app.ingest.notes import Notes
from app.ingest.record import About, Format, Header, Item, Problem, Rollout, Source
from app.settings import Settings

MARKS = frozenset(("input_prompt", "output_response"))
MAPPED = ("input_prompt", "output_response", "score", "stop_reason", "data_source")
SUM_RULE = "derived:sum(token_level_rewards)"
LISTS = {"score": "d"}


def sniff(source: Source, settings: Settings) -> bool:
    row = jsonl.first_row(source, settings)
    return row is not None and row.keys() >= MARKS


def read(source: Source, settings: Settings) -> Iterator[Item]:
    step = names.step(source)

    def convert(row: int, fields: dict[str, Any], header: dict[str, Any], notes: Notes) -> Rollout | Problem:
        item = _rollout(row, fields, notes)
        if isinstance(item, Rollout):
            names.fill(item, step, ("val", "derived:an evaluation"))
        return item

    yield from jsonl.read(source, settings, convert, Header(raw={"framework": "skyrl"}), LISTS)


def _rollout(row: int, fields: dict[str, Any], notes: Notes) -> Rollout | Problem:
    record = Rollout(row)
    response = fields.get("output_response")
    if response is None or not prompts.set_response(record, response, notes):
        message = f"row {row}: output_response is {a_kind(response)}, not text; the row was not taken"
        return Problem(message, "no_response", "error", row, "output_response")
    prompts.set_prompt(record, fields.get("input_prompt"), notes)
    _set_score(record, fields.get("score"), notes)
    record.finish_reason = scalars.text(row, "finish_reason", fields.get("stop_reason"), notes)
    record.data_source = scalars.text(row, "data_source", fields.get("data_source"), notes)
    extras = fields.get("env_extras")
    spec = extras.get("reward_spec") if isinstance(extras, dict) else None
    if isinstance(spec, dict):
        record.ground_truth = scalars.text(row, "ground_truth", spec.get("ground_truth"), notes)
    record.extra = {name: value for name, value in fields.items() if name not in MAPPED}
    return record


def _set_score(record: Rollout, score: Any, notes: Notes) -> None:
    if score is None or isinstance(score, (str, bool, int, float)):
        record.reward = scalars.number(record.row, "reward", score, notes)
        return
    rewards = token_arrays.read(record.row, "token_level_rewards", score, notes)
    if rewards is not None:
        record.tokens["token_level_rewards"] = rewards
        total = math.fsum(rewards.tolist())
        record.reward = scalars.number(record.row, "reward", total, notes)
        record.derived["reward"] = SUM_RULE


def sniff_metrics(source: Source, settings: Settings) -> bool:
    row = jsonl.first_row(source, settings)
    return bool(row) and row is not None and all(name.startswith("eval/") for name in row)


def read_metrics(source: Source, settings: Settings) -> Iterator[Item]:
    metrics = jsonl.first_row(source, settings) or {}
    yield Header(raw={"metrics": {name: _plain(value) for name, value in metrics.items()}})


def _plain(value: Any) -> Any:
    """NaN and infinities as texts: the header is kept as JSON."""
    return json.dumps(value) if isinstance(value, float) and not math.isfinite(value) else value


ABOUT = About(
    setting="`trainer.dump_eval_results` (on by default)",
    files="`{export_path}/dumped_evals/global_step_{N}_evals/{data_source}.jsonl`",
    recorded=("prompt", "response", "data_source", "ground_truth", "finish_reason"),
    sometimes=("reward", "token_level_rewards"),
    derived={
        "step": "folder name", "split": "an evaluation", "group_id": "identical prompts",
        "reward": "sum of the token-level rewards, where those are recorded",
    },
    absent={
        name: "training batches: `trainer.dump_data_batch = true`"
        for name in ("response_ids", "response_mask", "rollout_log_probs", "advantages")
    },
)  # fmt: skip
FORMAT = Format("skyrl-evals", "SkyRL evaluation dump, JSONL", sniff, read, about=ABOUT)
METRICS = Format(
    "skyrl-metrics", "SkyRL evaluation metrics", sniff_metrics, read_metrics, companion=True,
    of=("skyrl-evals",),
)  # fmt: skip
