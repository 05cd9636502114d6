"""`/uploads/{id}`: did everything arrive, and is it what its owner thinks it is?"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import select

from app import uploads
from app.attempts import FINDINGS
from app.deps import Reader
from app.formatting import integer, plural
from app.ingest import FORMATS
from app.pages.page import Page
from app.templating import Crumb
from storage.database import ReadSession
from storage.models import Batch

PROBLEMS, OFFENDERS = 200, 5
RANKS = {"fail": 0, "warn": 1, "info": 2, "pass": 3}

#: Problems that end where somebody says which column is what.
ASKING = frozenset(("columns_unknown", "decimal_comma", "columns_mapped"))
#: Problems that another check says better.
ANSWERED = ("groups_derived",)
#: Any of these says how good a rollout was.
SCORES = ("reward", "token_level_rewards", "token_level_scores", "advantage", "advantages")
#: Findings that the receipt answers for, in its own words: code -> (nothing found, something found).
CHECKED = {
    "unequal_group_sizes": ("All groups have the same size", "Group sizes differ"),
    "singleton_groups": ("No group has a single rollout", "Groups with a single rollout"),
    "duplicate_rollouts": ("No rollout is there twice", "Rollouts that are there twice"),
    "nonfinite_values": ("Every number is finite", "Numbers that are not finite"),
    "reward_on_masked_token": ("No reward stands on a masked token", "Rewards on masked tokens"),
    "empty_response": ("No response is empty", "Empty responses"),
}


@dataclass(frozen=True, slots=True)
class Offender:
    where: str
    message: str


@dataclass(frozen=True, slots=True)
class Check:
    """`kind`: "fail", "warn", "info" or "pass"; `href`: where to look further."""

    kind: str
    title: str
    detail: str
    offenders: tuple[Offender, ...] = ()
    more: int = 0
    href: str | None = None


@dataclass(frozen=True, slots=True)
class ReceiptPage:
    """`upload` is the API's own body of the upload (`GET /api/v1/uploads/{id}`)."""

    title: str
    crumbs: tuple[Crumb, ...]
    upload: dict[str, Any]
    running: bool
    checks: tuple[Check, ...]
    counted: tuple[tuple[str, int], ...]
    format_title: str | None
    batches: tuple[dict[str, Any], ...]
    problems_total: int
    tabular: bool


def build(session: Reader, upload_id: str) -> ReceiptPage:
    receipt = uploads.receipt(session, upload_id, PROBLEMS)
    running = receipt["state"] in ("queued", "running")
    checks = [] if running else checks_of(receipt, batch_rows(session, receipt["batches"]))
    counted = Counter(check.kind for check in checks)
    titles = {known.name: known.title for known in FORMATS}
    return ReceiptPage(
        title=receipt["filename"],
        crumbs=(Crumb("Runs", "/"), Crumb("Upload")),
        upload=receipt,
        running=running,
        checks=tuple(sorted(checks, key=lambda check: RANKS[check.kind])),
        counted=tuple((kind, counted[kind]) for kind in RANKS if counted[kind]),
        format_title=titles.get(receipt["format"] or "", receipt["format"]),
        batches=tuple(receipt["batches"]),
        problems_total=sum(receipt["problem_counts"].values()),
        tabular=not running
        and (receipt["format"] == "table" or not ASKING.isdisjoint(receipt["problem_counts"])),
    )


def batch_rows(session: ReadSession, listed: Sequence[Mapping[str, Any]]) -> list[Batch]:
    """The rows of the batches that the receipt lists, in its order (the first fifty: the rest is alike)."""
    ids = [batch["id"] for batch in listed[:50]]
    found = {batch.id: batch for batch in session.scalars(select(Batch).where(Batch.id.in_(ids)))}
    return [found[id] for id in ids if id in found]


def checks_of(receipt: Mapping[str, Any], batches: Sequence[Batch]) -> list[Check]:
    """What a person would check by hand, each with its answer."""
    checks = [_rows(receipt), *_problems(receipt)]
    if receipt["format"]:
        checks.append(Check("pass", "The format was recognised", str(receipt["format"])))
    lacking = {batch["id"]: {each["check"] for each in batch["unchecked"]} for batch in receipt["batches"]}
    if batches:
        checks += [*_rewards(batches), _groups(batches), _fields(batches), *_findings(batches, lacking)]
    return [*checks, *_unchecked(receipt["batches"])]


def _unchecked(listed: Sequence[Mapping[str, Any]]) -> list[Check]:
    """One check per check that could not be done, with the first batch that lacks it."""
    first: dict[str, tuple[str, str]] = {}
    counted: Counter[str] = Counter()
    for batch in listed:
        for each in batch["unchecked"]:
            first.setdefault(each["check"], (each["message"], batch["id"]))
            counted[each["check"]] += 1
    return [
        Check(
            "warn",
            message.removesuffix("."),
            f"In {plural(counted[code], 'batch', 'batches')}. Every row is stored; the worker's log says "
            f"where it stopped, under {code}.",
            href=f"/batches/{batch_id}",
        )
        for code, (message, batch_id) in first.items()
    ]


