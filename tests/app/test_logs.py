"""Logs are JSON lines without a word of the data; a cancellation is no error in them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from app.cli import quiet
from app.settings import Settings

ROOT = Path(__file__).resolve().parents[2]

SCRIPT = """
import logging, threading, warnings
from dbos import error
from app.logs import configure, get_logger
configure("worker")
get_logger("vantage.worker").info("job begun", id="x")
engine = logging.getLogger("dbos")
engine.info("not worth a line")
secret = "SECRET"
def cause():
    raise KeyError(secret)
def broke(problem):
    try:
        cause()
    except KeyError as error:
        raise problem from error
for problem in (error.DBOSAwaitedWorkflowCancelledError("w"), ValueError(f"for {secret}")):
    try:
        broke(problem)
    except ValueError as caught:
        engine.error(f"broke on {caught}, alas", exc_info=caught)
        logging.getLogger("asyncio").error("broke %s", caught)
        logging.getLogger("nobody.knows").error(str(caught))
        try:
            get_logger("vantage.web").exception("unforeseen")
        except ValueError:
            pass
    except Exception as caught:
        engine.error("cancelled", exc_info=caught)
warnings.warn(f"look at {secret}")
thread = threading.Thread(target=broke, args=(RuntimeError(secret),))
thread.start()
thread.join()
broke(TypeError(secret))
"""


def run_script(folder: Path) -> subprocess.CompletedProcess[str]:
    script = folder / "script.py"
    script.write_text(SCRIPT)
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, check=False, env=environment
    )


def test_lines_hold_the_words_of_the_source_and_nothing_of_the_data(tmp_path: Path) -> None:
    done = run_script(tmp_path)
    assert "SECRET" not in done.stderr + done.stdout
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert [line["event"].partition(" (")[0] for line in lines] == [
        "job begun", "broke on …, alas", "broke %s", "…", "unforeseen", "…",
        "a thread was ended by an error", "ended by an error nobody thought of",
    ]  # fmt: skip
    assert lines[0] | {"timestamp": ""} == {
        "event": "job begun", "id": "x", "level": "info", "logger": "vantage.worker", "process": "worker",
        "timestamp": "",
    }  # fmt: skip
    assert lines[1]["event"].endswith("(dbos, script.py:21 <module>)")
    kinds = [line for line in lines[1]["exception"].splitlines() if not line.startswith("  ")]
    assert kinds == ["builtins.ValueError", "from builtins.KeyError"]
    assert "  script.py:11 cause" in lines[1]["exception"].splitlines()
    assert done.stdout == ""


def test_the_demo_logs_warnings_unless_a_level_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    assert quiet(Settings()).log_level == "WARNING"
    monkeypatch.setenv("VANTAGE_LOG_LEVEL", "INFO")
    assert quiet(Settings()).log_level == "INFO"
