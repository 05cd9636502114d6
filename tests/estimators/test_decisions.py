"""Where frameworks disagree or fail: what is decided here, with numbers worked out by hand."""

import math

import pytest
import torch

from estimators import Refused, Request, Result, estimate, factorize, missing, usable
from tests.estimators.build import batch_of

NAN = math.nan


def ask(body: dict[str, object], batch: object) -> Result:
    return estimate(batch, Request.from_dict(body))  # type: ignore[arg-type] # bodies as JSON has them


def near(mine: torch.Tensor, wanted: list[float]) -> None:
    expected = torch.tensor(wanted, dtype=torch.float64)
    torch.testing.assert_close(mine, expected, rtol=0, atol=1e-8, equal_nan=True)


def test_tool_output_between_two_turns_costs_no_discount_and_does_not_leak() -> None:
    batch = batch_of(
        [[1, 1, 0, 0, 0, 1, 1]],
        token_level_rewards=[[0, 0, 0, 0, 0, 0, 1]],
        values=[[0.5, 0.6, 9, -9, 3, 0.7, 0.8]],
    )
    body: dict[str, object] = {"estimator": "gae", "params": {"gamma": 1.0, "lam": 0.9}}
    result = ask(body, batch)
    near(result.advantages, [0.4168, 0.352, 0, 0, 0, 0.28, 0.2])
    assert result.returns is not None
    near(result.returns[batch.response_mask], [0.9168, 0.952, 0.98, 1.0])
    sample = ask({**body, "whitening": {"scope": "batch"}}, batch)
    near(sample.advantages, [1.1203375927, 0.4262852408, 0, 0, 0, -0.344884039, -1.2017387944])
    population = ask({**body, "whitening": {"scope": "batch", "ddof": 0}}, batch)
    near(population.advantages, [1.2936541741, 0.4922317029, 0, 0, 0, -0.3982377094, -1.3876481676])
    ignoring = ask({**body, "params": {"gamma": 1.0, "lam": 0.9, "masked_tokens": "plain"}}, batch)
    near(ignoring.advantages_raw, [0.4843072, 0.427008, -8.85888, 10.1568, -2.048, 0.28, 0.2])


@pytest.mark.parametrize("padding", [[7.0, 7.0], [0, 0], [-100, 100], [NAN, math.inf]])
def test_critic_values_on_padding_are_not_the_next_value(padding: list[float]) -> None:
    batch = batch_of(
        [[1, 1, 1, 0, 0]], token_level_rewards=[[0, 0, 1, 0, 0]], values=[[0.2, 0.4, 0.5, *padding]]
    )
    result = ask({"estimator": "gae", "params": {"lam": 0.95}}, batch)
    near(result.advantages, [0.74625, 0.575, 0.5, 0, 0])


def test_reward_on_a_masked_last_token_is_lost_or_placed() -> None:
    mask, values = [[1, 1, 1, 0, 0, 0]], [[0.3, 0.4, 0.5, 0, 0, 0]]
    params = {"gamma": 0.9, "lam": 0.8}
    lost = batch_of(mask, token_level_rewards=[[0, 0, 0, 0, 0, 1]], values=values)
    near(ask({"estimator": "gae", "params": params}, lost).advantages, [-0.1632, -0.31, -0.5, 0, 0, 0])
    # Without token rewards the score is placed: on the last unmasked token, or where verl puts it.
    bare = batch_of(mask, scores=[1.0], values=values)
    near(ask({"estimator": "gae", "params": params}, bare).advantages, [0.3552, 0.41, 0.5, 0, 0, 0])
    last = {**params, "score_location": "last_response"}
    near(ask({"estimator": "gae", "params": last}, bare).advantages, [-0.1632, -0.31, -0.5, 0, 0, 0])


def test_rollout_without_a_trainable_token_does_not_move_its_siblings() -> None:
    batch = batch_of(
        [[0, 0, 0], [1, 1, 0], [1, 1, 0]],
        ["g", "g", "g"],
        [4.0, 1.0, 1.0],
        token_level_rewards=[[0, 0, 4], [0, 1, 0], [0, 1, 0]],
    )
    near(ask({"estimator": "grpo"}, batch).advantages, [0, 0, 0])
    near(ask({"convention": "grpo/verl"}, batch).advantages, [1.1546998717, -0.5773499359, -0.5773499359])