def _rows(receipt: Mapping[str, Any]) -> Check:
    counts = receipt["counts"]
    rows, accepted, rejected = counts["rows"], counts["accepted"], counts["rejected"]
    if receipt["state"] == "cancelled":
        return Check("fail", "The upload was cancelled", "Nothing of it is visible.")
    if receipt["state"] == "failed":
        return Check("fail", "Nothing was taken", receipt["error"] or "No row could be read.")
    if rejected:
        said = (
            f"{integer(accepted)} of {plural(rows, 'row')} stand; the rest is listed below with its reasons."
        )
        return Check("fail", f"{plural(rejected, 'row')} rejected", said)
    return Check("pass", "Every row was read", f"{plural(rows, 'row')}, none rejected.")


def _problems(receipt: Mapping[str, Any]) -> list[Check]:
    """One check per kind of problem, with the first rows that have it."""
    kinds = {"error": "fail", "warning": "warn", "info": "info"}
    by_code: dict[str, list[Mapping[str, Any]]] = {}
    for problem in receipt["problems"]:
        if problem["code"] in ANSWERED:
            continue
        by_code.setdefault(problem["code"], []).append(problem)
    checks = []
    for code, found in by_code.items():
        total = int(receipt["problem_counts"].get(code, len(found)))
        shown = tuple(map(_offender, found[:OFFENDERS]))
        title = code.replace("_", " ").capitalize()
        checks.append(
            Check(kinds[found[0]["severity"]], title, plural(total, "time"), shown, total - len(shown))
        )
    return checks


def _offender(problem: Mapping[str, Any]) -> Offender:
    """A sentence that begins with the field needs no field before it."""
    where, said = place(problem), what(problem)
    return Offender("" if said.startswith(where) else where, said)


def place(problem: Mapping[str, Any]) -> str:
    """`steps/3.jsonl, row 8, advantages`: as much of it as is known; "" for the file as a whole."""
    parts = [problem["file"]] if problem["file"] else []
    parts += [f"row {integer(problem['row'])}"] if problem["row"] is not None else []
    parts += [problem["field"]] if problem["field"] else []
    return ", ".join(parts)


def what(problem: Mapping[str, Any]) -> str:
    """The message without the file and the row that stand before it."""
    said = str(problem["message"]).removeprefix(f"{problem['file']}: ")
    return said if problem["row"] is None else said.removeprefix(f"row {problem['row']}: ")


def _rewards(batches: Sequence[Batch]) -> list[Check]:
    """Without rewards, and without advantages of the trainer's own, there is little to look at."""
    bare = [batch for batch in batches if not any(has(batch, name) for name in SCORES)]
    if not bare:
        return []
    which = (
        "" if len(bare) == len(batches) else f" in {len(bare)} of {plural(len(batches), 'batch', 'batches')}"
    )
    said = (
        "No advantage can be computed. Give each row a reward, or upload again and say which column it is "
        "(column.reward=<column>)."
    )
    return [Check("warn", f"No rollout has a reward{which}", said)]


def _groups(batches: Sequence[Batch]) -> Check:
    told = {str(batch.fields.get("group_id", "absent")) for batch in batches}
    groups = sum(batch.groups for batch in batches)
    if told == {"recorded"}:
        return Check(
            "pass", "Prompt groups are recorded", f"{plural(groups, 'group')}, by the file's own ids."
        )
    rules = sorted(rule.removeprefix("derived:") for rule in told if rule.startswith("derived:"))
    if rules:
        return Check(
            "warn",
            "Prompt groups are derived, not recorded",
            f"{plural(groups, 'group')} by the rule {', '.join(rules)}. If that is not how the trainer "
            "grouped them, upload again and say how (Group rows by).",
        )
    return Check(
        "warn", "There are no prompt groups", "Estimators that compare siblings have nothing to compare."
    )


def _fields(batches: Sequence[Batch]) -> Check:
    """Which per-token fields came along; without any, only per-response numbers can be shown."""
    tokens = (
        "response_mask",
        "response_ids",
        "response_tokens",
        "token_level_rewards",
        "values",
        "advantages",
    )
    there = [name for name in tokens if all(has(batch, name) for batch in batches)]
    if there:
        return Check("pass", "Tokens are there", ", ".join(there))
    scored = any(has(batch, name) for batch in batches for name in SCORES)
    said = "Text and reward per row: advantages are one number per response." if scored else "Text per row."
    return Check("info", "No per-token field", said)


def has(batch: Batch, field: str) -> bool:
    return str(batch.fields.get(field, "absent")) != "absent"


def _findings(batches: Sequence[Batch], lacking: Mapping[str, set[str]]) -> list[Check]:
    """`lacking`: id of a batch -> codes of what could not be checked in it."""
    checks = []
    for code, (absent, present) in CHECKED.items():
        hit = [batch for batch in batches if code in batch.codes]
        if not hit:
            everywhere = all({code, FINDINGS[0]}.isdisjoint(lacking[batch.id]) for batch in batches)
            checks += [Check("pass", absent, "")] if everywhere else []
            continue
        said = next(finding for finding in hit[0].findings if finding["code"] == code)
        detail = str(said["title"]) + (f" ({len(hit)} batches)" if len(hit) > 1 else "")
        kind = "info" if said["severity"] == "info" else "warn"
        checks.append(Check(kind, present, detail, href=f"/batches/{hit[0].id}#{code}"))
    return checks


PAGE = Page("/uploads/{upload_id}", "pages/receipt.html", ReceiptPage, build, "runs")
