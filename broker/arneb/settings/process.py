"""The settings of the process: how it stops, what it writes, and what it measures of itself."""

import logging
from dataclasses import dataclass
from enum import Enum
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from arneb.settings.tls import NO_FILE


@dataclass(frozen=True, slots=True)
class StopTable:
    """How the broker stops."""

    unready_s: float = 0.0
    """How long clients are still served after a signal to stop, while ``/readyz`` says 503 already:
    for load balancers, to send them elsewhere. A second signal ends the process at once."""

    def __post_init__(self) -> None:
        if not 0 <= self.unready_s <= 3600:
            raise ValueError(f"expected unready_s from 0 to 3600, got {self.unready_s}")


class LogLevel(Enum):
    """The least severe records that are written."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"

    @property
    def number(self) -> int:
        """The same in the words of :mod:`logging`."""
        number: int = getattr(logging, self.name)
        return number


class LogFormat(Enum):
    """How a record is written."""

    TEXT = "text"
    JSON = "json"


@dataclass(frozen=True, slots=True)
class LogTable:
    """What the broker writes on standard error."""

    level: LogLevel = LogLevel.WARNING
    """The least severe records that are written: ``debug``, ``info``, ``warning`` or ``error``."""

    format: LogFormat = LogFormat.TEXT
    """``text``, or ``json``: one JSON object a line, what is printed on standard output
    included."""

    file: Path = NO_FILE
    """A file for what is otherwise written on standard error. It may be moved away at any time; the
    next line makes a new one."""


@dataclass(frozen=True, slots=True)
class AuditTable:
    """Who changed what."""

    file: Path = NO_FILE
    """A file for one JSON object a line, of each administrative action: who, from where, what, and
    what came of it; never a password. It may be moved away at any time. Without it such records
    are in the log only, at ``info``."""


@dataclass(frozen=True, slots=True)
class TracesTable:
    """Spans of OpenTelemetry, for messages whose header or property ``traceparent`` says that their
    trace is recorded. Needs ``pip install arneb[traces]``."""

    endpoint: str = ""
    """Where a collector takes OTLP over HTTP, such as ``http://localhost:4318/v1/traces``; empty:
    there are no spans. The library's own variables ``OTEL_EXPORTER_OTLP_…`` say the rest."""

    service_name: str = "arneb"
    """What the broker is called in traces."""

    queued_max: int = 8192
    """The most spans that wait to be sent; more are dropped."""

    delay_s: float = 1.0
    """The longest time that a span waits for others to be sent with."""

    def __post_init__(self) -> None:
        if self.endpoint and not self.endpoint.startswith(("http://", "https://")):
            raise ValueError(f"expected endpoint to be a URL of http or https, got {self.endpoint}")
        if self.queued_max < 1:
            raise ValueError(f"expected queued_max of at least 1, got {self.queued_max}")
        if not 0.01 <= self.delay_s <= 60:
            raise ValueError(f"expected delay_s from 0.01 to 60, got {self.delay_s}")
        if self.endpoint and find_spec("opentelemetry") is None:
            raise ValueError("endpoint needs OpenTelemetry: pip install 'arneb[traces]'")


@dataclass(frozen=True, slots=True)
class DebugTable:
    """What helps to find faults and costs something."""

    turn_watchdog: bool = False
    """Measure how long every task blocks the event loop; ``/api/turns`` shows it."""


DEFAULT_STOP: Final = StopTable()
DEFAULT_LOG: Final = LogTable()
DEFAULT_AUDIT: Final = AuditTable()
DEFAULT_TRACES: Final = TracesTable()
DEFAULT_DEBUG: Final = DebugTable()