def test_group_of_one() -> None:
    batch = batch_of([[1]] * 4, ["a", "b", "b", "b"], [0.8, 1.0, 0.0, 1.0])
    siblings = [0.5773492692, -1.1546985384, 0.5773492692]
    near(ask({"estimator": "grpo"}, batch).advantages, [0.0, *siblings])
    near(ask({"convention": "grpo/verl"}, batch).advantages, [0.8 / (1 + 1e-6), *siblings])


def test_missing_reward_is_neither_zero_nor_the_end_of_its_group() -> None:
    rewards = [1.0, None, 0.0, 0.5, None, 1.0, None, None, None, None]
    batch = batch_of([[1]] * 10, list("aaaabbbbcc"), rewards)
    wanted = [0.999998, NAN, -0.999998, 0, NAN, 0, NAN, NAN, NAN, NAN]
    for body in ({"estimator": "grpo"}, {"convention": "grpo/verl"}):
        near(ask(dict(body), batch).advantages, wanted)
    trl = ask({"convention": "grpo/trl-group", "params": {"epsilon": 1e-6}}, batch)
    near(trl.advantages, [0.0 if math.isnan(x) else x for x in wanted])
    assert trl.moments["response"].count == 10


def test_which_std_was_used() -> None:
    batch = batch_of([[1]] * 4, ["g"] * 4, [1.0, 0.0, 0.0, 0.0])
    for params, first, others in (
        ({"epsilon": 1e-4}, 1.49970006, -0.49990002),
        ({"epsilon": 1e-6}, 1.499997, -0.499999),
        ({"epsilon": 0}, 1.5, -0.5),
        ({"ddof": 0}, 1.7320468076, -0.5773489359),
    ):
        near(ask({"estimator": "grpo", "params": params}, batch).advantages, [first, *[others] * 3])
    near(ask({"estimator": "dr_grpo"}, batch).advantages, [0.75, -0.25, -0.25, -0.25])


def test_tiny_spread_is_scaled_to_full_size() -> None:
    batch = batch_of([[1]] * 4, ["A", "A", "B", "B"], [1.0, 1.00004, 0.0, 1.0])
    near(
        ask({"estimator": "grpo"}, batch).advantages,
        [-0.6829604818, 0.6829604818, -0.7071057812, 0.7071057812],
    )


@pytest.mark.parametrize("precision", ["float64", "float32"])
@pytest.mark.parametrize("reward", [0.1, 0.7])
def test_constant_group_shows_rounding_in_float32_only(precision: str, reward: float) -> None:
    batch = batch_of([[1]] * 8, ["g"] * 8, [reward] * 8)
    largest = float(ask({"convention": "grpo/verl", "precision": precision}, batch).advantages.abs().max())
    assert largest == 0 if precision == "float64" else largest <= 0.06


def test_float32_noise_of_a_constant_group_is_real() -> None:
    batch = batch_of([[1]] * 8, ["g"] * 8, [0.7] * 8)
    result = ask({"convention": "grpo/verl", "precision": "float32"}, batch)
    assert 1e-3 < float(result.advantages.abs().max()) <= 0.06


def test_group_ids_are_compared_as_they_are() -> None:
    numbers, ids = factorize(["01", "1", 1, "01"])
    assert numbers.tolist() == [0, 1, 2, 0] and ids == ["01", "1", 1]


def test_kl_in_the_reward_is_taken_off_what_was_recorded_before_it() -> None:
    batch = batch_of(
        [[1, 0, 1]],
        token_level_scores=[[0, 0, 1]],
        token_level_rewards=[[9, 9, 9]],
        values=[[0, 0, 0]],
        old_log_probs=[[-1, -9, -1]],
        ref_log_probs=[[-2, -1, -3]],
    )
    params = {"kl_coef": 0.1, "lam": 0, "gamma": 0}
    near(ask({"estimator": "gae", "params": params}, batch).advantages, [-0.1, 0, 0.8])
    near(ask({"estimator": "gae", "params": {"lam": 0, "gamma": 0}}, batch).advantages, [9, 0, 9])


def test_one_token_is_too_few_to_whiten() -> None:
    batch = batch_of([[1, 0]], token_level_rewards=[[1, 0]], values=[[0.5, 0]])
    with pytest.raises(Refused, match="at least 2 unmasked tokens with an advantage; there is 1"):
        ask({"convention": "gae/verl"}, batch)
    near(ask({"convention": "gae/verl", "whitening": {"scope": "none"}}, batch).advantages, [0.5, 0.0])


