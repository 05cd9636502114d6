"""How times are taken: CPU time of one thread, the contestants in turn, the median of the rounds' ratios."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

Work = Callable[[], object]
#: A contestant is repeated within a round until it has taken about this long.
LEAST = 0.02


@dataclass(frozen=True)
class Race:
    """Seconds per call of each contestant in each round."""

    seconds: dict[str, list[float]]

    def median(self, name: str) -> float:
        return statistics.median(self.seconds[name])

    def ratio(self, slow: str, fast: str) -> float:
        """How many times as long `slow` took: the median over rounds."""
        pairs = zip(self.seconds[slow], self.seconds[fast], strict=True)
        return statistics.median(a / b for a, b in pairs)


def race(contestants: dict[str, Work], rounds: int = 7) -> Race:
    """Each contestant once to warm up, then `rounds` rounds in which all run one after the other."""
    repeats = {}
    for name, work in contestants.items():
        took = _seconds(work, 1)
        if took < 1:  # Else once more is not worth knowing.
            took = _seconds(work, 1)
        repeats[name] = max(1, round(LEAST / max(took, 1e-7)))
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, work in contestants.items():
            seconds[name].append(_seconds(work, repeats[name]))
    return Race(seconds)


def _seconds(work: Work, repeats: int) -> float:
    start = time.thread_time()
    for _ in range(repeats):
        work()
    return (time.thread_time() - start) / repeats
