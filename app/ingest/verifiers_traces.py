"""Episodes of verifiers (from 0.3 on) and of prime-rl's file monitor: traces.jsonl, one episode a line.

An episode holds traces, a trace a graph of messages. Every path from the root to a leaf is one row. A node's
log-probs, advantages, … are of its sampled tokens alone: they are put where the mask is 1, the other tokens
have none. The reward is not in the file: it is the sum of score x weight, named as derived. prime-rl rounds
floats to 4 decimals; its `effective` traces are among `all`. An episode that crashed has no trace.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from app.ingest import jsonl, names, prompts, scalars
from app.ingest.message_graph import Path, paths, set_tokens
from app.ingest.notes import Notes
from app.ingest.record import About, Format, Header, Item, Problem, Rollout, Source
from app.settings import Settings

MARKS = frozenset(("traces", "env", "task"))
#: Agents of one environment have rewards of their own kind, and baselines of their own in prime-rl.
AGENT_RULE = "derived:environment/agent"
REWARD_RULE = "derived:sum(score x weight)"
EPISODE = ("traces", "id", "env", "group", "run")
TRACE = ("nodes", "id", "rewards", "info", "task")
SPLITS = {"train": "train", "eval": "val"}


def sniff(source: Source, settings: Settings) -> bool:
    row = jsonl.first_row(source, settings)
    return row is not None and row.keys() >= MARKS


def read(source: Source, settings: Settings) -> Iterator[Item]:
    first = jsonl.first_row(source, settings) or {}
    run = part(first, "run")
    name = next((run[key] for key in ("name", "id") if isinstance(run.get(key), str)), None)
    trainer = isinstance(run.get("work"), dict)
    step, split = (names.step(source), names.split(source)) if trainer else (None, None)

    def convert(
        row: int, fields: dict[str, Any], header: dict[str, Any], notes: Notes
    ) -> Iterator[Rollout | Problem]:
        for item in _episode(row, fields, notes):
            if isinstance(item, Rollout):
                names.fill(item, step, split)
            yield item

    header = Header(run=name, raw={"framework": "prime-rl" if trainer else "verifiers"})
    yield from jsonl.read_many(source, settings, convert, header)


def part(fields: dict[str, Any], name: str) -> dict[str, Any]:
    """An object of the row, {} where there is none."""
    value = fields.get(name)
    return value if isinstance(value, dict) else {}


def _episode(row: int, fields: dict[str, Any], notes: Notes) -> Iterator[Rollout | Problem]:
    traces = fields.get("traces")
    if not isinstance(traces, list) or not traces:
        errors = fields.get("errors")
        why = "; ".join(_error(error) for error in errors) if isinstance(errors, list) else ""
        message = f"row {row}: the episode {fields.get('id')} has no trace{f' ({why})' if why else ''}"
        yield Problem(f"{message}: nothing to read", "no_trace", "error", row, "traces")
        return
    for trace in traces:
        found = paths(trace) if isinstance(trace, dict) else "is no object"
        if isinstance(found, str):
            yield Problem(f"row {row}: a trace {found}; not taken", "bad_trace", "error", row, "traces")
            row += 1
            continue
        for number, path in enumerate(found):
            yield _row(row, _Place(fields, trace, number if len(found) > 1 else None), path, notes)
            row += 1


def _error(error: Any) -> str:
    if not isinstance(error, dict):
        return str(error)[:200]
    return f"{error.get('type') or 'error'}: {error.get('message')}"[:200]


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a path is from: its episode, its trace, and its number where the trace has several leaves."""

    episode: dict[str, Any]
    trace: dict[str, Any]
    branch: int | None


def _row(row: int, place: _Place, path: Path, notes: Notes) -> Rollout | Problem:
    record = Rollout(row)
    messages = path.messages()
    first = path.first_sampled()
    prompts.set_prompt(record, messages[:first], notes)
    if not messages[first:] or not prompts.set_response(record, messages[first:], notes):
        return Problem(f"row {row}: no sampled message; the row was not taken", "no_response", "error", row)
    set_tokens(record, path, notes)
    _set_place(record, place, notes)
    _set_rewards(record, place.trace, notes)
    calls = place.trace.get("calls")
    if isinstance(calls, list) and calls and isinstance(calls[-1], dict):
        record.finish_reason = scalars.text(row, "finish_reason", calls[-1].get("finish_reason"), notes)
    _set_extra(record, place)
    return record


