"""EasyR1's generations.log (logger `file`): validation samples as blocks of text, appended.

[prompt] …, [output] …, [ground_truth] …, [score] …, a blank line. Nothing is escaped: where an output holds
these words itself, the last of them is taken, and the row is named. There is no step; groups are identical
prompts.
"""

import re
from collections.abc import Iterator

from app.ingest import prompts, scalars
from app.ingest.json_rows import decode
from app.ingest.notes import Notes
from app.ingest.record import About, Format, Header, Item, Problem, Rollout, Source
from app.settings import Settings

_BLOCK = re.compile(
    r"\[prompt\] (?P<prompt>.*?)\n\[output\] (?P<output>.*)\n\[ground_truth\] (?P<truth>.*)"
    r"\n\[score\] (?P<score>[^\n]*)\n*",
    re.DOTALL,
)
#: A block is whole where its last line but blank ones is a score.
_END = re.compile(rb"\n\[score\] [^\n]*\n\Z")
WORDS = ("\n[output] ", "\n[ground_truth] ", "\n[score] ")
RECORDED = ("prompt", "response", "reward", "ground_truth")


def sniff(source: Source, settings: Settings) -> bool:
    head = source.head
    return head.startswith(b"[prompt] ") and b"\n[output] " in head


def read(source: Source, settings: Settings) -> Iterator[Item]:
    notes = Notes()
    yield Header(raw={"framework": "easyr1"})
    for row, block in enumerate(blocks(source, settings.max_line_bytes), 1):
        item = _rollout(row, block, notes)
        yield from notes.drain()
        yield item
    yield from notes.summary()


def blocks(source: Source, limit: int) -> Iterator[bytes]:
    """The blocks, each from its [prompt] to the blank line behind its score; what is cut comes as it is."""
    block = bytearray()
    with source.open() as stream:
        while line := stream.readline(limit):
            begins = line.startswith(b"[prompt] ")
            if begins and block and _END.search(block.rstrip(b"\n") + b"\n"):
                yield bytes(block)
                block.clear()
            block += line
            if len(block) > limit:
                yield bytes(block[:limit])
                block.clear()
    if block.strip():
        yield bytes(block)


def _rollout(row: int, block: bytes, notes: Notes) -> Rollout | Problem:
    text, bad_bytes = decode(block)
    match = _BLOCK.fullmatch(text)
    if match is None:
        message = f"row {row}: the block is not whole (no output, ground truth or score); it was not taken"
        return Problem(message, "incomplete_row", "error", row)
    if bad_bytes:
        notes.warn(row, None, "invalid_utf8", f"{bad_bytes} bytes are not UTF-8 and shown as \ufffd")
    if any(text.count(word) > 1 for word in WORDS) or "\n[prompt] " in text:
        message = (
            "the text holds [prompt], [output], [ground_truth] or [score] itself: where it is cut is a guess"
        )
        notes.tally(row, None, "ambiguous_block", message, "warning")
    record = Rollout(row)
    prompts.set_prompt(record, match["prompt"], notes)
    record.response, record.ground_truth = match["output"], match["truth"]
    score = match["score"].strip()
    record.reward = None if score in ("", "None") else scalars.plain_number(row, "reward", score, notes)
    return record


ABOUT = About(
    setting="logger `file`; validation only",
    files="`{save_checkpoint_path}/generations.log`, appended",
    recorded=RECORDED,
    derived={"group_id": "identical prompts"},
    absent={
        "step": "upload the file of one validation with step=N", "split": "", "response_ids": "",
        "response_mask": "", "rollout_log_probs": "", "advantages": "", "data_source": "",
    },
)  # fmt: skip
FORMAT = Format("easyr1-generations", "EasyR1 generations.log", sniff, read, about=ABOUT)
