"""Logs are JSON lines; a cancellation is no error in them."""

import json
import subprocess
import sys

import pytest

from app.cli import quiet
from app.settings import Settings

SCRIPT = """
import logging
from dbos import error
from app.logs import configure, get_logger
configure("worker")
get_logger("vantage.worker").info("job begun", id="x")
engine = logging.getLogger("dbos")
engine.info("not worth a line")
for problem in (error.DBOSAwaitedWorkflowCancelledError("w"), ValueError("v")):
    try:
        raise problem
    except ValueError as caught:
        engine.error("broke", exc_info=caught)
    except Exception as caught:
        engine.error("cancelled", exc_info=caught)
"""


def test_logs_are_json_lines_without_cancellations() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert [line["event"] for line in lines] == ["job begun", "broke"]
    assert lines[0] | {"timestamp": ""} == {
        "event": "job begun", "id": "x", "level": "info", "logger": "vantage.worker", "process": "worker",
        "timestamp": "",
    }  # fmt: skip
    assert "ValueError: v" in lines[1]["exception"]
    assert done.stdout == ""


def test_the_demo_logs_warnings_unless_a_level_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    assert quiet(Settings()).log_level == "WARNING"
    monkeypatch.setenv("VANTAGE_LOG_LEVEL", "INFO")
    assert quiet(Settings()).log_level == "INFO"
