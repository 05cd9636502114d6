"""The packed estimators give what slow loops give."""

import math

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import Tensor

from estimators import CONVENTIONS, Batch, Refused, Request, estimate
from tests.estimators.build import batch_of, flat
from tests.estimators.strategies import Rows, law, rows
from tests.oracles import estimators as oracle

UNIT = st.sampled_from([0.0, 0.3, 0.95, 1.0])


def close(mine: Tensor, wanted: list[float] | Tensor, tolerance: float = 1e-9) -> None:
    expected = torch.as_tensor(wanted, dtype=torch.float64)
    torch.testing.assert_close(mine.double(), expected, rtol=tolerance, atol=tolerance, equal_nan=True)


@law
@given(rows(), UNIT, UNIT, st.sampled_from(["skip", "zero", "plain"]))
def test_gae(case: Rows, gamma: float, lam: float, masked_tokens: str) -> None:
    params = {"gamma": gamma, "lam": lam, "masked_tokens": masked_tokens}
    body = {"estimator": "gae", "params": params, "whitening": {"zero_masked": False}}
    result = estimate(case.batch(), Request.from_dict(body))
    wanted = [
        oracle.gae(_rewards(case, i), case.values[i], case.mask[i], gamma, lam, masked_tokens)
        for i in range(len(case.mask))
    ]
    close(result.advantages, flat([row[0] for row in wanted]))
    assert result.returns is not None
    close(result.returns, flat([row[1] for row in wanted]))


def _rewards(case: Rows, i: int) -> list[float]:
    """A rollout whose token rewards are all NaN has none: its score lies on its last unmasked token."""
    row = case.rewards[i]
    if not row or not all(math.isnan(x) for x in row):
        return row
    last = max((t for t, m in enumerate(case.mask[i]) if m), default=None)
    return [case.scores[i] if t == last else 0.0 for t in range(len(row))]


@law
@given(rows(), UNIT)
def test_td_error_is_gae_at_lambda_zero(case: Rows, gamma: float) -> None:
    one_step = estimate(
        case.batch(), Request.from_dict({"estimator": "td_error", "params": {"gamma": gamma}})
    )
    weighted = estimate(
        case.batch(), Request.from_dict({"estimator": "gae", "params": {"gamma": gamma, "lam": 0}})
    )
    close(one_step.advantages, weighted.advantages, 0)


@law
@given(rows(), st.sampled_from(["group", "batch", "none"]), st.sampled_from(["zero", "raw"]), st.booleans())
def test_grpo(case: Rows, over: str, singleton: str, vote: bool) -> None:
    params = {
        "scale_rewards": over,
        "singleton": singleton,
        "epsilon": 1e-4,
        "fully_masked": "vote" if vote else "exclude",
    }
    result = estimate(case.scored(), Request.from_dict({"estimator": "grpo", "params": params}))
    votes = [vote or any(mask) for mask in case.mask]
    wanted = oracle.group_relative(
        case.scores, case.groups, votes, over=over, epsilon=1e-4, singleton=singleton
    )
    close(result.advantages, wanted)


@law
@given(
    rows(), st.sampled_from(["grpo/verl", "grpo/trl-group", "grpo/trl-batch", "dr_grpo/verl", "dr_grpo/trl"])
)
def test_group_conventions(case: Rows, name: str) -> None:
    """Without infinite scores, which spoil their group: `test_arithmetic` has those."""
    assume(not any(math.isinf(score) for score in case.scores))
    result = estimate(case.scored(), Request.from_dict({"convention": name}))
    over = "none" if name.startswith("dr_grpo") else "batch" if name.endswith("batch") else "group"
    verl = name.endswith("verl")
    wanted = oracle.group_relative(
        case.scores,
        case.groups,
        [True] * len(case.scores),
        over=over,
        epsilon=1e-6 if verl else 1e-4,
        singleton="raw" if verl else "zero",
    )
    close(result.advantages, wanted if verl else [0.0 if math.isnan(x) else x for x in wanted])


