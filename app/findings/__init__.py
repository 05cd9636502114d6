"""What is wrong with a batch, worst first, in words, with the numbers and the rows.

`run(session, batch_id)` reads the batch once and gives every finding that fires. One finding is one file of
this folder with a `FINDING`; none fires on a clean batch.
"""

import json
from functools import partial
from typing import Any

from app.attempts import FINDINGS as ALL
from app.attempts import STATISTICS, Attempts
from app.findings import (
    advantages_on_masked_tokens,
    component_scale_lost,
    duplicate_rollouts,
    empty_response,
    epsilon_dominated,
    fully_masked_rollout_votes,
    group_key_suspect,
    group_sum_not_zero,
    interleaved_groups,
    kl_in_reward_and_loss,
    length_bias,
    log_prob_gap_in_turn,
    log_prob_length_mismatch,
    log_prob_offset,
    log_ratio_outliers,
    loss_zero_despite_reward_spread,
    mask_length_mismatch,
    masked_kl_leaks,
    masked_values_leak,
    missing_eos,
    missing_shards,
    near_zero_variance_groups,
    nonfinite_values,
    outlier_advantages,
    padding_trainable,
    placeholder_log_probs,
    positive_log_probs,
    precision_loss,
    recorded_advantages_disagree,
    recorded_advantages_unchecked,
    repeated_rollout_segments,
    reward_component_collapse,
    reward_component_dominates,
    reward_on_masked_token,
    reward_past_end,
    reward_sum_mismatch,
    shaping_noise,
    sign_flips,
    singleton_groups,
    split_group,
    task_offset,
    too_few_tokens_to_whiten,
    truncated_rollouts,
    unequal_group_sizes,
    values_misaligned,
    zero_variance_groups,
)
from app.findings.finding import SEVERITIES, Finding, reports
from app.findings.reading import Observer, read_view
from app.findings.statistics import batch_statistics, for_batch
from app.findings.view import View
from storage.database import AnySession
from storage.rollouts import Columns

__all__ = ["FINDINGS", "Finding", "assess", "check", "run"]

#: In the order in which findings of equal severity stand: what breaks numbers before what makes them weak.
FINDINGS: dict[str, Finding] = {
    finding.code: finding
    for finding in (
        nonfinite_values.FINDING,
        positive_log_probs.FINDING,
        log_prob_offset.FINDING,
        log_prob_gap_in_turn.FINDING,
        log_ratio_outliers.FINDING,
        placeholder_log_probs.FINDING,
        log_prob_length_mismatch.FINDING,
        epsilon_dominated.FINDING,
        outlier_advantages.FINDING,
        precision_loss.FINDING,
        loss_zero_despite_reward_spread.FINDING,
        group_key_suspect.FINDING,
        singleton_groups.FINDING,
        interleaved_groups.FINDING,
        split_group.FINDING,
        repeated_rollout_segments.FINDING,
        zero_variance_groups.FINDING,
        recorded_advantages_disagree.FINDING,
        recorded_advantages_unchecked.FINDING,
        group_sum_not_zero.FINDING,
        sign_flips.FINDING,
        task_offset.FINDING,
        fully_masked_rollout_votes.FINDING,
        values_misaligned.FINDING,
        masked_values_leak.FINDING,
        padding_trainable.FINDING,
        reward_past_end.FINDING,
        reward_on_masked_token.FINDING,
        reward_sum_mismatch.FINDING,
        masked_kl_leaks.FINDING,
        kl_in_reward_and_loss.FINDING,
        mask_length_mismatch.FINDING,
        advantages_on_masked_tokens.FINDING,
        too_few_tokens_to_whiten.FINDING,
        missing_eos.FINDING,
        truncated_rollouts.FINDING,
        empty_response.FINDING,
        duplicate_rollouts.FINDING,
        reward_component_dominates.FINDING,
        reward_component_collapse.FINDING,
        component_scale_lost.FINDING,
        shaping_noise.FINDING,
        near_zero_variance_groups.FINDING,
        length_bias.FINDING,
        missing_shards.FINDING,
        unequal_group_sizes.FINDING,
    )
}


