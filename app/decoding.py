"""Token texts from token ids, with an uploaded tokenizer: checked against the response, row by row.

Where the decoded text is not the response's, the row stays as it was recorded and is listed. Where nothing
can be compared (ids without text), the decoded text is taken and marked as not checked.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from app.ingest.notes import Notes
from app.ingest.record import Item, Problem, Rollout
from app.vocabulary import Vocabulary

#: So many rows that do not match, and none that does: another tokenizer made the ids.
GIVE_UP = 16
SHOWN = 48
#: What older decoders tidied up.
_TIDIED = (
    (" .", "."), (" ?", "?"), (" !", "!"), (" ,", ","), (" ' ", "'"), (" n't", "n't"), (" 'm", "'m"),
    (" 's", "'s"), (" 've", "'ve"), (" 're", "'re"),
)  # fmt: skip


@dataclass(slots=True)
class Decoder:
    """`name` is the tokenizer's; `remembered`: the run, not the upload, asked for it."""

    name: str
    vocabulary: Vocabulary
    remembered: bool = False
    decoded: int = 0
    differ: int = 0
    notes: Notes = field(default_factory=Notes)

    @property
    def rule(self) -> str:
        return f"derived:tokenizer:{self.name}"

    def over(self, items: Iterator[Item]) -> Iterator[Item]:
        """The items, rollouts with the texts of their tokens; at the end what there is to say about it."""
        for item in items:
            if isinstance(item, Rollout):
                self.apply(item)
            yield item
        yield from self.notes.summary()
        yield from self._end()

    def apply(self, rollout: Rollout) -> None:
        """Add `response_tokens` (and texts that only ids are recorded of), where they can be trusted."""
        ids = rollout.tokens.get("response_ids")
        if ids is None or rollout.response_tokens is not None or self.given_up:
            return
        numbers = ids.tolist()
        texts = self._texts(rollout.row, numbers)
        if texts is None or not self._matches(rollout, "".join(texts)):
            return
        self.decoded += 1
        rollout.response_tokens = texts
        rollout.derived["response_tokens"] = self.rule
        if rollout.response is None:
            rollout.response = "".join(texts)
            rollout.derived["response"] = self.rule
        self._prompt(rollout)

    @property
    def given_up(self) -> bool:
        return self.differ >= GIVE_UP and not self.decoded

    def _texts(self, row: int, ids: list[int]) -> list[str] | None:
        unknown = self.vocabulary.unknown(ids)
        if unknown is not None and unknown < 0:
            message = "negative ids are no tokens, so these rows are not decoded"
            self.notes.tally(row, "response_tokens", "not_decoded", message, "warning")
            return None
        if unknown is not None:
            self.differ += 1
            message = (
                f"the tokenizer {self.name} does not match: it has no token {unknown}; "
                "these rows stay as recorded"
            )
            self.notes.tally(row, "response_tokens", "tokenizer_mismatch", message, "warning")
            return None
        texts = self.vocabulary.texts(ids)
        if texts is None:
            message = (
                f"the tokenizer {self.name} cannot be followed token by token; these rows stay as recorded"
            )
            self.notes.tally(row, "response_tokens", "not_decoded", message, "warning")
        return texts

    def _matches(self, rollout: Rollout, decoded: str) -> bool:
        if rollout.response is None:
            message = "no response is recorded, so the decoded text could not be checked"
            self.notes.tally(rollout.row, "response_tokens", "decoded_unchecked", message)
            return True
        if self._same(decoded, rollout.response) or self._spoken(rollout, decoded):
            return True
        self.differ += 1
        message = (
            f"the tokenizer {self.name} does not match: the ids decode to {_begin(decoded)}, the response "
            f"begins {_begin(rollout.response)}; these rows stay as recorded"
        )
        self.notes.tally(rollout.row, "response_tokens", "tokenizer_mismatch", message, "warning")
        return False

    def _same(self, decoded: str, response: str) -> bool:
        """Equal up to special tokens, outer white space and what older decoders tidied up."""
        first, second = self.vocabulary.bare(decoded), self.vocabulary.bare(response)
        return first == second or _tidied(first) == _tidied(second)

    def _spoken(self, rollout: Rollout, decoded: str) -> bool:
        """Of a response that was put together from messages: whether all that the model said is in it."""
        if rollout.derived.get("response") != "derived:messages":
            return False
        said = [
            message["content"].strip()
            for message in rollout.messages or ()
            if isinstance(message, dict) and message.get("role") == "assistant"
            and isinstance(message.get("content"), str) and message["content"].strip()
        ]  # fmt: skip
        return bool(said) and all(text in decoded for text in said)

    def _prompt(self, rollout: Rollout) -> None:
        if rollout.prompt is not None or rollout.prompt_ids is None:
            return
        ids = rollout.prompt_ids.tolist()
        texts = None if self.vocabulary.unknown(ids) is not None else self.vocabulary.texts(ids)
        if texts is not None:
            rollout.prompt = "".join(texts)
            rollout.derived["prompt"] = self.rule

    def _end(self) -> Iterator[Problem]:
        name = f"the tokenizer {self.name}"
        if self.given_up:
            message = (
                f"nothing was decoded: {name} matched none of the first {GIVE_UP} rows. Upload the "
                "tokenizer.json of the model that was trained, and the file again with tokenizer=<its name>."
            )
            yield Problem(message, "wrong_tokenizer", "warning", None, "response_tokens")
        elif self.decoded:
            how = ", which the run remembers" if self.remembered else ""
            rows = f"{self.decoded:,} row{'s' if self.decoded > 1 else ''}"
            yield Problem(
                f"token texts of {rows} decoded with {name}{how}",
                "tokens_decoded", "info", None, "response_tokens",
            )  # fmt: skip
        elif not self.differ and not self.remembered:
            message = f"{name} had nothing to decode: no row has response_ids without token texts"
            yield Problem(message, "nothing_to_decode", "info", None, "response_tokens")


def _tidied(text: str) -> str:
    for spaced, close in _TIDIED:
        text = text.replace(spaced, close)
    return text


def _begin(text: str) -> str:
    shown = text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
    return repr(shown)
