"""Which convention, or mistake, made a batch's recorded advantages: from storage to the API's answer."""

import json
import time
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from app.attempts import RECONCILIATION, Attempts
from app.configured import Configured, configured, merged, takes
from app.errors import Unprocessable
from app.recorded_difference import from_configured
from app.tensors import Loaded, group_numbers, load, prompt_keys, spread, tensor
from estimators import CONVENTIONS, TOKEN_FIELDS, Request, missing
from estimators.reconcile import Hints, Reconciliation, Recorded, TooLong, reconcile
from estimators.retrace import retraced
from storage import arrays
from storage.database import AnySession

FIELDS = (*TOKEN_FIELDS, "prompt_ids")
#: Texts of tokens that only fill a row up.
PADDING = ("<pad>", "[PAD]", "<|pad|>", "<|padding|>", "<|finetune_right_pad_id|>")
#: A batch of at most so many tokens is reconciled while it comes in, a larger one by a job of its own.
MOST_TOKENS = 4_000_000
#: And if the answer takes no longer than this; what nothing explains is searched for longest.
MOST_SECONDS = 4.0
#: Frameworks whose rewards have no KL penalty unless they are told.
NO_KL = ("verl", "skyrl", "slime", "areal")
NOTHING = "The file has no advantages, neither per token nor per rollout: there is nothing to compare with."


def recorded_in(fields: Mapping[str, Any]) -> bool:
    """Whether a batch with these fields (name -> "recorded" | "derived:…" | "absent") has advantages."""
    return any(fields.get(name, "absent") == "recorded" for name in ("advantages", "advantage"))


def at_once(
    session: AnySession,
    batch_id: str,
    fields: Mapping[str, Any],
    header: Mapping[str, Any],
    format: str,
    attempts: Attempts | None = None,
) -> dict[str, Any] | None:
    """The answer on a batch that may still be coming in; None where no advantage is recorded.

    None, too, where the answer takes too long, or fails: a batch must not be lost for it. `attempts` learns
    whether it failed; asked for as a job, it is tried once more.
    """
    if not recorded_in(fields):
        return None
    attempts = attempts or Attempts({"batch": batch_id})
    return attempts.do(RECONCILIATION, lambda: _in_time(session, batch_id, header, format), None)


def _in_time(
    session: AnySession, batch_id: str, header: Mapping[str, Any], format: str
) -> dict[str, Any] | None:
    """The answer, or None where it takes too long. Raises TypeError or ValueError where it is no JSON."""
    try:
        found = answer(session, batch_id, header, format, until=time.monotonic() + MOST_SECONDS)
    except TooLong:
        return None
    json.dumps(found)
    return found


def loaded(session: AnySession, batch_id: str) -> Loaded:
    """The batch with every field that a convention may need."""
    return load(session, batch_id, FIELDS)


def answer(
    session: AnySession,
    batch_id: str,
    header: Mapping[str, Any],
    format: str,
    given: Loaded | None = None,
    asked: Mapping[str, Any] | None = None,
    until: float | None = None,
) -> dict[str, Any]:
    """The answer of the API: `recorded`, `verdict`, `candidates` best first, what the header says, and where
    that does not give the recorded numbers, how far they lie from it (`app.recorded_difference`).

    `given`: the batch, if it is loaded already; then the work is done on its device. `asked`: a `convention`
    and `params` that the caller says were configured, over what the header says. Raises TooLong at `until`,
    if there is such a moment on the monotonic clock.
    """
    batch = given or loaded(session, batch_id)
    recorded = recorded_advantages(session, batch_id, batch)
    said = configuration(header, format, asked or {})
    if recorded is None:
        return nothing(header, format, asked or {})
    found = reconcile(batch.batch, recorded, _hints(session, batch_id, header, batch, said), until)
    body = shown(found, batch.columns.index) | {"configured": asdict(said)}
    apart = None
    if not agrees(body):
        apart = from_configured(batch.batch, recorded, body["configured"], batch.columns.index)
    return body | {"unknown": unknown(batch, said, header), "difference": apart}


