"""The same estimators beside OpenRLHF's, torchrl's and TRL's own code: lines for estimators_beside_peers.py.

TRL has no trainer with a critic any more; what stands beside it is what its GRPO trainer does from rewards to
advantages.
"""

from functools import partial
from typing import Any

import torch
from agreement_frameworks import OpenRlhf, TorchRl, Trl
from estimator_inputs import SIZES, Row, copy_of, padded
from estimator_table import row
from timing import race

from estimators import group_statistics
from estimators.layout import layout_of
from estimators.recurrence import gae_packed

LAM = 0.95


def other_rows(sizes: list[str], rounds: int) -> list[Row]:
    return [*gae_lines(sizes, rounds), *trl_lines(rounds)]


def gae_lines(sizes: list[str], rounds: int) -> list[Row]:
    """Full batches: both loops take masked tokens as steps."""
    openrlhf, torchrl, found = OpenRlhf(), TorchRl(), []
    maker = object.__new__(openrlhf.module.RemoteExperienceMaker)
    for size in sizes:
        batch, given = padded(*SIZES[size], False)
        rewards, values = given["token_level_rewards"], given["values"]
        assert batch.token_level_rewards is not None and batch.values is not None
        out = (torch.empty(batch.tokens), torch.empty(batch.tokens))
        behind = torch.nn.functional.pad(values[:, 1:], (0, 1))
        ends = torch.zeros_like(rewards, dtype=torch.bool)
        ends[:, -1] = True
        columns = [each.unsqueeze(2) for each in (values, behind, rewards, ends)]
        contestants: dict[str, Any] = {
            "ours": partial(
                gae_packed, batch.token_level_rewards, batch.values, layout_of(batch), 1.0, LAM, out
            ),
            "OpenRLHF's loop": partial(
                maker.get_advantages_and_returns, values, rewards, given["response_mask"], 1.0, LAM
            ),
            "torchrl's loop": partial(torchrl.gae, 1.0, LAM, *columns),
            "floor": copy_of(17 * batch.tokens),
        }
        result = race(contestants, min(rounds, 5))
        for peer in ("OpenRLHF's loop", "torchrl's loop"):
            line = row("GAE, padded, full", size, result, batch.tokens, None, None, 0)
            faster = {"peer": peer, "faster": result.ratio(peer, "ours"), "floors_at_most": None}
            found.append(line | faster)
    return found


def trl_lines(rounds: int) -> list[Row]:
    """One score per rollout, normalised in groups of 8 that stand in a row."""
    trl, found = Trl(), []
    for rollouts in (1024, 8192):
        draw = torch.Generator().manual_seed(7)
        scores = torch.randn(rollouts, generator=draw)
        group, single, exact = torch.arange(rollouts) // 8, scores.view(-1, 1), scores.double()

        def ours(scores: torch.Tensor = exact, group: torch.Tensor = group) -> torch.Tensor:
            stats = group_statistics(scores, group)
            return (scores - stats.mean[group]) / (stats.std(1)[group] + 1e-4)

        settings = {"scale_rewards": "group", "multi_objective_aggregation": "sum_then_normalize"}
        result = race(
            {
                "ours": ours,
                "peer": lambda r=single, s=settings: trl.advantages("grpo", r, 8, **s),
                "floor": copy_of(16 * rollouts),
            },
            rounds,
        )
        line = row("group-normalised scores", f"{rollouts}", result, rollouts, "TRL's statements", None, 0)
        found.append(line | {"unit": "rollout", "floors": None, "floors_at_most": None})
    return found