def test_missing_and_usable_name_fields() -> None:
    bare = batch_of([[1]], scores=[None])
    assert missing(bare, Request.from_dict({"convention": "gae/verl"})) == ("values", "reward")
    assert usable(bare) == ()
    scored = batch_of([[1]], scores=[1.0])
    names = {each.name for each in usable(scored)}
    assert {"grpo", "dr_grpo", "reinforce_plus_plus", "reward_to_go"} <= names
    assert not names & {"gae", "td_error", "remax", "optimal_token_baseline"}
    whitened = {
        "estimator": "grpo",
        "whitening": {"scope": "rank"},
        "params": {"kl_coef": 0.1, "reward_weights": [1, 2]},
    }
    assert missing(scored, Request.from_dict(whitened)) == (
        "old_log_probs",
        "ref_log_probs",
        "reward_components",
        "rank",
    )


def test_one_weight_is_that_of_the_reward_where_there_are_no_components() -> None:
    batch = batch_of([[1]] * 2, ["g", "g"], scores=[1.0, 0.0])
    body: dict[str, object] = {"convention": "dr_grpo/trl", "params": {"reward_weights": [3.0]}}
    assert missing(batch, Request.from_dict(body)) == ()
    near(ask(body, batch).advantages, [1.5, -1.5])


def test_groups_of_one_do_not_matter_where_nothing_is_taken_over_the_group() -> None:
    batch = batch_of([[1]] * 3, ["a", "b", "c"], scores=[1.0, 2.0, 6.0])
    whole = {"mean_level": "batch", "scale_rewards": "none"}
    near(ask({"convention": "grpo/areal", "params": whole}, batch).advantages, [-2.0, -1.0, 3.0])
    levels = {"mean_level": "batch", "std_level": "batch"}
    scaled = ask({"convention": "grpo/areal", "params": levels}, batch).advantages
    near(scaled, ask({"convention": "batch_z/areal"}, batch).advantages.tolist())
    none = {"mean_level": None, "std_level": None}
    near(ask({"convention": "grpo/areal", "params": none}, batch).advantages, [1.0, 2.0, 6.0])


def test_a_reward_is_not_put_on_padding() -> None:
    """Rows of a padded matrix have it on the last unmasked token; a rollout that ends with an observation, in
    rows of their own lengths, has it there, where GAE that skips masked tokens loses it."""
    body: dict[str, object] = {
        "convention": "gae/verl",
        "whitening": {"scope": "none"},
        "params": {"lam": 0.5},
    }
    matrix = batch_of([[1, 1, 0], [1, 0, 0]], scores=[1.0, 1.0], values=[[0.0] * 3] * 2)
    near(ask(body, matrix).advantages, [0.5, 1.0, 0.0, 1.0, 0.0, 0.0])
    ragged = batch_of([[1, 1, 0], [1]], scores=[1.0, 1.0], values=[[0.0] * 3, [0.0]])
    near(ask(body, ragged).advantages, [0.0, 0.0, 0.0, 1.0])


def test_areal_without_values_takes_them_as_zero() -> None:
    batch = batch_of([[1, 1], [1, 1]], ["g", "g"], scores=[1.0, 0.0])
    norm = {"std_level": None, "group_size": 2}
    body: dict[str, object] = {"convention": "gae/areal", "params": {"reward_norm": norm}}
    assert missing(batch, Request.from_dict(body)) == ()
    near(ask(body, batch).advantages, [0.5, 0.5, -0.5, -0.5])


def test_reward_weights_by_name_and_their_mistakes() -> None:
    batch = batch_of([[1]] * 2, ["g", "g"], components={"accuracy": [1, 0], "format": [0, 1]})
    named = ask({"convention": "dr_grpo/trl", "params": {"reward_weights": {"format": 2.0}}}, batch)
    near(named.advantages, [-1.0, 1.0])
    with pytest.raises(Refused, match="names 'style'; the components are accuracy, format"):
        ask({"convention": "dr_grpo/trl", "params": {"reward_weights": {"style": 2.0}}}, batch)
    with pytest.raises(Refused, match="has 3 entries for 2 components"):
        ask({"convention": "dr_grpo/trl", "params": {"reward_weights": [1, 1, 1]}}, batch)