OBSERVERS = {
    code: Observer(finding.title, finding.begin, finding.observe)
    for code, finding in FINDINGS.items()
    if finding.observe is not None
}


def run(
    session: AnySession,
    batch_id: str,
    fields: dict[str, Any] | None = None,
    header: dict[str, Any] | None = None,
    reconciliation: dict[str, Any] | None = None,
    attempts: Attempts | None = None,
) -> list[dict[str, Any]]:
    """Every finding of a batch in any state, worst first: `{code, severity, title, explanation, remedy,
    evidence, groups, groups_total, rollouts, rollouts_total}`.

    `fields` (field -> "recorded" | "derived:…" | "absent") and `header` are to be given for a batch that is
    still being written, and `reconciliation` where `app.reconciling.answer` was asked already. `attempts`
    learns which checks raised; the others stand. Raises storage.arrays.Corrupt.
    """
    attempts = attempts or Attempts({"batch": batch_id})
    view = read_view(session, batch_id, fields, header, observers=OBSERVERS, attempts=attempts)
    recorded_advantages_disagree.prepare(session, batch_id, view, reconciliation, attempts)
    return check(view, attempts)


def assess(
    session: AnySession,
    batch_id: str,
    fields: dict[str, Any] | None = None,
    header: dict[str, Any] | None = None,
    reconciliation: dict[str, Any] | None = None,
    columns: Columns | None = None,
    attempts: Attempts | None = None,
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Statistics (see `app.findings.statistics`; empty where they cannot be made) and findings of a batch,
    which is read only once. `columns`: its light columns, where they are read already. The rest as for `run`,
    but that nothing is raised: what cannot be read cannot be checked."""
    attempts = attempts or Attempts({"batch": batch_id})
    try:
        view = read_view(
            session, batch_id, fields, header, observers=OBSERVERS, columns=columns, attempts=attempts
        )
    except Exception as error:
        attempts.fail(ALL, error)
        return attempts.do(STATISTICS, partial(_light_statistics, session, batch_id, fields), {}), []
    recorded_advantages_disagree.prepare(session, batch_id, view, reconciliation, attempts)
    statistics: dict[str, Any] = attempts.do(STATISTICS, lambda: _storable(batch_statistics(view)), {})
    return statistics, check(view, attempts)


def check(view: View, attempts: Attempts | None = None) -> list[dict[str, Any]]:
    """The findings of a view, worst first. `attempts` learns which checks raised, and knows those that did
    already while the tokens were read."""
    attempts = attempts or Attempts()
    fired: list[dict[str, Any]] = []
    for code, finding in FINDINGS.items():
        if code not in attempts.failed:
            fired += attempts.do((code, finding.title), partial(_said, finding, view), [])
    return sorted(fired, key=lambda said: SEVERITIES.index(said["severity"]))


def _said(finding: Finding, view: View) -> list[dict[str, Any]]:
    """What one finding says. Raises whatever keeps that from being stored, too."""
    said: list[dict[str, Any]] = [
        _storable({"code": finding.code, **each}) for each in reports(finding.check(view))
    ]
    unknown = {each["severity"] for each in said} - set(SEVERITIES)
    if unknown:
        raise ValueError(f"{finding.code} has an unknown severity")
    return said


def _light_statistics(session: AnySession, batch_id: str, fields: dict[str, Any] | None) -> dict[str, Any]:
    return _storable(for_batch(session, batch_id, fields))


def _storable(made: dict[str, Any]) -> dict[str, Any]:
    """The same. Raises TypeError or ValueError where it is no JSON: else storing it would fail, rows and
    all."""
    json.dumps(made)
    return made
