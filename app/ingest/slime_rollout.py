"""slime's rollout data (`--save-debug-rollout-data`): {rollout_id}.pt, eval_{rollout_id}.pt.

{"rollout_id", "samples": [Sample.__dict__]}: tokens of prompt and response together, `loss_mask` null where
every token is trained, tool tokens with mask 0 and log-prob 0. The group is `group_index`. The reward may be
a dict: its `score` is taken, or its only number.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from app.ingest import inert_rows, names, prompts, scalars, token_arrays
from app.ingest.notes import Notes
from app.ingest.pickle_looks import look
from app.ingest.record import About, Format, Header, Item, Join, Problem, Rollout, Source
from app.settings import Settings

MARKS = frozenset(("rollout_id", "samples"))
MAPPED = frozenset((
    "group_index", "index", "prompt", "tokens", "response", "response_length", "label", "reward", "loss_mask",
    "rollout_log_probs", "status", "metadata", "rollout_id", "weight_versions",
))  # fmt: skip
SCORE = "score"


def sniff(source: Source, settings: Settings) -> bool:
    found = look(source)
    return (
        found is not None and found.root == "EMPTY_DICT" and set(found.texts) >= MARKS
        and not {"rollout_position", "format_version"} & set(found.texts[:40])
    )  # fmt: skip


def read(source: Source, settings: Settings) -> Iterator[Item]:
    notes = Notes()
    with inert_rows.opened(source, settings) as rows:
        inert_rows.expect(rows, ("samples",))
        yield Header(raw={"framework": "slime", **rows.others})
        yield from inert_rows.said(rows)
        split = names.split(source)
        for number, fields in rows:
            item = rollout(number, fields, notes)
            if isinstance(item, Rollout):
                item.step = scalars.integer(number, "step", _number(rows.others.get("rollout_id")), notes)
                names.fill(item, names.step(source, bare=True), split)
            yield from notes.drain()
            yield item
    yield from notes.summary()


def _number(value: Any) -> Any:
    """ "eval_3" is 3."""
    return value.rpartition("_")[2] if isinstance(value, str) else value


def rollout(row: int, fields: dict[str, Any], notes: Notes) -> Rollout | Problem:
    record = Rollout(row)
    response = fields.get("response")
    record.response = response if isinstance(response, str) else None
    prompts.set_prompt(record, fields.get("prompt"), notes)
    _set_tokens(record, fields, notes)
    if record.response is None and "response_ids" not in record.tokens:
        return Problem(
            f"row {row}: no response and no tokens; the row was not taken", "no_response", "error", row
        )
    if found := scalars.typed_id(fields.get("group_index")):
        record.group_id = found[0]
    record.sample_index = scalars.integer(row, "sample_index", fields.get("index"), notes)
    record.rollout_id = scalars.text(row, "rollout_id", fields.get("rollout_id"), notes)
    record.ground_truth = scalars.text(row, "ground_truth", fields.get("label"), notes)
    record.finish_reason = scalars.text(row, "finish_reason", fields.get("status"), notes)
    _set_reward(record, fields.get("reward"), notes)
    _set_version(record, fields.get("weight_versions"))
    metadata = fields.get("metadata")
    if isinstance(metadata, dict):
        record.data_source = scalars.text(row, "data_source", metadata.get("data_source"), notes)
        if metadata:
            record.extra["metadata"] = metadata
    for name, value in fields.items():
        if name not in MAPPED and value is not None:
            record.extra[name] = value.tolist() if isinstance(value, np.ndarray) else value
    return record


def _set_tokens(record: Rollout, fields: dict[str, Any], notes: Notes) -> None:
    length = scalars.integer(record.row, "response_length", fields.get("response_length"), notes)
    ids = fields.get("tokens")
    if ids is None or length is None:
        return
    whole = token_arrays.read(record.row, "response_ids", ids, notes)
    if whole is None:
        return
    if not 0 <= length <= whole.shape[0]:
        message = f"response_length is {length}, but there are {whole.shape[0]} tokens; tokens left out"
        notes.warn(record.row, "response_ids", "length_mismatch", message)
        return
    arrays = {"response_ids": whole[whole.shape[0] - length :]}
    if before := whole.shape[0] - length:
        record.prompt_ids = whole[:before]
    for name, canonical in (("loss_mask", "response_mask"), ("rollout_log_probs", "rollout_log_probs")):
        value = fields.get(name)
        if (
            value is not None
            and (array := token_arrays.read(record.row, canonical, value, notes)) is not None
        ):
            fractions = canonical == token_arrays.MASK and array.dtype != np.uint8
            arrays["loss_weight" if fractions else canonical] = array
    record.tokens, _ = token_arrays.same_length(record.row, arrays, None, notes)
    if fields.get("loss_mask") is None:
        record.tokens["response_mask"] = np.ones(length, np.uint8)
        record.derived["response_mask"] = "derived:no loss_mask, so every token is trained"


def _set_reward(record: Rollout, value: Any, notes: Notes) -> None:
    if not isinstance(value, dict):
        record.reward = scalars.number(record.row, "reward", value, notes)
        return
    parts = {name: float(part) for name, part in value.items() if isinstance(part, (int, float))}
    rest = {name: part for name, part in value.items() if name not in parts}
    record.reward_components = dict(parts) or None
    if rest:
        record.extra["reward"] = rest
    chosen = SCORE if SCORE in parts else next(iter(parts)) if len(parts) == 1 else None
    if chosen is None:
        message = (
            f"the reward is a dict of {', '.join(value)}, none of them called score: no reward was chosen"
        )
        notes.tally(record.row, "reward", "reward_parts", message, "warning")
        return
    record.reward = parts[chosen]
    record.derived["reward"] = f"derived:reward[{chosen!r}]"


def _set_version(record: Rollout, versions: Any) -> None:
    """The weights that wrote the end of the response, where they are numbered."""
    values = versions.tolist() if isinstance(versions, np.ndarray) else versions
    if not isinstance(values, list) or not values:
        return
    last = values[-1]
    if isinstance(last, int) or (isinstance(last, str) and last.isdecimal() and len(last) < 19):
        record.policy_version = int(last)
    if len({str(value) for value in values}) > 1 or record.policy_version is None:
        record.extra["weight_versions"] = values


def position_key(record: Rollout) -> bytes | None:
    """Step and number of the sample in it; None for evaluation rows and rows without either."""
    if record.step is None or record.sample_index is None or record.split == "val":
        return None
    return f"{record.step}/{record.sample_index}".encode()


ABOUT = About(
    setting="`--save-debug-rollout-data PATH/{rollout_id}.pt` or `--dump-details DIR`",
    files="`rollout_data/{rollout_id}.pt`, `eval_{rollout_id}.pt`",
    recorded=(
        "step", "group_id", "sample_index", "prompt", "response", "prompt_ids", "response_ids",
        "finish_reason", "ground_truth",
    ),
    sometimes=(
        "rollout_log_probs", "response_mask", "reward", "reward_components", "data_source", "policy_version",
        "prompt_messages", "rollout_id", "loss_weight",
    ),
    derived={
        "response_mask": "all 1 where loss_mask is null", "reward": "reward['score'] of a dict",
        "prompt": "messages", "split": "file name", "step": "file name, where rollout_id is none",
    },
    absent={
        name: "`--save-debug-train-data PATH/{rollout_id}.pt`, sent with it: the rows are joined"
        for name in ("advantages", "returns", "values", "old_log_probs", "ref_log_probs", "entropies", "kl")
    },
)  # fmt: skip
FORMAT = Format("slime-rollout", "slime rollout data, .pt", sniff, read, about=ABOUT)
JOIN = Join(
    "slime-rollout", "slime-train", "rollout id and sample index", position_key, exact="main", tolerance=1e-6
)  # fmt: skip
