"""Where a response ends and padding begins: by the ids of the file's header and the usual token texts."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from app.findings.part import Part
from app.findings.view import Bools, Ints

#: Texts that are padding and nothing else.
PADS = (
    "<pad>", "[PAD]", "<PAD>", "<|pad|>", "<|padding|>", "<|pad_token|>", "<|PAD_TOKEN|>", "<｜▁pad▁｜>",
    "<|finetune_right_pad_id|>", "<|reserved_special_token_0|>", "<|vision_pad|>",
)  # fmt: skip
#: Texts that end a response; behind the first of them, more of them are padding.
ENDS = (
    "</s>", "<eos>", "[EOS]", "<|eos|>", "<|endoftext|>", "<|im_end|>", "<|eot_id|>", "<|eom_id|>",
    "<|end_of_text|>", "<end_of_turn>", "<|end|>", "<|return|>", "<|endofturn|>", "<｜end▁of▁sentence｜>",
    "<|user|>", "<|observation|>", "<EOS>", "<|END_OF_TURN_TOKEN|>", "[/S]",
)  # fmt: skip


def pads(part: Part, header: Mapping[str, Any]) -> Bools:
    """`[N]` the token is padding and can be nothing else."""

    def find() -> Bools:
        named = _ids(header.get("pad_token_id")) - _ids(header.get("eos_token_id"))
        return _is(part, named) | part.is_text(PADS)

    return part.once("pads", find)


def ends(part: Part, header: Mapping[str, Any]) -> Bools:
    """`[N]` the token ends a response (or a turn of it), or is padding that looks the same."""
    return part.once("ends", lambda: _is(part, _ids(header.get("eos_token_id"))) | part.is_text(ENDS))


def content(part: Part, header: Mapping[str, Any]) -> Ints:
    """`[R]` how many tokens of the rollout come before its padding, the end token included.

    What follows the last token that is neither is padding, but for one end token right behind it.
    """
    special = pads(part, header) | ends(part, header)
    last = part.last(~special)
    own = np.where(last >= 0, last - part.starts + 1, 0)
    following = np.where(last >= 0, last + 1, part.starts)
    more = own < part.lengths
    closed = np.zeros(part.rollouts, dtype=bool)
    closed[more] = ends(part, header)[following[more]]
    found: Ints = own + (more & closed)
    return found


def padding(part: Part, header: Mapping[str, Any]) -> Bools:
    """`[N]` padding behind the response; padding tokens in front of it or inside are included."""

    def find() -> Bools:
        behind: Bools = part.position >= part.spread(content(part, header))
        return behind | pads(part, header)

    return part.once("padding", find)


def _is(part: Part, wanted: frozenset[int]) -> Bools:
    ids = part.get("response_ids")
    if ids is None or not wanted:
        return np.zeros(part.tokens, dtype=bool)
    found = np.zeros(part.tokens, dtype=bool)
    for number in wanted:
        found |= ids == number
    return found & part.has_token("response_ids")


def _ids(value: Any) -> frozenset[int]:
    """Ids that a header names: a number, a list of them, or the number as text."""
    values = value if isinstance(value, list | tuple) else [value]
    return frozenset(
        int(each)
        for each in values
        if not isinstance(each, bool)
        and (isinstance(each, int) or (isinstance(each, str) and each.isdigit()))
    )
