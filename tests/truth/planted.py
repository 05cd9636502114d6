"""Batches whose recorded advantages were made with one mistake, or with two, by seed."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from estimators import CONVENTIONS, Batch, Refused, Request
from estimators.estimate import missing
from estimators.mistakes import MISTAKES
from estimators.mistakes.mistake import Input, Setup, Whiten
from estimators.reconcile import Hints
from estimators.registry import ESTIMATORS
from estimators.shape import Shape
from estimators.whitening import Affine

#: Conventions that mistakes are made on: each family, with a whitening and without.
ON = (
    "grpo/verl", "grpo/trl-group", "rloo/verl", "dr_grpo/trl", "grpo/rllm", "gdpo/trl", "opo/verl",
    "gae/verl", "gae/openrlhf", "reinforce_plus_plus/verl", "reinforce_plus_plus_baseline/verl", "remax/verl",
)  # fmt: skip
#: Mistakes that are a constant of somebody's choice, made on the finished numbers or as a setting.
CONSTANTS = ("sign_flipped", "scaled", "offset")
SETTING = "wrong_eps"
NAMES = tuple(MISTAKES)
PAIRS = tuple((one, other) for place, one in enumerate(NAMES) for other in NAMES[place + 1 :])


@dataclass(frozen=True, slots=True)
class Planted:
    """A batch, the advantages that were made wrong on it, and what is known of the run.

    right    what the convention gives without a mistake
    labels   what was done wrong; the last parts are the constants
    """

    batch: Batch
    convention: str
    advantages: Tensor
    right: Tensor
    labels: tuple[str, ...]
    hints: Hints


def batch_of(seed: int) -> Batch:
    """Few rollouts or some, rewards of all kinds, masks inside and at the end, ranks, padding, segments."""
    draw = torch.Generator().manual_seed(seed)

    def pick(*choices: Any) -> Any:
        return choices[int(torch.randint(len(choices), (1,), generator=draw))]

    groups, size, width = pick(2, 3, 5, 8), pick(2, 3, 4, 8), pick(3, 8, 16)
    count = groups * size
    side_by_side = torch.arange(count) // size
    group = pick(
        side_by_side, torch.arange(count) % groups, side_by_side[torch.randperm(count, generator=draw)]
    )
    lengths = torch.randint(max(width // 2, 2), width + 1, (count,), generator=draw)
    offsets = torch.nn.functional.pad(torch.cumsum(lengths, 0), (1, 0))
    tokens = int(offsets[-1])
    scores = pick(
        torch.randn(count, generator=draw, dtype=torch.float64),
        torch.randint(0, 2, (count,), generator=draw).double(),
        torch.randint(0, 6, (count,), generator=draw).double() / 5,
        torch.rand(count, generator=draw, dtype=torch.float64) * 100,
    )
    mask = torch.rand(tokens, generator=draw) < pick(1.0, 0.8, 0.6)
    mask[offsets[:-1]] = True
    if pick(True, False):
        mask[offsets[1:] - 1] = torch.rand(count, generator=draw) < 0.5
    rewards = torch.zeros(tokens, dtype=torch.float64)
    rewards[offsets[1:] - 1] = scores
    old, ref = (-torch.rand(tokens, generator=draw, dtype=torch.float64) for _ in range(2))
    after = rewards - 0.05 * (old - ref) * mask
    kl = pick(True, False, False)
    return Batch(
        offsets=offsets,
        response_mask=mask,
        group=torch.unique(group, return_inverse=True)[1],
        scores=scores,
        token_level_rewards=after if kl else rewards,
        token_level_scores=rewards if kl else None,
        values=torch.randn(tokens, generator=draw, dtype=torch.float64) * 0.5,
        old_log_probs=old,
        ref_log_probs=ref,
        reward_baseline=torch.randn(count, generator=draw, dtype=torch.float64),
        components={"right": scores * 0.75, "style": torch.rand(count, generator=draw, dtype=torch.float64)},
        index=torch.arange(count),
        rank=torch.arange(count) % 2 if pick(True, False) else None,
        rollout_id=torch.arange(count) // 2 if pick(True, False, False) else None,
    )


def planted(seed: int, names: Sequence[str]) -> Planted | None:
    """The mistakes of these names made one after the other on a convention; None where one does not apply, or
    changes nothing."""
    draw = torch.Generator().manual_seed(seed + 7919)
    batch, convention = batch_of(seed), CONVENTIONS[ON[seed % len(ON)]]
    params = {"gamma": 0.97, "lam": 0.9} if hasattr(convention.params, "lam") else {}
    request = Request.from_dict({"convention": convention.name, "params": params})
    prompt = batch.group // 2
    hints = Hints(prompt=prompt)
    if seed % 2:
        hints = Hints(params, convention.name, convention.framework, prompt=prompt)
    if missing(batch, request):
        return None
    made = _made(batch, request, [(name, hints) for name in names], draw)
    right = _made(batch, request, [], draw)
    if made is None or right is None or not bool(torch.isfinite(made[0]).all()):
        return None
    seen = batch.response_mask
    if torch.allclose(made[0][seen], right[0][seen], 1e-3, 1e-4):
        return None
    advantages = made[0].float() if seed % 3 else made[0]
    return Planted(batch, convention.name, advantages, right[0], made[1], hints)


def _made(
    batch: Batch, request: Request, wrong: Sequence[tuple[str, Hints]], draw: torch.Generator
) -> tuple[Tensor, tuple[str, ...]] | None:
    """(advantages per token, labels of the mistakes), inputs first, then the whitening, then constants."""
    setup, labels = Setup(batch, request.estimator, request.params), []
    whiten: Whiten | None = None
    constants = []
    for name, hints in wrong:
        variants = list(_variants(name, batch, hints, draw))
        if name in CONSTANTS:
            constants.append(name)
            continue
        if not variants:
            return None
        chosen = variants[int(torch.randint(len(variants), (1,), generator=draw))]
        if isinstance(chosen, Whiten):
            if whiten is not None:
                return None
            whiten = chosen
        else:
            altered = chosen.alter(setup)
            if altered is None:
                return None
            setup = altered
        labels.append(chosen.label)
    try:
        raw = (setup.run or ESTIMATORS[setup.estimator].run)(setup.batch, setup.params, torch.float64)
    except Refused:
        return None
    shape = Shape(replace(batch, group=setup.batch.group, response_mask=setup.batch.response_mask), raw)
    affine = shape.whitened(request.whitening) if whiten is None else whiten.affine(shape, request.whitening)
    if affine is None:
        return None
    done = _on_tokens(raw.advantages, affine, batch, raw.per_token)
    for name in constants:
        done, label = _rescaled(name, done, draw)
        labels.append(label)
    return done, tuple(labels)


def _variants(name: str, batch: Batch, hints: Hints, draw: torch.Generator) -> Iterator[Input | Whiten]:
    if name == SETTING:
        from estimators.mistakes.mistake import with_params

        eps = 10.0 ** -float(torch.rand(1, generator=draw) * 2 + 1)
        yield with_params(f"wrong_eps:{eps:g}", "", epsilon=eps)
        return
    for each in MISTAKES[name].variants(batch, hints):
        if isinstance(each, Input | Whiten):
            yield each


def _rescaled(name: str, values: Tensor, draw: torch.Generator) -> tuple[Tensor, str]:
    number = 0.1 + float(torch.rand(1, generator=draw)) * 1.7
    if name == "sign_flipped":
        return -values, name
    return (values * number, name) if name == "scaled" else (values + number, name)


def _on_tokens(raw: Tensor, affine: Affine, batch: Batch, per_token: bool) -> Tensor:
    lengths = batch.lengths
    parts = (
        part if part.shape[0] == 1 else part.repeat_interleave(lengths)
        for part in (affine.centre, affine.factor, affine.back)
    )
    centre, factor, back = parts
    return ((raw if per_token else raw.repeat_interleave(lengths)).double() - centre) * factor + back
