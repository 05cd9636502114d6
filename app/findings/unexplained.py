"""Recorded advantages that nothing known makes: how far they lie from what was configured, and where."""

from typing import Any

import numpy as np

from app.findings.finding import Report, Severity, report
from app.findings.settings import baseline_named
from app.findings.view import Ints, View
from app.formatting import integer, number, percent, plural

NONE = (
    "No convention, with whatever setting is known here, and no known mistake gives these numbers, although "
    "everything that the configured one needs is recorded."
)
#: Largest difference, relative to the size of the numbers, that a lower precision on the way may leave.
NEARLY = 2.0**-6
#: How a batch may have its groups for these to be the trainer's; and baselines that need none.
KNOWN_GROUPS = ("recorded", "derived:prompt", "derived:column:")
ALONE = ("batch", "apart")
#: Parameters that the recorded numbers tell themselves where they are exact enough.
SOLVED = frozenset(("gamma", "lam"))
EXACT = ("float64", "float32", "decimals:6", "decimals:7", "decimals:8", "decimals:9")
SYMBOLS = {"gamma": "γ", "lam": "λ", "epsilon": "ε", "kl_coef": "β", "reward_weights": "weights"}
PLACES = {"rank": "rank", "micro_batch": "micro-batch"}


def lacking(view: View, found: dict[str, Any]) -> list[str]:
    """What would have to be known before the recorded numbers can be called unexplained: fields, parameters
    and header keys by name. γ and λ are read off exact numbers per token, where the header has nothing else
    that bears on them."""
    said = found["configured"]
    names = [str(name) for name in found["unknown"]] + [
        str(each) for each in said.get("not_understood") or ()
    ]
    plain = set(said["params"]) <= {*SOLVED, "group_size"} and not said.get("not_understood")
    solved = found["recorded"] == "token" and found["precision"] in EXACT and plain
    names = [name for name in names if not (solved and name in SOLVED)]
    # Groups that were guessed may not be those that the trainer compared.
    how = view.fields.get("group_id", "recorded")
    guessed = not how.startswith(KNOWN_GROUPS) and baseline_named(view) not in ALONE
    weighed = view.fields.get("reward", "").startswith("derived:sum(components")
    if weighed and view.header.get("reward_weights") is None:
        names.append("reward_weights")
    return [*names, "group_id"] if guessed else names


def unexplained(view: View, found: dict[str, Any]) -> Report | None:
    """The report where no candidate matches, everything needed is known, and the numbers are not those that
    were configured."""
    apart = found.get("difference")
    if apart is None or apart["off"] == 0:
        return None
    nearly = apart["max_abs_error"] <= NEARLY * apart["scale"]
    severity: Severity = "info" if nearly else "warning"
    unit = "token" if found["recorded"] == "token" else "rollout"
    name = f"{apart['convention']}{_settings(apart['params'])}"
    return report(
        view,
        severity,
        f"Nothing known makes the recorded advantages{' exactly' if nearly else ''}: {integer(apart['off'])} "
        f"of {plural(apart['compared'], unit)} are not what {name} gives, by up to "
        f"{number(apart['max_abs_error'])} {_where(apart)}.",
        explanation=" ".join([NONE, *_readings(view, apart, nearly)]),
        remedy="Look at the rollouts that differ most, and at what the trainer does between its advantages "
        "and the file. If it clips, scales or filters advantages in a way of its own, leave adv_estimator "
        "out of the header.",
        evidence=_evidence(found, apart),
        rollouts=places(view, apart["failing"]),
    )


def _settings(params: dict[str, Any]) -> str:
    parts = [f"{SYMBOLS[name]} {shown(value)}" for name, value in params.items() if name in SYMBOLS]
    return f" with {', '.join(parts)}" if parts else ""


def shown(value: Any) -> str:
    """A setting's value in words."""
    if value is None or isinstance(value, bool):
        return {True: "on", False: "off", None: "none"}[value]
    return number(value, 6) if isinstance(value, int | float) else str(value)


def _where(apart: dict[str, Any]) -> str:
    token = "" if apart["token"] is None else f", token {apart['token']}"
    numbers = f"recorded {number(apart['recorded'])}, computed {number(apart['computed'])}"
    return f"in rollout {apart['rollout']}{token} ({numbers})"


def _readings(view: View, apart: dict[str, Any], nearly: bool) -> list[str]:
    """What is seen of the numbers, in sentences; none of them says why."""
    found = []
    agree = apart["compared"] - apart["off"]
    if apart["zeros"] == apart["off"]:
        ends = ": the last trainable token of each rollout" if apart["ends"] else ""
        found.append(f"All that differ are recorded as 0{ends}.")
    place = _one_place(view, apart)
    if place:
        found.append(f"They are all those {place}, and no others differ.")
    if apart["shift"] is not None:
        late = "late" if apart["shift"] > 0 else "early"
        found.append(
            f"Taken to stand one token too {late}, {integer(apart['shifted'])} of them agree with those "
            "computed."
        )
    related = apart["correlation"]
    if agree and not nearly:
        found.append(f"The others agree ({percent(agree, apart['compared'])}).")
    elif related is not None and apart["shift"] is None and not nearly:
        found.append(f"The correlation of both is {number(related, 2)}.")
    if nearly:
        found.append("So little may come of a lower precision on the way, or of a small setting.")
    return found


def _one_place(view: View, apart: dict[str, Any]) -> str | None:
    """The rank or micro-batch, or the run of rows, that holds all rollouts that differ, and no other one."""
    rows = places(view, apart["failing"])
    if rows.size < 2 or not rows.size == apart["rollouts_off"] < apart["rollouts"]:
        return None
    for name, word in PLACES.items():
        known = view.columns.known.get(name)
        if known is None or known.size != view.rollouts or not known.all():
            continue
        column: Ints = getattr(view.columns, name)
        if np.array_equal(np.flatnonzero(column == column[rows[0]]), rows):
            return f"on {word} {int(column[rows[0]])}"
    first, last = int(view.index[rows].min()), int(view.index[rows].max())
    return f"of rollouts {first} to {last}" if last - first + 1 == rows.size else None


def _evidence(found: dict[str, Any], apart: dict[str, Any]) -> dict[str, Any]:
    same = (
        "convention", "max_abs_error", "median_abs_error", "rollouts", "off", "compared", "rollout", "token",
        "computed", "correlation", "zeros", "ends", "shift",
    )  # fmt: skip
    return {
        "kind": "unexplained",
        "recorded": found["recorded"],
        "verdict": found["verdict"],
        "mistake": None,
        "rollouts_matched": apart["rollouts"] - apart["rollouts_off"],
        **{name: apart[name] for name in same},
        "value": apart["recorded"],
        "precision": found["precision"],
        "configured": found["configured"]["convention"],
        "params": {**found["configured"]["params"], **apart["params"]},
    }


def places(view: View, numbers: list[int]) -> Ints:
    return np.flatnonzero(np.isin(view.index, np.asarray(numbers, dtype=np.int64)))
