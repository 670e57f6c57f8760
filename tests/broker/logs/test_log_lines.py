"""Log lines: JSON that any collector can read, whatever a record contains."""

import json
import logging
import re
import signal
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arneb.logs.log_lines import JsonFormatter, announcer, utc_time
from arneb.settings.config import ConfigInvalid, load_config
from arneb.settings.process import LogFormat, LogLevel

NOTHING_ON = ("--amqp=off", "--pulsar=off", "--http=off", "--http-pulsar=off")
FIELDS = ("time", "level", "logger", "message")


def record(message: str, *args: object, error: BaseException | None = None) -> logging.LogRecord:
    info = None if error is None else (type(error), error, error.__traceback__)
    return logging.LogRecord("arneb.x", logging.ERROR, "", 0, message, args, info)


@given(st.text(st.characters()))
def test_a_record_is_one_line_of_json_that_contains_its_message(text: str) -> None:
    line = JsonFormatter().format(record("%s", text))
    assert line.isprintable()
    found = json.loads(line)
    assert tuple(found) == FIELDS
    assert found["message"] == text
    assert (found["level"], found["logger"]) == ("ERROR", "arneb.x")


def test_names_stay_readable() -> None:
    assert "größe/訂單" in JsonFormatter().format(record("topic größe/訂單"))
    assert r"a\u202eb\u001b[2J" in JsonFormatter().format(record("a\u202eb\x1b[2J"))


@given(st.integers(0, 4_000_000_000_000))
def test_the_time_is_utc_in_milliseconds(ms: int) -> None:
    written = utc_time(ms / 1000)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", written)
    assert abs(datetime.fromisoformat(written).timestamp() * 1000 - ms) <= 1


def test_an_exception_is_one_field() -> None:
    try:
        raise ValueError("two\nlines \x1b[31m")
    except ValueError as error:
        line = JsonFormatter().format(record("failed", error=error))
    found = json.loads(line)
    assert tuple(found) == (*FIELDS, "exception")
    assert found["exception"].startswith("Traceback (most recent call last):\n")
    assert found["exception"].endswith("ValueError: two\nlines \x1b[31m")


def test_announcements_are_records_too() -> None:
    lines: list[str] = []
    announcer(LogFormat.TEXT, lines.append)("ready\x1b")
    announcer(LogFormat.JSON, lines.append)("ready\x1b")
    assert lines[0] == r"ready\x1b"
    found = json.loads(lines[1])
    assert (found["level"], found["logger"], found["message"]) == ("INFO", "arneb", "ready\x1b")


def test_options_override_the_file(tmp_path: Path) -> None:
    file = tmp_path / "arneb.toml"
    file.write_text('[log]\nlevel = "error"\nformat = "json"\n')
    config = load_config(file)
    assert (config.log.level, config.log.format) == (LogLevel.ERROR, LogFormat.JSON)
    config = load_config(file, log_level="debug", log_format="text")
    assert (config.log.level, config.log.format) == (LogLevel.DEBUG, LogFormat.TEXT)
    file.write_text('[log]\nlevel = "loud"\n')
    with pytest.raises(ConfigInvalid, match="log.level: expected one of debug, info, warning"):
        load_config(file)


def serve(data: Path, *options: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "arneb", "serve", "--data-dir", str(data), *NOTHING_ON, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def records(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_everything_that_a_broker_writes_is_json(tmp_path: Path) -> None:
    """What it prints, what it logs (a directory that is gone cannot be watched), and how it
    ends."""
    data = tmp_path / "data"
    with serve(data, "--log-format=json", "--http=127.0.0.1:0") as broker:
        assert broker.stdout is not None
        first = [json.loads(broker.stdout.readline()) for _ in range(3)]
        assert first[0]["message"].startswith("arneb ")
        assert first[2]["message"].startswith("http ready on 127.0.0.1:")
        with serve(data, "--log-format=json") as second:
            out, errors = second.communicate(timeout=30)
            assert (second.returncode, out) == (2, "")
            [refusal] = records(errors)
            assert refusal["level"] == "CRITICAL"
            assert "in use by another broker" in refusal["message"]
        data.rename(tmp_path / "elsewhere")
        assert broker.stderr is not None
        warning = json.loads(broker.stderr.readline())
        assert warning["level"] == "WARNING"
        assert warning["message"].startswith("cannot read free disk space of ")
        broker.send_signal(signal.SIGTERM)
        out, errors = broker.communicate(timeout=30)
        assert [each["message"] for each in records(out)][-1] == "stopped"
        assert all(tuple(each)[:4] == FIELDS for each in records(errors))


SET_UP = """
import logging, threading, warnings
from arneb.logs.log_lines import set_up_logging
from arneb.settings.process import LogFormat, LogLevel
set_up_logging(LogLevel.{level}, LogFormat.{form})
"""


def logged(level: str, form: str, code: str) -> str:
    """What a process that sets up logging and runs ``code`` writes to standard error."""
    program = SET_UP.format(level=level, form=form) + code
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.stdout == ""
    return done.stderr


@pytest.mark.parametrize("level", list(LogLevel))
def test_a_level_leaves_out_what_is_below_it(level: LogLevel) -> None:
    code = "for each in LogLevel: logging.getLogger('a').log(each.number, each.value)"
    written = [each["message"] for each in records(logged(level.name, "JSON", code))]
    levels = [each.value for each in LogLevel]
    assert written == levels[levels.index(level.value) :]


def test_what_python_would_print_is_json_too() -> None:
    code = """
warnings.warn("old")
thread = threading.Thread(target=lambda: 1 / 0, name="t")
thread.start(); thread.join()
class Sly:
    def __del__(self): raise ValueError("in the end")
Sly()
raise KeyError("k")
"""
    warning, thread, unraisable, uncaught = records(logged("WARNING", "JSON", code))
    assert "old" in warning["message"]
    assert (thread["message"], thread["level"]) == ("uncaught error in thread t", "CRITICAL")
    assert "ZeroDivisionError" in thread["exception"]
    assert "in the end" in unraisable["exception"]
    assert uncaught["exception"].endswith("KeyError: 'k'")


def test_an_unknown_level_is_refused(tmp_path: Path) -> None:
    with serve(tmp_path / "data", "--log-level=loud") as broker:
        _, errors = broker.communicate(timeout=30)
        assert broker.returncode == 2
        assert errors.startswith("arneb: Invalid value for '--log-level'")
