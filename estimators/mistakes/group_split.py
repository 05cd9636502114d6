"""Groups cut apart by ranks or micro-batches, each part compared within itself."""

from collections.abc import Iterator

from torch import Tensor

from estimators.batch import Batch
from estimators.mistakes.mistake import Input, Mistake, dense, in_file_order, regrouped, same_partition
from estimators.reconciliation import Hints

_PARTS = (2, 4, 8, 16)


def parts(batch: Batch) -> Iterator[tuple[str, str, Tensor]]:
    """(detail, text, number of the part of each rollout `[B]`): recorded ranks and micro-batches, else the
    batch cut into equal parts, or dealt out, in the order of the file."""
    if batch.rank is not None:
        yield "", "rank", batch.rank
    if batch.micro_batch is not None:
        yield ":micro_batch", "micro-batch", batch.micro_batch
        if batch.rank is not None:
            both = batch.rank * (batch.micro_batch.max() + 1) + batch.micro_batch
            yield ":rank_and_micro_batch", "micro-batch of each rank", both
    if batch.rank is not None or batch.micro_batch is not None:
        return
    place = in_file_order(batch)
    for count in _PARTS:
        if count < batch.rollouts:
            size = -(-batch.rollouts // count)
            yield f":{count}", f"one of {count} equal parts in the order of the file", place // size
            yield f":{count}_dealt", f"one of {count} parts dealt out row by row", place % count


def variants(batch: Batch, hints: Hints) -> Iterator[Input]:
    for detail, text, part in parts(batch):
        split = dense(batch.group * (part.max() + 1) + part)
        if not same_partition(split, batch.group):
            yield regrouped(
                f"group_split{detail}", f"each group was normalised inside every {text} alone", split
            )


MISTAKE = Mistake(
    "group_split",
    "Groups lie on several ranks or micro-batches, and each part is compared within itself.",
    variants,
)
