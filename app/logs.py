"""Structured logs: one JSON object a line on standard error, with the request id where there is one.

No rollout text, token or password is ever a field of a log line; ids, counts, states and times are. What
comes with an exception or from a library is brought into that form by `app.log_texts`.
"""

import logging
import sys

import structlog
from structlog.typing import EventDict

from app.log_texts import log_what_nobody_caught, without_texts

#: What a person asked for is no error: the engine logs a traceback for each cancelled job.
EXPECTED = ("DBOSAwaitedWorkflowCancelledError", "DBOSWorkflowCancelledError", "DBOSWorkflowConflictIDError")


class DropCancellations(logging.Filter):
    """Drops the job engine's traceback about a job that was cancelled or handed to another worker."""

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        return type(error).__name__ not in EXPECTED


def configure(process: str, level: str = "INFO") -> None:
    """Send structlog and the standard loggers to standard error as JSON; `process` names this one."""

    def name_process(_logger: object, _method: str, event: EventDict) -> EventDict:
        event["process"] = process
        return event

    shared: list[structlog.typing.Processor] = [
        name_process,
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                without_texts,
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.JSONRenderer(),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level)
    # Warnings of libraries, too, may quote what they warn of; and nothing may go past the handler.
    logging.captureWarnings(True)
    logging.lastResort = None
    log_what_nobody_caught()
    _tame("dbos", "WARNING")
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access", "alembic"):
        _tame(name, "WARNING")


def _tame(name: str, level: str) -> None:
    """Let a library log through the root only, and not below `level`."""
    logger = logging.getLogger(name)
    # An existing handler keeps the job engine from adding its own, which writes plain text.
    logger.handlers = [logging.NullHandler()]
    logger.propagate = True
    logger.setLevel(level)
    logger.addFilter(DropCancellations())


def get_logger(name: str) -> structlog.stdlib.BoundLogger:
    logger: structlog.stdlib.BoundLogger = structlog.stdlib.get_logger(name)
    return logger
