"""A dict of tensors, or a list of rows, that somebody saved with torch.save or pickle.

Not a framework's file: columns are read by their canonical names and the usual other ones. Types that numpy
has not (bfloat16) are widened. Objects of classes are refused by the name of the class.
"""

from collections.abc import Iterator

from app.ingest import inert_rows, named_rows, names
from app.ingest.notes import Notes
from app.ingest.pickle_looks import Look, look
from app.ingest.record import About, Format, Header, Item, Rollout, Source
from app.settings import Settings

LAYOUTS = ("columns", "rows")
#: What a container of plain data begins with.
ROOTS = ("EMPTY_DICT", "EMPTY_LIST", "DICT", "LIST")
OTHERS = frozenset(("rollout_data", "samples", "tensordict", "batch_dict"))


def sniff(source: Source, settings: Settings) -> bool:
    found = look(source)
    return found is not None and is_plain(found) and named_rows.is_rollouts(found.texts)


def is_plain(found: Look) -> bool:
    """Whether it begins as a dict or list, or as a TensorDict that was saved by itself."""
    if OTHERS & set(found.texts[:4]):
        return False
    first = found.names[0] if found.names else ""
    return found.root in ROOTS or first.startswith("tensordict.")


def read(source: Source, settings: Settings) -> Iterator[Item]:
    notes = Notes()
    with inert_rows.opened(source, settings) as rows:
        inert_rows.expect(rows, LAYOUTS)
        yield Header(raw=rows.others)
        yield from inert_rows.said(rows)
        for number, fields in rows:
            item = named_rows.rollout(number, fields, notes, padded=rows.layout == "columns")
            if isinstance(item, Rollout):
                names.fill(item, names.step(source), names.split(source))
            yield from notes.drain()
            yield item
    yield from notes.summary()


ABOUT = About(
    setting="`torch.save({name: tensor, …}, path)` of your own, [B, T] with `response_lengths` or a mask",
    files="`*.pt`, `*.pth`, `*.pkl`",
    recorded=("response_ids",),
    sometimes=named_rows.SOMETIMES,
    derived={"step": "file name", "split": "file name", "group_id": "identical prompts"},
)  # fmt: skip
FORMAT = Format("saved-tensors", "a dict of tensors (torch.save) or pickled rows", sniff, read, about=ABOUT)
