"""The tracks of a rollout: what was recorded or computed for each of its tokens."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from app.figures.chosen import Chosen
from app.formatting import integer, number, plural
from storage import arrays, estimates
from storage.database import ReadSession
from storage.models import EstimateRollout, Rollout

Floats = NDArray[np.float64]
TRACKS = (
    "reward", "value", "TD error", "advantage", "return", "log p", "log p − ref", "log ratio", "entropy",
    "mask",
)  # fmt: skip
#: What each track is read from, as a file names it.
SOURCES = {
    "reward": "token_level_rewards",
    "value": "values",
    "advantage": "advantages",
    "return": "returns",
    "log p": "old_log_probs",
    "log p − ref": "ref_log_probs",
    "entropy": "entropies",
    "mask": "response_mask",
}


@dataclass(frozen=True, slots=True)
class Track:
    """`values` `[T]`, NaN where there is none. `axis`: its name and unit; `note`: a word for the caption."""

    name: str
    axis: str
    values: Floats
    shape: Literal["line", "stems", "steps"] = "line"
    role: str = "accent"
    centred: bool = False
    note: str = ""


def read_tracks(session: ReadSession, rollout: Rollout, chosen: Chosen) -> tuple[list[Track], list[str]]:
    """The tracks that the rollout has, in the order of TRACKS, and the names of the fields that it lacks."""
    found = _read(session, rollout, chosen)
    mask = found.get("response_mask")
    length = max((values.size for values in found.values()), default=0)
    unmasked = np.ones(length, dtype=bool) if mask is None else mask > 0
    tracks = [
        _track("reward", found.get("token_level_rewards", found.get("token_level_scores")), "score"),
        _track("value", found.get("values"), ""),
        _td_error(found, unmasked, chosen),
        _advantage(session, rollout, chosen, found, unmasked),
        _track("return", found.get("returns"), ""),
        _track("log p", found.get("old_log_probs", found.get("rollout_log_probs")), "nats"),
        _difference(found),
        _log_ratio(found, unmasked),
        _track("entropy", found.get("entropies"), "nats"),
        _track("mask", mask, "1 = trained on"),
    ]
    kept = [track for track in tracks if track is not None]
    present = {track.name for track in kept}
    return kept, [field for name, field in SOURCES.items() if name not in present]


def _read(session: ReadSession, rollout: Rollout, chosen: Chosen) -> dict[str, Floats]:
    wanted = [*SOURCES.values(), "token_level_scores", "rollout_log_probs"]
    if chosen.field is not None and chosen.estimate is not None:
        wanted += [chosen.field, estimates.field("returns", chosen.estimate.id)]
    stored = arrays.rollout_arrays(session, rollout, wanted)
    found = {name: np.asarray(values, dtype=np.float64) for name, values in stored.items() if len(values)}
    if chosen.estimate is not None:
        returns = found.pop(estimates.field("returns", chosen.estimate.id), None)
        if returns is not None:
            found["returns"] = returns
    return found


LOOKS: dict[str, dict[str, Any]] = {
    "reward": {"shape": "stems", "role": "positive", "centred": True},
    "mask": {"shape": "steps", "role": "zero"},
    "advantage": {"centred": True},
    "TD error": {"centred": True},
    "log p − ref": {"centred": True},
    "log ratio": {"centred": True},
}
#: Share of the ratio that PPO leaves on either side.
CLIP = 0.2


def _track(name: str, values: Floats | None, unit: str, note: str = "") -> Track | None:
    if values is None:
        return None
    return Track(name, f"{name}<br>({unit})" if unit else name, values, note=note, **LOOKS.get(name, {}))


def _td_error(found: dict[str, Floats], unmasked: NDArray[np.bool_], chosen: Chosen) -> Track | None:
    """δ_t = r_t + γ·V_next − V_t over unmasked tokens, V_next 0 behind the last; γ the estimate's, else 1."""
    reward, value = found.get("token_level_rewards"), found.get("values")
    if reward is None or value is None or not reward.size == value.size == unmasked.size:
        return None
    gamma = float((chosen.request.get("params") or {}).get("gamma", 1.0))
    place = np.flatnonzero(unmasked)
    following = np.append(value[place][1:], 0.0)
    delta = np.full(value.size, np.nan)
    delta[place] = reward[place] + gamma * following - value[place]
    return _track(
        "TD error", delta, "", f"TD error over unmasked tokens with γ {number(gamma)}, ending at value 0"
    )


def _advantage(
    session: ReadSession,
    rollout: Rollout,
    chosen: Chosen,
    found: dict[str, Floats],
    unmasked: NDArray[np.bool_],
) -> Track | None:
    if chosen.why is not None:
        return None
    if chosen.field is not None:
        values = found.get(chosen.field)
        return (
            None
            if values is None
            else _track("advantage", np.where(_same(unmasked, values), values, np.nan), "")
        )
    if not unmasked.size:
        return None
    if chosen.estimate is None:
        each = rollout.advantage
    else:
        row = session.get(EstimateRollout, (chosen.estimate.id, rollout.index))
        each = row.advantage if row is not None else None
    if each is None:
        return None
    return _track("advantage", np.where(unmasked, each, np.nan), "", "one advantage for the whole rollout")


def _same(unmasked: NDArray[np.bool_], values: Floats) -> NDArray[np.bool_]:
    return unmasked if unmasked.size == values.size else np.ones(values.size, dtype=bool)


def _difference(found: dict[str, Floats]) -> Track | None:
    ours, reference = found.get("old_log_probs", found.get("rollout_log_probs")), found.get("ref_log_probs")
    if ours is None or reference is None or ours.size != reference.size:
        return None
    return _track("log p − ref", ours - reference, "nats")


def _log_ratio(found: dict[str, Floats], unmasked: NDArray[np.bool_]) -> Track | None:
    """log π_old / π_rollout, and how many tokens a clip at 0.2 would reach."""
    ours, sampled = found.get("old_log_probs"), found.get("rollout_log_probs")
    if ours is None or sampled is None or ours.size != sampled.size:
        return None
    values = ours - sampled
    counted = values[_same(unmasked, values)]
    low, high = np.log([1 - CLIP, 1 + CLIP])
    beyond = int(((counted < low) | (counted > high)).sum())
    note = f"ratio π_old / π_rollout outside [{1 - CLIP:g}, {1 + CLIP:g}] on {integer(beyond)} of "
    note += plural(counted.size, "token")
    return _track("log ratio", values, "nats", note)
