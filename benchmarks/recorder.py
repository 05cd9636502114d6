"""What recording costs a training: time inside `Recorder.log`, and the thread behind it, for one step.

The server is away throughout, so that nothing but the client is measured; the steps go to disk.
"""

import statistics
import tempfile
import time
from typing import Any

import numpy as np
import torch
from keeping import keep

from vantage_client import Recorder

SIZES = {"S 64×512": (64, 512), "M 1024×4096": (1024, 4096)}
FIELDS = ("old_log_probs", "rollout_log_probs", "ref_log_probs", "advantages")
ROUNDS = 7


def step(rows: int, width: int) -> dict[str, Any]:
    """A padded batch of tensors as a trainer has it, with texts."""
    generator = torch.Generator().manual_seed(0)
    lengths = torch.randint(1, width + 1, (rows,), generator=generator)
    mask = (torch.arange(width) < lengths[:, None]).long()
    made: dict[str, Any] = {name: torch.randn(rows, width, generator=generator) for name in FIELDS}
    return made | {
        "prompt": ["What is it? " * 10] * rows,
        "response": ["Because of that. " * (width // 8)] * rows,
        "group_id": [str(i // 8) for i in range(rows)],
        "reward": torch.rand(rows, generator=generator),
        "response_ids": torch.randint(0, 150_000, (rows, width), generator=generator),
        "response_mask": mask,
        "response_lengths": lengths,
    }


def measure(rows: int, width: int) -> dict[str, float]:
    """Medians: milliseconds inside `log`, seconds until the step is on disk, MiB on disk, and of a copy."""
    given = step(rows, width)
    inside, until_disk, copies = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        recorder = Recorder("http://127.0.0.1:9", "bench", spool=folder, queue_bytes=4 << 30)
        for number in range(ROUNDS):
            begun = time.perf_counter()
            [np.array(value.numpy()) for value in given.values() if isinstance(value, torch.Tensor)]
            copies.append(time.perf_counter() - begun)
            begun = time.perf_counter()
            recorder.log(number, given)
            inside.append(time.perf_counter() - begun)
            while len(list(recorder.folder.glob("*.step"))) <= number:
                time.sleep(0.001)
            until_disk.append(time.perf_counter() - begun)
        size = sum(path.stat().st_size for path in recorder.folder.glob("*.step")) / ROUNDS
        recorder.close(timeout=0)
    return {
        "log_ms": 1000 * statistics.median(inside),
        "copy_ms": 1000 * statistics.median(copies),
        "on_disk_s": statistics.median(until_disk),
        "mib": size / 2**20,
        "tokens": rows * width,
    }


def main() -> None:
    found = {name: measure(*size) for name, size in SIZES.items()}
    keep("recorder", found)
    for name, row in found.items():
        print(
            f"{name}: log {row['log_ms']:.1f} ms (a copy of the tensors {row['copy_ms']:.1f} ms), "
            f"on disk after {row['on_disk_s']:.2f} s, {row['mib']:.1f} MiB"
        )


if __name__ == "__main__":
    main()