def test_token_reward_that_is_not_a_number() -> None:
    """On a masked token it is left out of the sum; on an unmasked one the rollout has no score."""
    rewards = [[1.0, NAN], [0.0, 0.0], [NAN, 1.0], [2.0, math.inf]]
    batch = batch_of([[1, 0], [1, 0], [1, 1], [1, 1]], ["g"] * 4, token_level_rewards=rewards)
    near(ask({"estimator": "dr_grpo"}, batch).advantages, [0.5, -0.5, NAN, NAN])


def test_rollout_that_lacks_a_token_field_others_have() -> None:
    """Its token rewards are all NaN: the reward stands in, in the sum as on the token."""
    batch = batch_of(
        [[1, 1], [1, 1]],
        ["g"] * 2,
        [5.0, 3.0],
        token_level_rewards=[[0, 1], [NAN, NAN]],
        values=[[0, 0], [0, 0]],
    )
    near(ask({"estimator": "dr_grpo"}, batch).advantages, [-1.0, 1.0])
    near(ask({"estimator": "gae", "params": {"lam": 0, "gamma": 0}}, batch).advantages, [0, 1, 0, 3])


def test_empty_response_has_its_recorded_reward() -> None:
    batch = batch_of([[], [1]], ["g", "g"], [4.0, 1.0], token_level_rewards=[[], [1]])
    near(ask({"convention": "dr_grpo/verl"}, batch).advantages, [1.5, -1.5])
    near(ask({"estimator": "dr_grpo"}, batch).advantages, [0.0, 0.0])


def test_reward_is_clipped_before_it_is_placed() -> None:
    batch = batch_of([[1, 1]], scores=[50.0], values=[[0, 0]])
    near(ask({"estimator": "gae"}, batch).advantages, [50, 50])
    near(ask({"estimator": "gae", "params": {"reward_clip_range": [-10, 10]}}, batch).advantages, [10, 10])


def test_the_reward_alone_when_asked_for() -> None:
    batch = batch_of([[1]] * 2, ["g"] * 2, [1.0, 3.0], token_level_rewards=[[7], [7]])
    near(ask({"estimator": "dr_grpo"}, batch).advantages, [0, 0])
    near(ask({"estimator": "dr_grpo", "params": {"score": "reward"}}, batch).advantages, [-1, 1])


def test_kl_is_taken_off_scores_of_rollouts_too() -> None:
    batch = batch_of([[1, 0], [1, 1]], ["g"] * 2, [1.0, 1.0], kl=[[0.5, 100.0], [1.0, 2.0]])
    near(ask({"estimator": "dr_grpo", "params": {"kl_coef": 0.1}}, batch).advantages, [0.125, -0.125])
    with pytest.raises(Refused, match="needs old_log_probs and ref_log_probs, or kl"):
        bare = batch_of([[1]] * 2, ["g"] * 2, [1.0, 2.0])
        ask({"estimator": "dr_grpo", "params": {"kl_coef": 0.1}}, bare)
    assert missing(batch, Request.from_dict({"estimator": "dr_grpo", "params": {"kl_coef": 0.1}})) == ()


def test_a_z_score_over_responses_leaves_out_those_that_could_not_be_scored() -> None:
    """TRL's RLOO: without a score, or alone with one in its group, a response has 0 and is in no spread."""
    scores = [1.0, 0.0, None, 0.5, None, None, None, 2.0]
    batch = batch_of([[1]] * 8, list("aaaabbbb"), scores)
    body: dict[str, object] = {"convention": "rloo/trl", "params": {"normalize_advantages": True}}
    one = 0.75 / 0.7501
    near(ask(body, batch).advantages, [one, -one, 0, 0, 0, 0, 0, 0])
    near(ask(body, batch_of([[1]], ["a"], [0.3])).advantages, [0])
    near(ask({"convention": "gdpo/trl"}, batch_of([[1]], ["a"], [0.3])).advantages, [0])


@pytest.mark.parametrize(
    ("convention", "wanted"),
    [
        ("dr_grpo/prime-rl", [-0.5, -0.5, 0.5]),
        ("maxrl/prime-rl", [-1, -1, 1]),
        ("rae/prime-rl", [0, 0, 1]),
    ],
)
def test_branches_of_one_trace_count_once_in_prime_rl(convention: str, wanted: list[float]) -> None:
    batch = batch_of(
        [[1]] * 3,
        list("aaa"),
        [0.0, 0.0, 1.0],
        data_source=["env"] * 3,
        rollout_id=list("xxy"),
        segment=[0, 1, 0],
    )
    near(ask({"convention": convention}, batch).advantages, wanted)
