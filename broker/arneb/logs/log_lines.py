"""Log lines: what ``arneb serve`` writes on standard error, as text or as JSON.

The rule: every character of a name from outside is visible, escaped by :func:`.visible` in text and
by JSON's own escapes in JSON, so that a topic's name cannot control the operator's terminal. A JSON
record is one line, whatever is in it.
"""

import json
import logging
import sys
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Final

from arneb.logs.shard_label import shard_label
from arneb.logs.visible import visible
from arneb.settings.process import LogFormat, LogLevel

TEXT_FORMAT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"

Say = Callable[[str], None]
"""Tells the user one line."""

ANNOUNCER: Final = "arneb"
"""The logger named in JSON records of lines that are otherwise printed on standard output."""


class VisibleFormatter(logging.Formatter):
    """Text lines with invisible characters escaped; a traceback keeps its lines. Where there are
    several shards, the message begins with its shard."""

    def format(self, record: logging.LogRecord) -> str:
        if label := shard_label():
            labelled = {"msg": f"shard {label}: {record.getMessage()}", "args": ()}
            record = logging.makeLogRecord({**vars(record), **labelled})  # other handlers share it
        return "\n".join(map(visible, super().format(record).split("\n")))


class JsonFormatter(logging.Formatter):
    """One JSON object a record: ``time`` (UTC, ISO 8601), ``level``, ``logger``, ``message``; if
    there is one, ``exception`` with the whole traceback; where there are several, ``shard``."""

    def format(self, record: logging.LogRecord) -> str:
        fields = {
            "time": utc_time(record.created),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if label := shard_label():
            fields["shard"] = label
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        if record.stack_info:
            fields["stack"] = self.formatStack(record.stack_info)
        return _visible_json(json.dumps(fields, ensure_ascii=False))


def utc_time(seconds: float) -> str:
    """Return a time as ``2026-01-31T23:59:59.123Z``."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S.%f}"[:-3] + "Z"


def set_up_logging(level: LogLevel, form: LogFormat, file: Path | None = None) -> None:
    """Set up logging for the whole process: to ``file``, which may be moved away at any time, or to
    standard error. Raises :class:`OSError`."""
    handler: logging.Handler = logging.StreamHandler()
    if file is not None:
        from logging.handlers import WatchedFileHandler

        handler = WatchedFileHandler(file)
    handler.setFormatter(
        JsonFormatter() if form is LogFormat.JSON else VisibleFormatter(TEXT_FORMAT)
    )
    logging.basicConfig(handlers=[handler], level=level.number)
    if form is LogFormat.JSON:
        # Python would print warnings and uncaught errors itself, not as JSON.
        logging.captureWarnings(True)
        sys.excepthook = _log_uncaught
        threading.excepthook = _log_uncaught_in_thread
        sys.unraisablehook = _log_unraisable


def set_log_level(level: LogLevel) -> None:
    """Write records of this level and above from now on."""
    logging.getLogger().setLevel(level.number)


def announcer(form: LogFormat, echo: Say) -> Say:
    """Return a function that tells the user one line by ``echo``: as text, or as a JSON record."""
    if form is LogFormat.TEXT:
        return lambda line: echo(visible(line))
    formatter = JsonFormatter()

    def announce(line: str) -> None:
        fields = {"name": ANNOUNCER, "levelno": logging.INFO, "levelname": "INFO", "msg": line}
        echo(formatter.format(logging.makeLogRecord(fields)))

    return announce


def _log_uncaught(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    logging.getLogger(ANNOUNCER).critical("uncaught error", exc_info=(kind, error, trace))


def _log_uncaught_in_thread(args: threading.ExceptHookArgs) -> None:
    logging.getLogger(ANNOUNCER).critical(
        "uncaught error in thread %s", args.thread and args.thread.name, exc_info=args.exc_value
    )


def _log_unraisable(args: "sys.UnraisableHookArgs") -> None:
    logging.getLogger(ANNOUNCER).error("error ignored in %r", args.object, exc_info=args.exc_value)


def _visible_json(text: str) -> str:
    """Return JSON ``text`` with JSON's escapes for unprintable characters, which occur only in its
    strings."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else json.dumps(each)[1:-1] for each in text)
