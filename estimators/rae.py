"""Role-conditioned advantage: each score against a running mean of its environment's scores so far.

    A_i = s_i − b        then b ← decay·b + (1 − decay)·s_i        in the order of the file

Paper: Liu et al. 2025 (SPIRAL), arXiv:2506.24119. Agrees with prime-rl 0.8.0 (`rae`, convention
`rae/prime-rl`).

**Conventions**

- masked tokens in the recursion: there is none; a reward on a masked token counts in s_i
- value after the last token: no values
- groups of one: nothing is grouped
- who enters a group: nothing is grouped; scored rollouts with an unmasked token move the baseline of their
  task (`data_source`: in prime-rl the environment, or the agent in it where there are several), in prime-rl
  also fully masked ones, after they were scored; segments of one rollout once
- std: none
- ε and where: none
- whitening over what: none by default
- what `returns` means: the advantages before whitening; there is no critic
"""

from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor

from estimators.batch import Batch
from estimators.centring import CentringParams, Seen, complete, see
from estimators.estimator import Estimator, Raw, State
from estimators.membership import places
from estimators.parameters import About
from estimators.running import task_numbers


@dataclass(frozen=True, slots=True)
class RaeParams(CentringParams):
    decay: Annotated[float, About("what is kept of the baseline with each score", minimum=0, maximum=1)] = (
        0.95
    )


def run(batch: Batch, params: RaeParams, dtype: torch.dtype, state: State | None = None) -> Raw:
    """One advantage per rollout. `state`: the baseline of each task after the earlier steps."""
    seen = see(batch, params, dtype)
    baselines, _ = _walk(seen, batch, params, state or {})
    return complete(seen, seen.scores - baselines.to(dtype), batch, params)


def carry(batch: Batch, params: RaeParams, state: State) -> State:
    """The baseline of each task after this step."""
    return _walk(see(batch, params, torch.float64), batch, params, state)[1]


def _walk(seen: Seen, batch: Batch, params: RaeParams, state: State) -> tuple[Tensor, State]:
    """The baseline that each rollout meets, `[B]` float64, and those after the last. One pass over plain
    numbers: every baseline depends on the one before."""
    tasks, names = task_numbers(batch, apart=True)
    order = torch.argsort(places(batch))
    numbers, scores, counted = tasks.tolist(), seen.scores.double().tolist(), seen.counted.tolist()
    now = [state[name][0] if name in state else 0.0 for name in names]
    met, keep = [0.0] * batch.rollouts, params.decay
    for i in order.tolist():
        baseline = met[i] = now[numbers[i]]
        if counted[i]:
            now[numbers[i]] = keep * baseline + (1.0 - keep) * scores[i]
    found = torch.tensor(met, dtype=torch.float64, device=batch.scores.device)
    return found, {**state, **{name: (value,) for name, value in zip(names, now, strict=True)}}


ESTIMATOR = Estimator(
    name="rae",
    sentence="Scores each response by how far it lies above the running mean of its environment's scores.",
    formula="A_i = s_i − b,  b ← decay·b + (1 − decay)·s_i",
    paper="https://arxiv.org/abs/2506.24119",
    needs=("reward",),
    params=RaeParams,
    run=run,
    carry=carry,
)
