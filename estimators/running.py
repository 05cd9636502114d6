"""Scores standardised over all steps of the run so far, each task with a mean and spread of its own.

    A_i = (s_i − mean) / (std + ε)        over the scores of this step and of all earlier ones

Agrees with ROLL 0.3.0 (`reward_norm` running/running, convention `running/roll`). Paper: Chan, Golub and
LeVeque 1979, Updating formulae, for the merge of moments.

**Conventions**

- masked tokens in the recursion: there is none; a reward on a masked token counts in s_i
- value after the last token: no values
- groups of one: nothing is grouped
- who enters a group: nothing is grouped; scored rollouts with an unmasked token enter the moments of their
  task, in ROLL also fully masked ones, this step's before they are used
- std: of all scores so far, ddof 1; the first score of a task has 0
- ε and where: 1e-6 added to std
- whitening over what: none by default
- what `returns` means: the advantages before whitening; there is no critic
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from torch import Tensor

from estimators.batch import Batch
from estimators.centring import CentringParams, Seen, complete, divided, not_overflown, see
from estimators.estimator import Estimator, Raw, State
from estimators.moments import Moments, values_by_scope
from estimators.parameters import About
from estimators.refused import Refused


@dataclass(frozen=True, slots=True)
class RunningParams(CentringParams):
    epsilon: Annotated[float, About("ε added to the standard deviation", minimum=0)] = 1e-6
    ddof: Annotated[int, About("1 divides the squared deviations by n − 1, 0 by n", minimum=0, maximum=1)] = 1
    domains: Annotated[
        Literal["each", "together", "refuse"],
        About(
            "tasks (data_source): each has moments of its own, all share them, or a batch that names tasks "
            "is refused, as ROLL looks its moments up under the name 'domain' whatever the task is called"
        ),
    ] = "each"


def task_numbers(batch: Batch, apart: bool) -> tuple[Tensor, list[str]]:
    """The number of each rollout's task, `[B]`, and the name of each number; all one where not `apart`."""
    if not apart or batch.data_source is None:
        return torch.zeros_like(batch.group), [""]
    count = int(batch.data_source.max()) + 1 if batch.rollouts else 0
    return batch.data_source, list(batch.tasks) or [str(number) for number in range(count)]


def run(batch: Batch, params: RunningParams, dtype: torch.dtype, state: State | None = None) -> Raw:
    """One advantage per rollout. `state`: the moments of each task over the earlier steps."""
    seen = see(batch, params, dtype)
    tasks, names = _tasks(batch, params)
    after = _merged(seen, tasks, names, state or {})
    numbers = [after.get(name, Moments()) for name in names]
    mean = seen.scores.new_tensor([one.mean for one in numbers])[tasks]
    std = seen.scores.new_tensor([one.variance(params.ddof) ** 0.5 for one in numbers])[tasks]
    not_overflown(std, None)
    return complete(seen, divided(seen.scores - mean, std + params.epsilon), batch, params)


def carry(batch: Batch, params: RunningParams, state: State) -> State:
    """The moments of each task with this step's scores among them."""
    seen = see(batch, params, torch.float64)
    tasks, names = _tasks(batch, params)
    merged = _merged(seen, tasks, names, state)
    return {**state, **{name: (one.count, one.mean, one.m2) for name, one in merged.items()}}


def _tasks(batch: Batch, params: RunningParams) -> tuple[Tensor, list[str]]:
    if params.domains == "refuse" and batch.data_source is not None:
        named = [name for name in task_numbers(batch, True)[1] if name not in ("", "domain")]
        if named:
            raise Refused(
                "This convention fails for named tasks: ROLL looks its running moments up under the key "
                f"'domain', and this batch has {', '.join(named[:3])}. Give domains: each for moments of "
                "their own, or together for common ones."
            )
    return task_numbers(batch, params.domains != "together")


def _merged(seen: Seen, tasks: Tensor, names: list[str], state: State) -> Mapping[str, Moments]:
    """The moments of every task that this batch has scores of, earlier steps included."""
    taken = seen.counted
    found = values_by_scope(seen.scores[taken].double(), tasks[taken], len(names))
    parts = zip(names, *(part.tolist() for part in found), strict=True)
    now = {name: Moments(count, mean, m2) for name, count, mean, m2 in parts if count}
    return {name: Moments(*state[name]).merge(one) if name in state else one for name, one in now.items()}


ESTIMATOR = Estimator(
    name="running",
    sentence="Scores each response by how many standard deviations it lies above all scores so far.",
    formula="A_i = (s_i − mean_{run so far}) / (std_{run so far} + ε)",
    paper="https://arxiv.org/abs/2501.03262",
    needs=("reward",),
    params=RunningParams,
    run=run,
    carry=carry,
)