def _set_place(record: Rollout, place: _Place, notes: Notes) -> None:
    episode, row = place.episode, record.row
    run, env = part(episode, "run"), part(episode, "env")
    work = part(run, "work")
    record.step = scalars.integer(row, "step", work.get("step"), notes)
    version = part(work, "policy").get("end")
    record.policy_version = scalars.integer(row, "policy_version", version, notes)
    kind = run.get("type")
    record.split = SPLITS.get(kind, kind) if isinstance(kind, str) else None
    if found := scalars.typed_id(part(episode, "group").get("id")):
        record.group_id, kind = found
        if kind != "text":
            record.extra["group_id_type"] = kind
    record.data_source = scalars.text(row, "data_source", env.get("name") or env.get("id"), notes)
    agents = {part(trace, "agent").get("name") for trace in episode["traces"] if isinstance(trace, dict)}
    own = part(place.trace, "agent").get("name")
    if record.data_source is not None and isinstance(own, str) and len(agents) > 1:
        record.data_source = f"{record.data_source}/{own}"
        record.derived["data_source"] = AGENT_RULE
    trace_id = scalars.text(row, "sample_id", place.trace.get("id"), notes)
    record.sample_id = record.rollout_id = trace_id
    if place.branch is not None:
        record.segment = place.branch
        record.sample_id = f"{trace_id}#{place.branch}"
    data = part(part(episode, "task"), "data")
    record.ground_truth = scalars.text(row, "ground_truth", data.get("answer"), notes)


def _set_rewards(record: Rollout, trace: dict[str, Any], notes: Notes) -> None:
    rewards, row = part(trace, "rewards"), record.row
    components: dict[str, float | None] = {}
    weights: dict[str, float] = {}
    for name, value in rewards.items():
        entry = value if isinstance(value, dict) else {"score": value}
        components[name] = scalars.number(row, f"reward_components.{name}", entry.get("score"), notes)
        weight = scalars.number(row, f"weight of {name}", entry.get("weight"), notes)
        if weight is not None:
            weights[name] = weight
    if components:
        record.reward_components = components
        record.extra["reward_weights"] = weights
        scored = {name: score for name, score in components.items() if score is not None}
        if scored:
            record.reward = sum(score * weights.get(name, 1.0) for name, score in scored.items())
            record.derived["reward"] = REWARD_RULE
    info = part(trace, "info")
    record.advantage = scalars.number(row, "advantage", info.get("advantage"), notes)
    rest = {name: value for name, value in info.items() if name != "advantage"}
    if rest:
        record.extra["info"] = rest


def _set_extra(record: Rollout, place: _Place) -> None:
    """Everything else of the trace and of the episode, as it is."""
    record.extra |= {name: value for name, value in place.trace.items() if name not in TRACE and value != []}
    record.extra["episode"] = {
        name: value for name, value in place.episode.items() if name not in EPISODE and value != []
    } | {"id": place.episode.get("id")}


ABOUT = About(
    setting="verifiers: every evaluation; prime-rl: monitor `file`, on by default",
    files="`traces.jsonl`; prime-rl `{run}/rollouts/step_{n}/{train|eval}/{all|effective}/traces.jsonl`",
    recorded=(
        "group_id", "sample_id", "rollout_id", "prompt_messages", "messages", "data_source",
        "reward_components",
    ),
    sometimes=(
        "step", "split", "policy_version", "prompt_ids", "response_ids", "response_mask",
        "rollout_log_probs", "advantages", "advantage", "ref_log_probs", "old_log_probs", "entropies",
        "finish_reason", "segment", "ground_truth",
    ),
    derived={
        "reward": "sum of score x weight", "prompt": "messages", "response": "messages",
        "data_source": "environment/agent, where an episode has several agents",
    },
    absent={"values": "", "returns": "", "token_level_rewards": ""},
)  # fmt: skip
FORMAT = Format("verifiers-traces", "verifiers or prime-rl episodes, JSONL", sniff, read, about=ABOUT)
