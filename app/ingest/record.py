"""What a format's reader yields: `Header`, `Rollout` and `Problem`. What it yields is what is stored."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from io import BufferedReader
from pathlib import Path
from re import Pattern
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from app.settings import Settings

Severity = Literal["error", "warning", "info"]

#: Per-token fields, as in the canonical schema. Float fields hold float64 or float32, ids int64, the mask
#: uint8.
TOKEN_FIELDS = (
    "response_ids",
    "response_mask",
    "token_level_rewards",
    "token_level_scores",
    "values",
    "old_log_probs",
    "ref_log_probs",
    "rollout_log_probs",
    "entropies",
    "advantages",
    "returns",
    "loss_weight",
    "kl",
    "sum_pi_squared",
    "next_values",
    "rollout_is_weights",
)

MESSAGE = 2000  # characters of a problem's message, of which the middle is left out where it is longer
HEAD = 1 << 16  # bytes of a file that are looked at to recognise it

#: Per-prompt token ids; stored once per group like the prompt's text.
PROMPT_FIELD = "prompt_ids"


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing to say about a row (from 1) of a file, or about the file where `row` is None.

    "error": the row (or file) was not taken; "warning": taken, but something of it is missing or doubtful;
    "info": a harmless conversion that a person should know of. `message` says what is wrong and what to do.
    Each rejected row has exactly one "error". A row with code "duplicate_row" was left out as a repeat.
    """

    message: str
    code: str
    severity: Severity = "warning"
    row: int | None = None
    field: str | None = None
    file: str | None = None  # which file of the upload, where there are several


def shown(problem: Problem) -> Problem:
    """The problem with a message of one printable line: what it quotes of a file may be anything."""
    said = problem.message
    if said.isprintable() and len(said) <= MESSAGE:
        return problem
    said = said if len(said) <= MESSAGE else f"{said[: MESSAGE // 2]} … {said[-MESSAGE // 2 :]}"
    clean = "".join(character if character.isprintable() else "·" for character in said)
    return replace(problem, message=clean)


@dataclass(slots=True)
class Header:
    """Metadata of the file. `raw` is kept with the batch (framework, run, adv_estimator, gamma, provenance
    …).
    """

    run: str | None = None
    raw: dict[str, Any] = field(default_factory=dict)
    format: str = ""  # name of the format that reads the file
    file: str | None = None
    prefix: str = ""  # of a companion: how the names of the files begin that it goes with
    expects: tuple[str, ...] = ()  # of a companion: the files that should lie in its folder


@dataclass(slots=True)
class Rollout:
    """One response and what was recorded of it. None means not recorded; absent token fields are absent keys.

    Every array in `tokens` has the same length: one value per response token, masked tokens included.
    A value that was recorded as null inside a list is `storage.arrays.MISSING`, other non-finite values are
    themselves. `row` counts from 1: the line of a JSONL file, the row of a table or tensor. From `read_all`
    every rollout has a `group_id`; where it was not recorded, `derived["group_id"]` names the rule. `digest`
    is equal for rows that recorded exactly the same.
    """

    row: int
    step: int | None = None
    split: str | None = None
    group_id: str | None = None
    sample_index: int | None = None
    sample_id: str | None = None
    data_source: str | None = None
    prompt: str | None = None
    prompt_messages: list[Any] | None = None
    prompt_ids: NDArray[np.int64] | None = None
    response: str | None = None
    messages: list[Any] | None = None
    tokens: dict[str, NDArray[Any]] = field(default_factory=dict)
    response_tokens: list[str] | None = None
    reward: float | None = None
    reward_components: dict[str, float | None] | None = None
    advantage: float | None = None
    ground_truth: str | None = None
    finish_reason: str | None = None
    truncated: bool | None = None
    terminated: bool | None = None
    policy_version: int | None = None
    reward_baseline: float | None = None
    bootstrap_value: float | None = None
    rollout_id: str | None = None
    segment: int | None = None
    rank: int | None = None
    micro_batch: int | None = None
    extra: dict[str, Any] = field(default_factory=dict)
    derived: dict[str, str] = field(
        default_factory=dict
    )  # field -> "derived:<rule>", where the file has it not
    file: str | None = None
    digest: str = ""

    @property
    def length(self) -> int | None:
        """Tokens of the response, or None where no per-token field is there."""
        for array in self.tokens.values():
            return int(array.shape[0])
        return None if self.response_tokens is None else len(self.response_tokens)


