"""torchrl: GAE with the value after every step given, and rows of several trajectories."""

from collections.abc import Callable
from typing import Any

from tests.cases.build import Builder, Built, Case, rows_from


def pieces(rows: list[list[Any]], done: list[list[float]]) -> list[list[Any]]:
    """The rows cut behind every step that is done."""
    found: list[list[Any]] = []
    for row, ends in zip(rows, done, strict=True):
        found.append([])
        for t, (value, end) in enumerate(zip(row, ends, strict=True)):
            found[-1].append(value)
            if end and t + 1 < len(row):
                found.append([])
    return found


def gae(advantages: str, targets: str | None) -> Callable[[Case], Built]:
    """A function whose result has these names."""

    def build(case: Case) -> Built:
        inputs, expected, done = case["inputs"], case["expected"], case["inputs"]["done"]
        values = pieces(inputs["state_value"], done)
        rows = rows_from(
            [[1] * len(row) for row in values],
            values=values,
            next_values=pieces(inputs["next_state_value"], done),
            token_level_rewards=pieces(inputs["reward"], done),
            terminated=[bool(row[-1]) for row in pieces(inputs["terminated"], done)],
        )
        body = {"convention": "gae/torchrl", "params": case["config"]}
        returns = None if targets is None else pieces(expected[targets], done)
        return Built(rows, body, pieces(expected[advantages], done), returns)

    return build


FUNCTIONS = "torchrl.objectives.value.functional"
BUILDERS: dict[str, Builder] = {
    f"{FUNCTIONS}.generalized_advantage_estimate": gae("advantage", "value_target"),
    f"{FUNCTIONS}.vec_generalized_advantage_estimate": gae("vec_advantage", None),
}
