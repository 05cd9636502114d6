"""What the name of a file says, folders and archive included: step, split. Nothing else is taken from it."""

import re

from app.ingest.record import Rollout, Source

#: step_5, step5, step-5, global_step_12_evals, train_data_step1, iteration_000005, train_step_5_epoch_0
_NUMBERED = re.compile(r"(?:step|iteration|iter)[_-]?(\d{1,18})(?![0-9])", re.IGNORECASE)
#: 17.jsonl, 0005.parquet, eval_3.pt: nothing else than the number, or the number after a known word
_BARE = re.compile(r"(?:(?:eval|train|val|completions)_)?(\d{1,18})(?:\.[a-z]+)+", re.IGNORECASE)
_VALIDATION = re.compile(r"(?:^|[/_-])(?:val|valid|validation|eval|evaluation)(?=[/_.-]|$)", re.IGNORECASE)
_TRAINING = re.compile(r"(?:^|[/_-])train(?:ing)?(?=[/_.-]|$)", re.IGNORECASE)

FILE, FOLDER = "derived:file name", "derived:folder name"


def step(source: Source, bare: bool = False) -> tuple[int, str] | None:
    """(step, rule) from the name, the part nearest to the file first. `bare`: {step}.jsonl counts, too."""
    parts = source.trail.split("/")
    for place, part in enumerate(reversed(parts)):
        rule = FOLDER if place else FILE
        if found := list(_NUMBERED.finditer(part)):
            return int(found[-1][1]), rule
        if bare and not place and (whole := _BARE.fullmatch(part)):
            return int(whole[1]), rule
    return None


def split(source: Source) -> tuple[str, str] | None:
    """("train" or "val", rule) from the name, the part nearest to the file first."""
    for place, part in enumerate(reversed(source.trail.split("/"))):
        rule = FOLDER if place else FILE
        for name, pattern in (("val", _VALIDATION), ("train", _TRAINING)):
            if pattern.search(part):
                return name, rule
    return None


def folder_of(trail: str) -> str:
    """The folder that a file lies in, archive included; "" at the top."""
    return trail.rpartition("/")[0]


def fill(rollout: Rollout, step: tuple[int, str] | None, split: tuple[str, str] | None = None) -> None:
    """Step and split from the name, where the row has none, marked as derived."""
    if rollout.step is None and step is not None:
        rollout.step, rollout.derived["step"] = step
    if rollout.split is None and split is not None:
        rollout.split, rollout.derived["split"] = split
