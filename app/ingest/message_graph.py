"""A trace of verifiers: a graph of messages with their tokens; its paths from root to leaf."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from app.ingest import token_arrays
from app.ingest.notes import Notes
from app.ingest.record import Rollout
from app.ingest.sequences import first_trained
from storage.arrays import MISSING

#: Lists of a node that have a value for each sampled token: verifiers' name -> the canonical one.
SAMPLED = {
    "logprobs": "rollout_log_probs",
    "advantages": "advantages",
    "reference_logprobs": "ref_log_probs",
    "trainer_logprobs": "old_log_probs",
    "entropies": "entropies",
}
#: A graph whose paths visit more nodes than this all together is no honest one.
MOST_VISITS = 2_000_000


@dataclass(frozen=True, slots=True)
class Path:
    nodes: list[dict[str, Any]]

    def messages(self) -> list[dict[str, Any]]:
        return [node["message"] for node in self.nodes]

    def first_sampled(self) -> int:
        """Where the model answers for the first time; the end, where it never does."""
        return next((place for place, node in enumerate(self.nodes) if node.get("sampled")), len(self.nodes))


def paths(trace: dict[str, Any]) -> list[Path] | str:
    """Every path from a root to a leaf, in the order of the leaves; or what is wrong with the graph."""
    nodes = trace.get("nodes")
    if not isinstance(nodes, list) or not nodes:
        return "has no messages"
    depth: list[int] = []
    for index, node in enumerate(nodes):
        if not isinstance(node, dict) or not isinstance(node.get("message"), dict):
            return f"has no message in node {index}"
        parent = node.get("parent")
        if parent is not None and (type(parent) is not int or not 0 <= parent < index):
            return f"has a node {index} whose parent is none of the nodes before it"
        depth.append(1 if parent is None else depth[parent] + 1)
    inner = {node.get("parent") for node in nodes}
    leaves = [index for index in range(len(nodes)) if index not in inner]
    if sum(depth[leaf] for leaf in leaves) > MOST_VISITS:
        return "has more branches than can be read"
    return [_path(nodes, leaf) for leaf in leaves]


def _path(nodes: list[dict[str, Any]], leaf: int) -> Path:
    found: list[dict[str, Any]] = []
    at: int | None = leaf
    while at is not None:
        found.append(nodes[at])
        at = nodes[at].get("parent")
    return Path(found[::-1])


def set_tokens(record: Rollout, path: Path, notes: Notes) -> None:
    """Ids and mask of all messages one after the other; values of sampled tokens where the mask is 1."""
    ids: list[Any] = []
    masks: list[Any] = []
    for number, node in enumerate(path.nodes):
        own, mask = _listed(node, "token_ids"), _listed(node, "mask")
        if len(mask) != len(own):
            message = f"message {number} has {len(own)} token_ids and {len(mask)} mask; no tokens are kept"
            notes.warn(record.row, "response_mask", "length_mismatch", message)
            return
        ids += own
        masks += mask
    if not ids:
        return
    row = record.row
    response_ids = token_arrays.read(row, "response_ids", ids, notes)
    mask_array = token_arrays.read(row, "response_mask", masks, notes)
    if response_ids is None or mask_array is None or mask_array.dtype != np.uint8:
        return
    start = first_trained(record, mask_array, notes)
    if start:
        record.prompt_ids = response_ids[:start]
    record.tokens = {"response_ids": response_ids[start:], "response_mask": mask_array[start:]}
    for name, canonical in SAMPLED.items():
        if (values := _spread(record, path, name, canonical, notes)) is not None:
            record.tokens[canonical] = values[start:]


def _listed(node: dict[str, Any], name: str) -> list[Any]:
    value = node.get(name)
    return value if isinstance(value, list) else []


def _spread(record: Rollout, path: Path, name: str, canonical: str, notes: Notes) -> Any:
    """One value for each token of the path, missing where none was sampled; None where no node has any."""
    values: list[Any] = []
    found = False
    for number, node in enumerate(path.nodes):
        mask, own = _listed(node, "mask"), _listed(node, name)
        count = sum(map(bool, mask))
        if own and len(own) != count:
            message = (
                f"message {number} has {len(own)} {name} for {count} sampled tokens; {canonical} left out of "
                "this row, never padded, cut or shifted"
            )
            notes.warn(record.row, canonical, "length_mismatch", message)
            return None
        found = found or bool(own)
        given = iter(own or [MISSING] * count)
        values += [next(given) if trained else None for trained in mask]
    return token_arrays.read(record.row, canonical, values, notes) if found else None