def agrees(answer: Mapping[str, Any]) -> bool:
    """Whether a candidate without a mistake gives what is recorded just as it was configured."""
    named = answer["configured"]["convention"]
    return any(
        each["matched"] and not each["mistake"] and not each.get("contradicts")
        and named in (each["convention"], *each["same_as"])
        for each in answer["candidates"]
    )  # fmt: skip


def can_be(
    session: AnySession,
    batch_id: str,
    header: Mapping[str, Any],
    format: str,
    convention: str,
    mistake: str | None,
) -> bool:
    """Whether `answer` can name this convention with this mistake, without asking for any other."""
    batch = loaded(session, batch_id)
    recorded = recorded_advantages(session, batch_id, batch)
    if recorded is None:
        return False
    hints = _hints(session, batch_id, header, batch, configuration(header, format, {}))
    return retraced(batch.batch, recorded, convention, mistake, hints)


def _hints(
    session: AnySession, batch_id: str, header: Mapping[str, Any], batch: Loaded, said: Configured
) -> Hints:
    return Hints(
        params=without_sizes(said.params, batch.batch.group),
        convention=said.convention,
        framework=said.framework,
        foreign=bool(said.unknown_framework or said.unknown_estimator or said.not_understood),
        group=_on(_configured_groups(session, batch_id, batch, said), batch),
        prompt=_on(prompt_numbers(session, batch_id, batch), batch),
        padding=_on(padding(session, batch_id, header, batch), batch),
    )


def without_sizes(params: Mapping[str, Any], group: torch.Tensor) -> dict[str, Any]:
    """The params without a group size that every recorded group has: the rows of a file need not lie in the
    order by whose places the framework made those groups."""
    size = params.get("group_size")
    if not isinstance(size, int) or not bool((torch.bincount(group) == size).all()):
        return dict(params)
    return {name: value for name, value in params.items() if name not in ("group_size", "group_count")}


def _configured_groups(
    session: AnySession, batch_id: str, batch: Loaded, said: Configured
) -> NDArray[np.int64] | None:
    """A number per rollout `[B]`, equal in a group as the configured convention groups; None where that is as
    recorded, or cannot be told."""
    grouping = CONVENTIONS[said.convention].grouping if said.convention else "group_id"
    if grouping == "group_id":
        return None
    try:
        return group_numbers(session, batch_id, batch.columns, grouping)
    except Unprocessable:
        return None


def nothing(header: Mapping[str, Any], format: str, asked: Mapping[str, Any]) -> dict[str, Any]:
    """The answer where no advantage is recorded."""
    said = configuration(header, format, asked)
    return {
        "recorded": None, "verdict": "nothing_recorded", "candidates": [], "precision": None,
        "explanation": NOTHING, "deciding": None, "deciding_rollout": None, "configured": asdict(said),
        "unknown": [], "difference": None,
    }  # fmt: skip


def configuration(header: Mapping[str, Any], format: str, asked: Mapping[str, Any]) -> Configured:
    """What the caller says was configured, put over what the header says."""
    said = configured(header, format)
    name, params = asked.get("convention"), asked.get("params") or {}
    if name is None or name == said.convention:
        return replace(said, params=merged(said.convention, said.params, params))
    kept = {key: value for key, value in said.params.items() if takes(CONVENTIONS[name], {key: value})}
    convention = CONVENTIONS[name]
    return Configured(name, said.framework, convention.estimator, merged(name, kept, params))


def recorded_advantages(session: AnySession, batch_id: str, given: Loaded) -> Recorded | None:
    """Those per token where there are any, else those per rollout; None where there are none."""
    lengths = np.where(given.unknown, 1, given.columns.length)
    values = tensor(session, batch_id, "advantages", lengths)
    if values is not None:
        return Recorded(values.to(given.batch.offsets.device), per_token=True)
    if np.isnan(given.columns.advantage).all():
        return None
    return Recorded(torch.from_numpy(given.columns.advantage).to(given.batch.offsets.device), per_token=False)


