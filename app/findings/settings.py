"""What the file says of the run that bears on whether a check applies: the split, the baseline."""

import re
from collections.abc import Mapping
from typing import Any, Literal

from app.configured import Configured, configured
from app.findings.view import View
from estimators import CONVENTIONS, ESTIMATORS

#: Words in the name of a split that is measured and not trained on.
EVALUATION = frozenset((
    "val", "vals", "valid", "validation", "eval", "evals", "evaluation", "evaluate", "test", "testing",
    "dev", "holdout", "heldout", "benchmark",
))  # fmt: skip
#: And in that of one that is trained on, whatever else it is called.
TRAINING = frozenset(("train", "training"))
#: Header keys that say how many responses a prompt has.
SIZES = ("group_size", "num_generations", "num_generations_per_prompt", "n_samples_per_prompt")
#: Frameworks that compute advantages in one process, with all rewards of the step in hand. Where the rows
#: train afterwards does not matter to them.
GATHERED = frozenset((
    "verl", "easyr1", "trl", "nemo", "nemo-rl", "skyrl", "rllm", "prime-rl", "tinker", "tinker-cookbook",
))  # fmt: skip
#: Estimators whose baseline is neither the group nor the batch: a critic, a running mean, or none.
APART = frozenset(("gae", "td_error", "rae", "running", "remax", "reward_to_go", "dpo_implicit_reward"))
#: Estimators whose only baseline is the batch.
OVER_BATCH = frozenset(("reinforce_plus_plus", "batch_z"))

#: Where the reconciliation of the batch is among the facts of the view.
RECONCILED = "recorded_advantages_disagree"

Baseline = Literal["group", "batch", "apart"]


def is_evaluation(view: View) -> bool:
    """The batch measures and does not train: its split says so, or every prompt was asked once in a run that
    trains on several responses and evaluates one (`num_generations_eval` 1)."""
    words = set(re.findall(r"[a-z]+", (view.split or "").lower()))
    if words & TRAINING:
        return False
    if words & EVALUATION or "held_out" in (view.split or "").lower().replace("-", "_"):
        return True
    asked = group_size(view)
    once = bool(view.groups) and bool((view.sizes == 1).all())
    return once and view.header.get("num_generations_eval") == 1 and asked is not None and asked > 1


def group_size(view: View) -> int | None:
    """How many responses the header says that a prompt has."""
    for name in SIZES:
        said = view.header.get(name)
        if isinstance(said, int) and not isinstance(said, bool) and said > 0:
            return said
    return None


def baseline_of(view: View) -> Baseline | None:
    """What advantages are compared with: as the header's estimator does, else as all conventions do that give
    the recorded advantages; a critic's values where neither says. None where nothing tells."""
    named = baseline_named(view)
    if named is not None:
        return named
    agreeing = _agreeing(view)
    if agreeing:
        return agreeing.pop() if len(agreeing) == 1 else None
    return "apart" if view.fields.get("values") == "recorded" else None


def said_by(view: View) -> Configured:
    """What the header says was configured: read once for all checks of the view."""
    if view.said is None:
        view.said = configured(view.header)
    return view.said


def baseline_named(view: View) -> Baseline | None:
    """What the header's estimator compares with; None where it names none that is known."""
    named = estimator_of(view)
    return None if named is None else _baseline(named, said_by(view).params)


def _agreeing(view: View) -> set[Baseline]:
    """Baselines of the conventions that the recorded advantages were found to agree with."""
    found = view.facts.get(RECONCILED) or {}
    return {
        _baseline(CONVENTIONS[each["convention"]].estimator, each["request"]["params"])
        for each in found.get("candidates", ())
        if each["matched"] and each["mistake"] is None
    }


def _baseline(estimator: str, params: Mapping[str, Any]) -> Baseline:
    norm = params.get("reward_norm")
    level = params.get("mean_level") or (norm.get("mean_level") if isinstance(norm, Mapping) else None)
    if estimator in OVER_BATCH or level == "batch" or params.get("norm_mean_type") == "batch":
        return "batch"
    return "apart" if estimator in APART else "group"


def estimator_of(view: View) -> str | None:
    """The estimator that the header names, if it is known: also by the name it has here and nowhere else."""
    said = said_by(view)
    return said.estimator or (said.unknown_estimator if said.unknown_estimator in ESTIMATORS else None)


def gathers(view: View) -> bool:
    """Whether the header names a framework that puts the rewards of a step together before any baseline."""
    said: Any = view.header.get("framework")
    return isinstance(said, str) and re.sub(r"[_ ]", "-", said.strip().lower()) in GATHERED
