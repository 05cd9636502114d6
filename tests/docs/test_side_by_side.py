"""The example that all conventions are shown on gives the numbers that the frameworks themselves gave."""

import pytest

from docs.side_by_side import first_of

#: First response of the first prompt and of the last one, from the frameworks' own code, to five decimals.
PUBLISHED = {
    "grpo/verl": (0.86602, 1.30000),
    "grpo/skyrl": (0.86602, 1.30000),
    "grpo/nemo": (0.86602, 1.30000),
    "grpo/trl-group": (0.86588, 1.29990),
    "grpo/trl-batch": (0.68774, 2.23516),
    "grpo/openrlhf": (0.86603, 1.30000),
    "grpo/nemo-loo": (1.15470, 2.83683),
    "grpo/slime": (0.86602, 1.30000),
    "grpo/areal": (0.86601, 1.29999),
    "grpo/lite-ppo": (0.69534, 2.25987),
    "grpo/roll": (0.86602, 1.30000),
    "grpo/open-instruct": (1.00000, 1.50111),
    "grpo/trl-async": (1.00000, 1.50111),
    "grpo/rllm": (1.00000, 1.50111),
    "grpo/torchrl": (0.86603, 1.30000),
    "dr_grpo/verl": (0.5, 1.625),
    "dr_grpo/tinker": (0.5, 1.625),
    "rloo/verl": (0.66667, 2.16667),
    "rloo/openrlhf": (0.66667, 2.16667),
    "maxrl/skyrl": (1.0, 4.33333),
    "maxrl/prime-rl": (1.0, 4.33333),
    "gpg/verl": (0.66667, 2.16667),
    "opo/verl": (0.29412, 1.64286),
    "grpo_passk/verl": (0.0, 1.2),
    "reinforce_plus_plus_baseline/verl": (0.49660, 1.82448),
    "reinforce_plus_plus_baseline/openrlhf": (0.50277, 1.84714),
    "reinforce_plus_plus_baseline/rllm": (0.72627, 2.36038),
    "gdpo/verl": (0.86837, 1.38957),
    "gdpo/trl": (1.17239, 1.76005),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_example(name: str) -> None:
    assert first_of(name) == pytest.approx(PUBLISHED[name], abs=1.1e-5)


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("reinforce_plus_plus/verl", 0.60703),
        ("reinforce_plus_plus/openrlhf", 0.61457),
        ("batch_z/rllm", 0.89803),
        ("batch_z/areal", 0.8598),
    ],
)
def test_the_first_number_of_the_example(name: str, first: float) -> None:
    found = first_of(name)
    assert not isinstance(found, str)
    assert found[0] == pytest.approx(first, abs=2e-5)


def test_what_the_example_cannot_show_is_said() -> None:
    assert first_of("gae/verl") == "–"
    assert first_of("gdpo/nemo") == "refused"
