"""What one row may have, whatever its format."""

from app.ingest.record import Problem, Rollout
from app.settings import Settings


def over(rollout: Rollout, settings: Settings) -> Problem | None:
    """Why the row is not taken, where it has more of something than a row may have."""
    if (rollout.length or 0) > settings.max_tokens_per_rollout:
        limit = f"{settings.max_tokens_per_rollout:,} (VANTAGE_MAX_TOKENS_PER_ROLLOUT)"
        return _refused(rollout, "too_many_tokens", f"{rollout.length:,} tokens, more than {limit}")
    if len(rollout.extra) > settings.max_fields:
        limit = f"{settings.max_fields:,} (VANTAGE_MAX_FIELDS)"
        found = f"{len(rollout.extra):,} fields of no known name, more than {limit}"
        return _refused(rollout, "too_many_fields", found)
    return None


def _refused(rollout: Rollout, code: str, found: str) -> Problem:
    return Problem(f"row {rollout.row}: {found}; the row was not taken", code, "error", rollout.row)