Item = Header | Rollout | Problem


class Unreadable(Exception):
    """The file cannot be read, or not further. The message is one or two sentences for its owner."""

    def __init__(self, message: str, code: str = "unreadable") -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class File:
    """One file as it was handed over: where it lies, and the name (folders included) its owner gave it."""

    path: Path
    name: str


@dataclass(frozen=True, slots=True)
class Source:
    """One unwrapped file to read: `open` gives its bytes from the start, already decompressed and bounded.

    `path` is set where the file lies on disk as it is (Parquet and safetensors need to seek). `head` is its
    first 64 KiB, for sniffing. `position` counts the *spooled* bytes consumed so far (for progress); a reader
    that does not use `open` tells `report` how far it got.
    """

    name: str
    head: bytes
    open: Callable[[], BufferedReader]
    path: Path | None
    position: Callable[[], int]
    report: Callable[[int], None]
    member: bool = False  # one of several files in an archive
    outer: str = ""  # name of the archive (archives joined by "/") that it is a member of
    copied: bool = False  # `path` is a copy that goes when the file has been read
    memo: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)  # what sniffing found

    @property
    def trail(self) -> str:
        """The name with the archive's name before it: where a step or a split may be told from."""
        return f"{self.outer}/{self.name}" if self.outer else self.name


@dataclass(frozen=True, slots=True)
class About:
    """What docs/formats.md says of a format; a test holds the fields against the samples.

    `setting` is how the trainer is told to write it, `files` what it writes. Fields by their canonical name:
    `recorded` in every row, `sometimes` in some, `derived` by which rule, `absent` -> the trainer's setting
    that would record it (or where else it is to be had; "" where nothing is known).
    """

    setting: str
    files: str
    recorded: tuple[str, ...]
    sometimes: tuple[str, ...] = ()
    derived: Mapping[str, str] = field(default_factory=dict)
    absent: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Format:
    """`sniff` looks at name-independent content only; `read` yields a Header first (if any), then the rest.

    `groups` is the rule for rows without a group id: "prompt" (identical prompts of a step) or "adjacent"
    (runs of identical prompts). `companion`: its files have no rows; the `raw` of their header goes to the
    headers of the files of the formats `of` that lie in the same folder. `shard`: how a file's name numbers
    it among the files that belong together; gaps are said. `marker`: an empty file that says its folder is
    finished. `fallback`: asked last, for what no other format claims. `kept`: a companion whose bytes the
    file beside it needs.
    """

    name: str
    title: str
    sniff: Callable[[Source, Settings], bool]
    read: Callable[[Source, Settings], Iterator[Item]]
    groups: Literal["prompt", "adjacent"] = "prompt"
    about: About | None = None
    companion: bool = False
    of: tuple[str, ...] = ()
    shard: Pattern[str] | None = None
    marker: str | None = None
    fallback: bool = False
    kept: bool = False


@dataclass(frozen=True, slots=True)
class Join:
    """Rows of two formats of one upload that are the same rollouts: `side` rows complete `main` rows.

    `key` gives what a row is found by, of either format (None: it cannot be joined); `by` says it in words.
    A field that both record must agree within `tolerance`: the value of `exact` then stands, else it is a
    conflict that is listed and the main row's value stands. Side rows that complete nothing stay rows.
    """

    main: str
    side: str
    by: str
    key: Callable[[Rollout], bytes | None]
    exact: Literal["main", "side"] = "main"
    tolerance: float = 0.0
