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
    """After a signal to stop, how long clients are still served while ``/readyz`` already answers
    503, so that load balancers can send them elsewhere. A second signal ends the process at
    once."""

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
        """The level's number in :mod:`logging`."""
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
    """The least severe level that is written: ``debug``, ``info``, ``warning`` or ``error``."""

    format: LogFormat = LogFormat.TEXT
    """``text``, or ``json``: one JSON object per line, on standard output too."""

    file: Path = NO_FILE
    """A file to write to instead of standard error. It may be moved away at any time; the next line
    creates a new one."""


@dataclass(frozen=True, slots=True)
class AuditTable:
    """Who changed what."""

    file: Path = NO_FILE
    """A file with one JSON object per line for each administrative action: who, from where, what,
    and the outcome; never a password. It may be moved away at any time. Without it these records
    are only in the log, at level ``info``."""


@dataclass(frozen=True, slots=True)
class TracesTable:
    """OpenTelemetry spans, for messages whose header or property ``traceparent`` has the sampled
    flag. Needs ``pip install arneb[traces]``."""

    endpoint: str = ""
    """A collector of OTLP over HTTP, such as ``http://localhost:4318/v1/traces``; empty: no spans.
    For the rest, set the library's variables ``OTEL_EXPORTER_OTLP_…``."""

    service_name: str = "arneb"
    """The broker's name in traces."""

    queued_max: int = 8192
    """The maximum number of spans waiting to be sent; more are dropped."""

    delay_s: float = 1.0
    """The maximum time that a span waits to be sent together with others."""

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
    """Aids for finding faults, which cost some performance."""

    turn_watchdog: bool = False
    """Measure how long each task blocks the event loop; shown by ``/api/turns``."""


DEFAULT_STOP: Final = StopTable()
DEFAULT_LOG: Final = LogTable()
DEFAULT_AUDIT: Final = AuditTable()
DEFAULT_TRACES: Final = TracesTable()
DEFAULT_DEBUG: Final = DebugTable()
