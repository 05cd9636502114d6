"""rLLM's episode logs (`trainer.log_episodes`): one pretty-printed JSON file an episode, a row a trajectory.

`episode_id` is {task}:{rollout}: the group is what stands before the colon, with the trajectory's name. The
conversation is that of the last step where each step continues the one before. The logger drops ids,
log-probs and advantages. batch_summary.json beside the episodes says which there should be.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from app.ingest import canonical, documents, names, prompts, scalars
from app.ingest.notes import Notes
from app.ingest.record import About, Format, Header, Item, Problem, Rollout, Source
from app.settings import Settings

MARKS = frozenset(("episode_id", "trajectories"))
SUMMARY = frozenset(("num_episodes", "episode_files"))
GROUP_RULE = "derived:episode_id before ':' and name"
EPISODE = ("trajectories", "training_step", "episode_id", "metrics")
TRAJECTORY = ("reward", "uid", "steps", "name")


def sniff(source: Source, settings: Settings) -> bool:
    keys = set(documents.keys(source))
    return (
        "episode_id" in keys and documents.is_document(source) and ("training_step" in keys or keys >= MARKS)
    )


def read(source: Source, settings: Settings) -> Iterator[Item]:
    yield Header(raw={"framework": "rllm"})
    notes = Notes()
    episode: dict[str, Any] = {}
    step, split = names.step(source), names.split(source)
    for member in documents.members(source, settings):
        episode[member.key] = documents.value(member, settings)
    trajectories = episode.get("trajectories")
    if not isinstance(trajectories, list) or not trajectories:
        message = f"the episode {episode.get('episode_id')} has no trajectory: nothing to read"
        yield Problem(message, "no_trace", "error", 1, "trajectories")
        return
    for row, trajectory in enumerate(trajectories, 1):
        item = _rollout(row, episode, trajectory, notes)
        if isinstance(item, Rollout):
            names.fill(item, step, split)
        yield from notes.drain()
        yield item
    yield from notes.summary()


def _rollout(row: int, episode: dict[str, Any], trajectory: Any, notes: Notes) -> Rollout | Problem:
    steps = trajectory.get("steps") if isinstance(trajectory, dict) else None
    steps = [step for step in steps if isinstance(step, dict)] if isinstance(steps, list) else []
    record = Rollout(row)
    messages = conversation(row, steps, notes)
    if messages:
        first = prompts.first_answer(messages)
        prompts.set_prompt(record, messages[:first], notes)
        prompts.set_response(record, messages[first:], notes)
    if record.response is None and steps and isinstance(steps[-1].get("model_response"), str):
        record.response = steps[-1]["model_response"]
        record.derived["response"] = "derived:model_response of the last step"
    if record.response is None:
        message = f"row {row}: the trajectory has no conversation; the row was not taken"
        return Problem(message, "no_response", "error", row, "steps")
    record.step = scalars.integer(row, "step", episode.get("training_step"), notes)
    record.reward = scalars.number(row, "reward", trajectory.get("reward"), notes)
    record.sample_id = scalars.text(row, "sample_id", trajectory.get("uid"), notes)
    _set_group(record, episode, trajectory)
    task = episode.get("task")
    if isinstance(task, dict):
        record.data_source = scalars.text(row, "data_source", task.get("data_source"), notes)
        record.ground_truth = scalars.text(row, "ground_truth", task.get("ground_truth"), notes)
    metrics = episode.get("metrics")
    if isinstance(metrics, dict) and metrics:
        record.reward_components = canonical.reward_components(row, metrics, notes)
    record.finish_reason = scalars.text(row, "finish_reason", episode.get("termination_reason"), notes)
    record.extra = _extra(episode, trajectory, steps)
    return record


def conversation(row: int, steps: list[dict[str, Any]], notes: Notes) -> list[Any]:
    """The last step's messages where each step continues the one before; else those of all steps."""
    chats = [chat for step in steps if prompts.is_messages(chat := step.get("chat_completions")) and chat]
    if not chats:
        return []
    if all(_continues(later, earlier) for earlier, later in pairwise(chats)):
        return list(chats[-1])
    message = "the steps do not continue each other: their conversations stand one after the other"
    notes.tally(row, "messages", "steps_apart", message, "warning")
    return [message for chat in chats for message in chat]


def _continues(later: list[Any], earlier: list[Any]) -> bool:
    """Whether a conversation begins with another one. Answers may be written in two ways (as a call, as its
    text); what was asked may not.
    """
    return len(later) > len(earlier) and all(
        one.get("role") == other.get("role")
        and (one.get("role") == "assistant" or one.get("content") == other.get("content"))
        for one, other in zip(earlier, later, strict=False)
    )


def _set_group(record: Rollout, episode: dict[str, Any], trajectory: dict[str, Any]) -> None:
    identity = episode.get("episode_id")
    if not isinstance(identity, str) or not identity:
        return
    name = trajectory.get("name")
    record.rollout_id = identity
    task = identity.rpartition(":")[0] or identity
    record.group_id = f"{task}/{name}" if isinstance(name, str) and name else task
    record.derived["group_id"] = GROUP_RULE


def _extra(
    episode: dict[str, Any], trajectory: dict[str, Any], steps: list[dict[str, Any]]
) -> dict[str, Any]:
    rest = {name: value for name, value in episode.items() if name not in EPISODE and value not in (None, {})}
    own = {
        name: value
        for name, value in trajectory.items()
        if name not in TRAJECTORY and value not in (None, {})
    }
    short = [{name: value for name, value in step.items() if name != "chat_completions"} for step in steps]
    return rest | {"trajectory": own | {"name": trajectory.get("name")}, "steps": short}


def sniff_summary(source: Source, settings: Settings) -> bool:
    return set(documents.keys(source)) >= SUMMARY and documents.is_document(source)


def read_summary(source: Source, settings: Settings) -> Iterator[Item]:
    found = {member.key: documents.value(member, settings) for member in documents.members(source, settings)}
    files = found.pop("episode_files", None)
    expected = tuple(name for name in files if isinstance(name, str)) if isinstance(files, list) else ()
    yield Header(raw={"batch_summary": found}, expects=expected)


ABOUT = About(
    setting="`trainer.log_episodes = true` (`rllm.episode_logging.log_episodes`), `episode_log_dir`",
    files="`{dir}/episodes/{train|val}_step_{s}_epoch_{e}/episode_hash….json`, `batch_summary.json`",
    recorded=(
        "step", "prompt_messages", "messages", "reward", "data_source", "ground_truth", "sample_id",
        "rollout_id", "finish_reason",
    ),
    sometimes=("reward_components",),
    derived={
        "group_id": "`episode_id` before the colon, and the trajectory's name", "split": "folder name",
        "prompt": "messages", "response": "messages",
    },
    absent={
        name: "kept in memory only; the logger drops it"
        for name in ("response_ids", "response_mask", "rollout_log_probs", "advantages", "advantage")
    },
)  # fmt: skip
FORMAT = Format("rllm-episodes", "rLLM episodes, JSON", sniff, read, about=ABOUT)
SUMMARY_FORMAT = Format(
    "rllm-summary", "the summary of an rLLM batch", sniff_summary, read_summary, companion=True,
    of=("rllm-episodes",),
)  # fmt: skip
