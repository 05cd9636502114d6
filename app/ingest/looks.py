"""What a row of an unreadable file looks like: frameworks whose files are recognised by their keys alone."""

from collections.abc import Iterable
from typing import Any

#: (what to call it, keys that a row of it has). The first that fits names the file; the narrower stands
#: first.
SIGNATURES: tuple[tuple[str, frozenset[str]], ...] = tuple(
    (name, frozenset(keys.split()))
    for name, keys in (
        ("a W&B table", "columns data"),
        ("a memory-mapped TensorDict", "_type shape device"),
        ("a prime-rl token export", "token_ids inference_logprobs trainer_logprobs"),
        ("verifiers or prime-rl episodes (traces.jsonl)", "traces env task"),
        ("verifiers evaluation results", "example_id completion"),
        ("NeMo-RL step data", "token_ids token_loss_mask input_lengths"),
        ("Atropos groups", "tokens masks scores"),
        ("open-instruct rollouts", "prompt_idx prompt_tokens response_tokens"),
        ("open-instruct metadata", "run_name git_commit model_name"),
        ("an AReaL trajectory dump", "task_id head_version tail_version"),
        ("a ROLL rollout dump", "responses scores global_step"),
        ("a SkyRL evaluation dump", "input_prompt output_response"),
        ("a logging board of ROLL or RL Logging Board", "response_tokens logprobs token_rewards"),
        ("an ms-swift completions file", "prompt completion advantages"),
        ("tinker-cookbook rollout summaries", "group_idx traj_idx total_reward"),
        ("a Trackio trace", "type trackio"),
        ("ART trajectories", "group_index group_metadata messages"),
        ("a verl offline generation", "prompt responses data_source"),
        ("an rLLM episode", "episode_id trajectories"),
        ("an rLLM batch summary", "num_episodes episode_files"),
        ("an Inspect evaluation log", "eval plan samples"),
        ("a chat-completions batch output", "custom_id response"),
        ("a tokenizer", "model added_tokens"),
        ("metadata of a verifiers evaluation", "env_id rollouts_per_example"),
        ("a tinker-cookbook log tree", "title started_at root"),
        ("a TRL completions table", "prompt completion advantage"),
        ("a TRL completions table", "prompt completion step"),
    )
)

SHOWN_KEYS = 8
AGENT_LIGHTNING = frozenset(("rollout_id", "reward", "prompt", "response"))


def is_agent_lightning(row: dict[str, Any]) -> bool:
    """Four fields, none else, and an id as that framework makes it: others have these fields, too."""
    rollout = row.get("rollout_id")
    return row.keys() == AGENT_LIGHTNING and isinstance(rollout, str) and rollout.startswith("ro-")


def looks_like(row: dict[str, Any]) -> str | None:
    """The framework's file that rows with these keys are from, where it is one that is not read here."""
    return "Agent Lightning trajectories" if is_agent_lightning(row) else looks_like_columns(row.keys())


def looks_like_columns(columns: Iterable[str]) -> str | None:
    names = set(columns)
    for name, keys in SIGNATURES:
        if keys <= names:
            return name
    if names and all(name.startswith("eval/") for name in names):
        return "SkyRL evaluation metrics"
    return None


def names(columns: Iterable[str]) -> str:
    """A few of the columns, for a sentence."""
    found = [name if len(name) <= 40 else f"{name[:37]}…" for name in columns]
    if not found:
        return "no fields"
    more = f" and {len(found) - SHOWN_KEYS} more" if len(found) > SHOWN_KEYS else ""
    return ", ".join(found[:SHOWN_KEYS]) + more
