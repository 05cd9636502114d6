"""`/batches/{id}/verify`: are the recorded advantages computed as they were configured?"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.deps import Reader
from app.errors import NotFound
from app.figures import FIGURES
from app.formatting import number
from app.pages.advantages import Picker, pick
from app.pages.batch import find_batch, name_of, way_to
from app.pages.page import Page
from app.pages.provenance import is_there, remedy_of
from app.pages.reading import Missing
from app.pages.request_form import ConventionChoice, form_for
from app.pages.run import ChartOf
from app.templating import Crumb, with_query
from storage import analyses, estimates
from storage.database import ReadSession
from storage.models import Analysis, Batch, Run

KIND = "reconcile"
FIGURE = "recorded_vs_recomputed"
SYMBOLS = {"gamma": "γ", "lam": "λ", "epsilon": "ε", "whitening.eps": "ε of the whitening"}
MOST_SHOWN, MOST_FAILING = 30, 8
#: Verdict -> (kind of sign, headline where there is no more to say). What is not understood is no proof of a
#: mistake: only a proved one is critical.
HEADLINES = {
    "ambiguous": ("warning", "Only mistakes give these numbers, and several would"),
    "no_match": ("warning", "No known convention or mistake gives these numbers"),
    "nothing_recorded": ("info", "No advantages are recorded"),
}


@dataclass(frozen=True, slots=True)
class CandidateLine:
    """One way of computing. `place`: its place in the answer; `failing`: rollouts that it does not give;
    `contradicts`: settings that are not as configured, each in words; `proved`: the mistake is."""

    place: int
    convention: str
    mistake: str | None
    matched: bool
    whitening: str
    max_abs_error: float | None
    p99_abs_error: float | None
    rollouts_matched: int
    rollouts: int
    explanation: str
    same_as: tuple[str, ...]
    failing: tuple[int, ...]
    contradicts: tuple[str, ...]
    proved: bool


@dataclass(frozen=True, slots=True)
class Answer:
    """What an analysis says, or where it is. `sign`, `headline`: the verdict for a person.

    configured  what the file says of itself, as (word, value); `unknown`: what would have to be known besides
    """

    id: str
    state: str
    done: int
    total: int
    error: str | None
    finished: float | None
    device: str | None
    seconds: float | None
    verdict: str | None
    sign: str
    headline: str
    recorded: str | None
    precision: str | None
    explanation: str
    deciding: str | None
    deciding_rollout: int | None
    configured: tuple[tuple[str, str], ...]
    unknown: tuple[str, ...]
    candidates: tuple[CandidateLine, ...]
    more: int


@dataclass(frozen=True, slots=True)
class VerifyPage:
    """`absent`: what would have to be recorded, where no advantages are. `others`: earlier questions, and
    when each was asked."""

    title: str
    crumbs: tuple[Crumb, ...]
    batch_id: str
    picker: Picker
    absent: tuple[Missing, ...]
    answer: Answer | None
    others: tuple[tuple[str, float], ...]
    chart: ChartOf | None
    conventions: tuple[ConventionChoice, ...]


def build(
    session: Reader, batch_id: str, estimate: str | None = None, analysis: str | None = None
) -> VerifyPage:
    batch = find_batch(session, batch_id)
    asked = analyses.of_batch(session, batch.id, KIND)
    chosen = choose(asked, analysis)
    answer = None if chosen is None else answer_of(chosen)
    wanted = estimate or nearest(session, batch, answer)
    picker, _ = pick(session, batch, wanted, per_token=is_there(batch.fields, "advantages"))
    there = is_there(batch.fields, "advantages") or is_there(batch.fields, "advantage")
    return VerifyPage(
        title="Verify",
        crumbs=(
            *way_to(session.get_one(Run, batch.run_id)),
            Crumb(name_of(batch), f"/batches/{batch.id}{with_query('', estimate=picker.used.key)}"),
            Crumb("verify"),
        ),
        batch_id=batch.id,
        picker=picker,
        absent=()
        if there
        else tuple(Missing(name, remedy_of(name, batch.format)) for name in ("advantages", "advantage")),
        answer=answer,
        others=tuple((each.id, each.created) for each in asked if chosen is None or each.id != chosen.id),
        chart=chart_of(batch, picker.used.key) if there else None,
        conventions=form_for(batch).conventions,
    )


def choose(asked: Sequence[Analysis], wanted: str | None) -> Analysis | None:
    """The one in the address, else the newest. Raises NotFound for one of another batch."""
    if wanted is None:
        return max(asked, key=lambda each: each.created, default=None)
    found = next((each for each in asked if each.id == wanted), None)
    if found is None:
        raise NotFound("This batch has no such analysis; its verify page shows the newest one.")
    return found


def nearest(session: ReadSession, batch: Batch, answer: Answer | None) -> str | None:
    """The finished estimate of the candidate that comes nearest, so that the figure shows it first."""
    made = [each for each in estimates.of_batch(session, batch.id) if each.state == "succeeded"]
    for line in answer.candidates if answer is not None else ():
        found = next(
            (each.id for each in made if line.mistake is None and each.convention == line.convention), None
        )
        if found is not None:
            return found
    return None


def chart_of(batch: Batch, estimate: str | None) -> ChartOf:
    query = with_query("", estimate=estimate)
    return ChartOf(FIGURE, FIGURES[FIGURE].title, f"/api/v1/batches/{batch.id}/figures/{FIGURE}{query}")


def answer_of(row: Analysis) -> Answer:
    said: Mapping[str, Any] = row.result or {}
    lines = [line_of(place, each) for place, each in enumerate(said.get("candidates") or ())]
    verdict = said.get("verdict")
    configured = said.get("configured") or {}
    left = configured.get("alternatives") or ()
    sign, headline = headline_of(verdict, lines, configured.get("convention"), left)
    return Answer(
        id=row.id,
        state=row.state,
        done=row.done,
        total=row.total,
        error=row.error,
        finished=row.finished,
        device=row.device,
        seconds=(row.timing or {}).get("total_seconds"),
        verdict=verdict,
        sign=sign,
        headline=headline,
        recorded=said.get("recorded"),
        precision=said.get("precision"),
        explanation=said.get("explanation") or "",
        deciding=said.get("deciding"),
        deciding_rollout=said.get("deciding_rollout"),
        configured=tuple(configuration(said.get("configured") or {})),
        unknown=tuple(map(str, said.get("unknown") or ())),
        candidates=tuple(lines[:MOST_SHOWN]),
        more=max(0, len(lines) - MOST_SHOWN),
    )


def headline_of(
    verdict: str | None, lines: Sequence[CandidateLine], said: str | None, others: Sequence[str] = ()
) -> tuple[str, str]:
    """The kind of sign and the verdict in a few words. `said`: the convention that was configured, `others`
    those that the header leaves open beside it."""
    matched = [each for each in lines if each.matched]
    right = [each for each in matched if each.mistake is None]
    named = [each for each in right if said in (each.convention, *each.same_as)]
    if any(not each.contradicts for each in named):
        return "ok", f"These are {said}, as configured"
    left = [
        each for each in right if each.whitening == "own" and {*others} & {each.convention, *each.same_as}
    ]
    if left:
        return "ok", f"These are {left[0].convention}, which the header leaves open beside {said}"
    if named:
        return "warning", f"These are {said}, but with {' and '.join(named[0].contradicts)}"
    sign, words = HEADLINES.get(verdict or "", ("info", ""))
    if not matched:
        return sign, words
    if right and said is not None:
        return "warning", f"These are {right[0].convention}, not {said} as configured"
    if verdict == "match":
        return of_match(matched[0])
    if not right and len({each.mistake for each in matched}) == 1:
        proved = all(each.proved for each in matched)
        return "critical" if proved else sign, f"Computed wrong: {matched[0].mistake}"
    return ("info", "Several conventions give these numbers") if right else (sign, words)


def of_match(best: CandidateLine) -> tuple[str, str]:
    if best.mistake is None:
        return "ok", f"These are {best.convention}"
    if best.proved:
        return "critical", f"These are {best.convention}, done wrong: {best.mistake}"
    return (
        "info",
        f"These numbers fit {best.convention} with {best.mistake}; whether that was meant is not known",
    )


def contradiction(said: Mapping[str, Any]) -> str:
    """A setting that is not as configured, in words."""
    name = SYMBOLS.get(said["name"], said["name"].removeprefix("whitening.").replace("_", " "))
    where = "the file says" if said.get("said", True) else "the convention has"
    return f"{name} {value_text(said['recorded'])} where {where} {value_text(said['configured'])}"


def plain(mistake: str) -> str:
    """`stride_grouping:4` as words."""
    name, _, detail = mistake.partition(":")
    return name.replace("_", " ") + (f" ({detail})" if detail else "")


def line_of(place: int, said: Mapping[str, Any]) -> CandidateLine:
    return CandidateLine(
        place=place,
        convention=said["convention"],
        mistake=None if said.get("mistake") is None else plain(said["mistake"]),
        matched=bool(said["matched"]),
        whitening=said.get("whitening") or "own",
        max_abs_error=said.get("max_abs_error"),
        p99_abs_error=said.get("p99_abs_error"),
        rollouts_matched=said["rollouts_matched"],
        rollouts=said["rollouts"],
        explanation=said.get("explanation") or "",
        same_as=tuple(said.get("same_as") or ()),
        failing=tuple(said.get("failing") or ())[:MOST_FAILING],
        contradicts=tuple(map(contradiction, said.get("contradicts") or ())),
        proved=bool(said.get("proved")),
    )


def configuration(said: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What the file says was configured, as far as it does."""
    named = [(name, str(said[name])) for name in ("convention", "framework", "estimator") if said.get(name)]
    unknown = [("framework", "unknown_framework"), ("estimator", "unknown_estimator")]
    named += [(name, f"{said[key]} (Vantage does not know it)") for name, key in unknown if said.get(key)]
    named += [("not understood", key) for key in said.get("not_understood") or ()]
    return named + [(name, value_text(value)) for name, value in (said.get("params") or {}).items()]


def value_text(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {value_text(part)}" for name, part in value.items())
    if isinstance(value, bool):
        return "yes" if value else "no"
    return number(value) if isinstance(value, int | float) else str(value)


def request_of(session: ReadSession, analysis_id: str, place: int) -> tuple[str, dict[str, Any]]:
    """The batch of an analysis, and the request that computes one of its candidates. Raises NotFound."""
    row = analyses.get(session, analysis_id)
    candidates = [] if row is None else (row.result or {}).get("candidates") or []
    if row is None or not 0 <= place < len(candidates):
        raise NotFound("There is no such candidate; the verify page lists those that there are.")
    return row.batch_id, dict(candidates[place]["request"])


PAGE = Page("/batches/{batch_id}/verify", "pages/verify.html", VerifyPage, build, "runs")