def prompt_numbers(session: AnySession, batch_id: str, given: Loaded) -> NDArray[np.int64] | None:
    """A number per rollout `[B]`, equal for equal prompts; None where one has no prompt."""
    try:
        keys = prompt_keys(session, batch_id, given.columns)
    except Unprocessable:
        return None
    return np.unique(keys, return_inverse=True)[1].astype(np.int64)


def padding(
    session: AnySession, batch_id: str, header: Mapping[str, Any], given: Loaded
) -> NDArray[np.bool_] | None:
    """Tokens `[N]` that are padding by their id or their text; None where that cannot be told."""
    lengths = np.where(given.unknown, 1, given.columns.length)
    pad = header.get("pad_token_id")
    ids = arrays.flat(session, batch_id, "response_ids") if isinstance(pad, int) else None
    if ids is not None:
        return np.asarray(spread(ids, lengths, fill=int(pad == 0) - 1) == pad)
    sizes = arrays.flat(session, batch_id, "response_token_sizes")
    texts = arrays.flat(session, batch_id, "response_tokens")
    if sizes is None or texts is None or not np.array_equal(sizes[1], lengths):
        return None
    return _has_text(texts[0], sizes[0].astype(np.int64), PADDING)


def _has_text(data: NDArray[Any], sizes: NDArray[np.int64], wanted: tuple[str, ...]) -> NDArray[np.bool_]:
    """Which tokens, of `sizes` bytes each, end to end in `data`, have one of the texts."""
    starts = np.cumsum(sizes) - sizes
    found = np.zeros(sizes.size, dtype=bool)
    for text in wanted:
        letters = np.frombuffer(text.encode(), np.uint8)
        places = np.flatnonzero(sizes == letters.size)
        same = (data[starts[places, None] + np.arange(letters.size)] == letters).all(axis=1)
        found[places[same]] = True
    return found


def _on(values: NDArray[Any] | None, given: Loaded) -> torch.Tensor | None:
    """On the device of the batch."""
    return None if values is None else torch.from_numpy(values).to(given.batch.offsets.device)


def unknown(given: Loaded, said: Configured, header: Mapping[str, Any]) -> list[str]:
    """What would have to be known to compute the configured convention: fields and parameters by name."""
    if said.convention is None:
        return ["adv_estimator" if said.estimator is None else "framework"]
    request = Request.from_dict({"convention": said.convention, "params": said.params})
    lacking = [*missing(given.batch, request)]
    lacking += [
        name for name in ("gamma", "lam") if hasattr(request.params, name) and name not in said.params
    ]
    tokens = given.batch.token_level_rewards is not None
    if not tokens and not _kl_told(given, said, header, hasattr(request.params, "gamma")):
        lacking.append("kl_coef")
    if bool(torch.isnan(given.batch.scores).any()) and not tokens and given.batch.token_level_scores is None:
        lacking.append("reward")
    return lacking


def _kl_told(given: Loaded, said: Configured, header: Mapping[str, Any], per_token: bool) -> bool:
    """Whether it is known what a KL penalty has taken from the rewards, where these are recorded without it:
    by the header, or as the framework has none by default and the file no KL."""
    if "kl_coef" in said.params or "kl_coef" in header:
        return True
    if said.params.get("use_kl_in_reward") is False or header.get("use_kl_in_reward") is False:
        return True
    if given.batch.ref_log_probs is not None or given.batch.kl is not None:
        return False
    return not per_token or said.framework in NO_KL


def shown(found: Reconciliation, index: NDArray[np.int64]) -> dict[str, Any]:
    """A reconciliation with the rollouts' own numbers for places in the batch, also in its words."""
    body = asdict(found)
    for candidate in body["candidates"]:
        candidate["failing"] = index[list(candidate["failing"])].tolist()
    first = body["candidates"][0] if body["candidates"] else None
    if body["verdict"] == "no_match" and first is not None and first["failing"]:
        body["explanation"] += f" Furthest off is rollout {first['failing'][0]}."
    place = body["deciding_rollout"]
    body["deciding_rollout"] = None if place is None else int(index[place])
    body["candidates"] = list(body["candidates"])
    return body
