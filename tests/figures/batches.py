"""Batches to draw: the two built-in examples, one with every token field, and the steps of a run."""

from typing import Any

import numpy as np
from sqlalchemy import Engine

from app.findings import statistics
from storage import arrays, batches, estimates
from storage.database import read, write
from storage.models import Batch, Estimate
from tests.builders import make_batch, make_estimate

FIVE = [1.0, 0.6, 0.2, 0.0, 0.7]
RECORDED = {"reward": "recorded", "group_id": "recorded"}


def five(engine: Engine) -> Batch:
    """One group: mean 0.5, std 0.4 (ddof 1)."""
    return make_batch(engine, [FIVE], fields=RECORDED, run="five")


def two_tasks(engine: Engine) -> Batch:
    """Two groups of eight of each task: proof half right, half wrong and ten times as long where right;
    recall
    0.25 but for one 0."""
    proof, recall = [1.0] * 4 + [0.0] * 4, [0.25] * 7 + [0.0]
    lengths = ([40] * 4 + [4] * 4 + [5] * 8) * 2
    return make_batch(
        engine,
        [proof, recall] * 2,
        lengths=lengths,
        data_sources=["proof", "recall"] * 2,
        group_ids=["proof-0", "recall-0", "proof-1", "recall-1"],
        fields=RECORDED | {"response_mask": "recorded", "data_source": "recorded"},
        run="two",
    )


def with_tokens(engine: Engine, *, groups: int = 4, size: int = 4, longest: int = 30, seed: int = 3) -> Batch:
    """Every token field, gaps in half of the masks, tasks, a constant group and one unscored rollout."""
    random = np.random.default_rng(seed)
    lengths = random.integers(1, longest + 1, groups * size)
    fields: dict[str, Any] = {}
    names = (
        "token_level_rewards",
        "values",
        "old_log_probs",
        "ref_log_probs",
        "entropies",
        "advantages",
        "returns",
    )
    for name in names:
        fields[name] = [random.normal(size=length).round(3) for length in lengths]
    fields["response_mask"] = [np.ones(length, dtype=np.uint8) for length in lengths]
    for mask in fields["response_mask"][::2]:
        mask[mask.size // 3 : mask.size // 2] = 0
    rewards: list[list[float | None]] = [
        random.integers(0, 5, size).astype(float).tolist() for _ in range(groups)
    ]
    rewards[0] = [1.0] * size
    rewards[-1][0] = None
    return make_batch(
        engine,
        rewards,
        arrays=fields,
        data_sources=[f"task-{g % 2}" for g in range(groups)],
        fields=RECORDED | {name: "recorded" for name in (*fields, "data_source")},
        run="tokens",
    )


def estimate_tokens(engine: Engine, batch: Batch, scale: float = 2.0) -> Estimate:
    """A per-token estimate whose advantages are `scale` × the recorded ones, as the worker stores it."""
    with read(engine) as session:
        stored = list(arrays.iterate(session, batch.id, "advantages"))
        masks = {(g, p): slots for g, p, slots in arrays.iterate(session, batch.id, "response_mask")}
    means = []
    for group_no, part, slots in stored:
        for values, mask in zip(slots, masks[group_no, part], strict=True):
            assert values is not None and mask is not None
            own = scale * values[mask > 0].astype(float)
            means.append(own.mean() if own.size else np.nan)
    asked = {"convention": "gae/verl", "estimator": "gae", "params": {"gamma": 0.5, "lam": 0.9}}
    made = make_estimate(engine, batch.id, means, convention="gae/verl", estimator="gae", request=asked)
    with write(engine) as session:
        for group_no, part, slots in stored:
            scaled = [None if values is None else scale * values for values in slots]
            arrays.put(session, batch.id, f"advantages:{made.id}", group_no, part, scaled)
        row = session.get_one(Estimate, made.id)
        row.per_token = True
    with read(engine) as session:
        found = estimates.get(session, made.id)
        assert found is not None
        return found


def stepped(engine: Engine, rewards: list[list[list[float]]], run: str = "steps") -> list[Batch]:
    """One batch per entry, at steps 1, 2, …, with its statistics stored. Rollout `i` of step `s` has 10 s + i
    tokens, and its recorded advantage is its reward less ½."""
    made = []
    for step, groups in enumerate(rewards, start=1):
        scores = [score for group in groups for score in group]
        batch = make_batch(
            engine,
            groups,
            run=run,
            step=step,
            ready=False,
            lengths=[10 * step + i for i in range(len(scores))],
            columns={"advantage": [score - 0.5 for score in scores]},
        )
        with read(engine) as session:
            said = statistics.for_batch(session, batch.id, RECORDED)
        with write(engine) as session:
            batches.finish(session, batch.id, fields=RECORDED, statistics=said)
        with read(engine) as session:
            found = batches.get(session, batch.id)
            assert found is not None
            made.append(found)
    return made
