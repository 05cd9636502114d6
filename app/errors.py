"""Errors that a person may see. Each says what to do; one handler renders them as HTML or problem+json."""

from collections.abc import Sequence
from typing import Any


class AppError(Exception):
    """`detail` is one or two sentences: what is wrong, and the remedy. Never a path or a stack trace."""

    status = 400
    title = "The request cannot be answered"

    def __init__(self, detail: str, problems: Sequence[dict[str, Any]] = (), **members: Any) -> None:
        super().__init__(detail)
        self.detail = detail
        self.problems = list(problems)
        self.members = members  # further members of the problem document


class BadRequest(AppError):
    pass


class NotFound(AppError):
    status = 404
    title = "Not found"


class Forbidden(AppError):
    status = 403
    title = "Not allowed"


class TimedOut(AppError):
    status = 408
    title = "Waited too long"


class Conflict(AppError):
    status = 409
    title = "In conflict with what is there"


class TooLarge(AppError):
    status = 413
    title = "Too large"


class Unprocessable(AppError):
    status = 422
    title = "Understood, but cannot be done"


class Busy(AppError):
    status = 503
    title = "Not available now"