@law
@given(
    rows(least=1),
    st.sampled_from(["group", "batch"]),
    st.sampled_from(["token", "response"]),
    st.sampled_from(["added", "under_root", "floor"]),
    st.integers(0, 1),
    st.booleans(),
    st.booleans(),
)
def test_whitening(
    case: Rows, scope: str, unit: str, placement: str, ddof: int, shift_mean: bool, scale: bool
) -> None:
    setting = {
        "unit": unit,
        "eps_placement": placement,
        "ddof": ddof,
        "shift_mean": shift_mean,
        "scale": scale,
    }
    whitening = {"scope": scope, "eps": 1e-3, "zero_masked": False, **setting}
    body = {"estimator": "gae", "params": {"masked_tokens": "plain"}, "whitening": whitening}
    try:
        result = estimate(case.batch(), Request.from_dict(body))
    except Refused:
        assert scope == "batch"
        return
    raw = _rows_of(result.advantages_raw, case.batch())
    scopes = case.groups if scope == "group" else ["all"] * len(raw)
    wanted = oracle.whiten(
        raw,
        case.mask,
        scopes,
        unit=unit,
        ddof=ddof,
        eps=1e-3,
        eps_placement=placement,
        shift_mean=shift_mean,
        scale=scale,
    )
    close(result.advantages, flat(wanted), 1e-8)


def _rows_of(values: Tensor, batch: Batch) -> list[list[float]]:
    return [part.tolist() for part in torch.split(values, batch.lengths.tolist())]


COMPONENTS = st.one_of(st.none(), st.integers(-8, 8).map(lambda x: x / 4))


@law
@given(
    st.lists(st.tuples(st.sampled_from("abc"), COMPONENTS, COMPONENTS), max_size=9),
    st.sampled_from(["grpo/trl-group", "grpo/trl-batch", "dr_grpo/trl"]),
)
def test_components_that_do_not_apply(
    given_rows: list[tuple[str, float | None, float | None]], name: str
) -> None:
    groups = [row[0] for row in given_rows]
    columns = {"accuracy": [row[1] for row in given_rows], "format": [row[2] for row in given_rows]}
    batch = batch_of([[1.0]] * len(groups), groups, components=columns)
    result = estimate(
        batch, Request.from_dict({"convention": name, "params": {"reward_weights": [1.0, 0.5]}})
    )
    scores = [oracle.trl_score(row[1:], [1.0, 0.5]) for row in given_rows]
    over = "none" if name.startswith("dr") else name.rpartition("-")[2]
    wanted = oracle.group_relative(scores, groups, [True] * len(scores), over=over, epsilon=1e-4)
    close(result.advantages, [0.0 if math.isnan(x) else x for x in wanted])


@pytest.mark.parametrize("lam", [0.95, 1.0])
@pytest.mark.parametrize("lengths", [[20_000], [150_000, 40, 0, 9_000, 150_001], [64] * 300, [1] * 3000])
def test_long_rows_and_many_tiles(lengths: list[int], lam: float) -> None:
    """More chunk totals than one matrix product takes, rollouts beyond half a tile, and many small ones."""
    generator = torch.Generator().manual_seed(7)
    total = sum(lengths)
    rewards, values = torch.randn(2, total, generator=generator, dtype=torch.float64)
    mask = torch.rand(total, generator=generator) < (1.1 if len(set(lengths)) == 1 else 0.7)
    offsets = torch.tensor([0, *lengths]).cumsum(0)
    batch = Batch(
        offsets,
        mask,
        torch.zeros(len(lengths), dtype=torch.int64),
        torch.zeros(len(lengths), dtype=torch.float64),
        token_level_rewards=rewards,
        values=values,
    )
    body = {"estimator": "gae", "params": {"lam": lam}, "whitening": {"zero_masked": False}}
    result = estimate(batch, Request.from_dict(body))
    split = [part.split(lengths) for part in (rewards, values, mask)]
    wanted: list[float] = []
    for r, v, m in zip(*split, strict=True):
        wanted += oracle.gae(r.tolist(), v.tolist(), m.tolist(), 1.0, lam, "skip")[0]
    close(result.advantages, wanted)


def test_every_convention_is_named_after_its_estimator() -> None:
    other = {
        "grpo_vectorized": "grpo",
        "rloo_vectorized": "rloo",
        "reinforce_plus_plus/nemo": "reinforce_plus_plus_baseline",
    }
    for name, convention in CONVENTIONS.items():
        family = name.partition("/")[0]
        assert other.get(name, other.get(family, family)) == convention.estimator
