"""The audit log: who changed what, from where, and what came of it, one JSON object a line.

The rule: a record is written before the answer is sent, and never holds a password: of a request's
fields, only those known to hold no secret are shown with their values, all others by name. The file
may be moved away at any time: the next record makes a new one.
"""

import json
import logging
import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import trio

from arneb.logs.log_lines import utc_time
from arneb.logs.shard_label import labelled_shard, shard_label
from arneb.settings.tls import NO_FILE
from arneb_core.api.process.clock import wall_clock_ms

logger = logging.getLogger(__name__)

MODE: Final = 0o640

SHOWN: Final[Mapping[str, frozenset[str]]] = {
    "permissions": frozenset({"configure", "write", "read"}),
    "topic-permissions": frozenset({"exchange", "write", "read"}),
    "users": frozenset({"tags"}),
    "vhosts": frozenset({"description", "tags", "default_queue_type", "tracing"}),
    "policies": frozenset({"pattern", "definition", "priority", "apply-to"}),
    "operator-policies": frozenset({"pattern", "definition", "priority", "apply-to"}),
    "vhost-limits": frozenset({"value"}),
    "user-limits": frozenset({"value"}),
    "queues": frozenset({"durable", "auto_delete", "arguments", "ackmode", "count"}),
    "exchanges": frozenset({"type", "durable", "auto_delete", "internal", "routing_key"}),
    "bindings": frozenset({"routing_key", "arguments"}),
    "cluster-name": frozenset({"name"}),
    "alarms": frozenset(
        {"memory_high_watermark", "memory_high_watermark_bytes", "disk_free_min_bytes"}
    ),
    "settings": frozenset({"channel_max", "consumer_timeout_s", "loopback_users", "log_level"}),
}
"""The fields of a request that hold no secret and are shown whole, by the noun of its path."""

VALUE_CHARACTERS_MAX: Final = 1000
"""The most characters of one field that are shown."""


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """One administrative action."""

    user: str
    """The user name that was given, authenticated or not."""
    by: str
    """How the request came: the name of a listener, ``control`` or ``signal``."""
    origin: str
    """The client's address, or its user of the operating system."""
    action: str
    outcome: str
    """``done``, ``refused`` (for lack of rights), ``rejected`` (a bad request) or ``failed``."""
    status: int = 0
    fields: Mapping[str, Any] = field(default_factory=dict)
    """The request's fields, as far as they are shown."""

    def line(self, now_ms: int) -> str:
        """Return the record as a line, with its shard where there are several."""
        found = {
            "time": utc_time(now_ms / 1000),
            "user": self.user,
            "by": self.by,
            "from": self.origin,
            "action": self.action,
            "outcome": self.outcome,
            "status": self.status,
            "fields": self.fields,
        }
        if label := shard_label():
            found["shard"] = label
        return json.dumps(found, ensure_ascii=True)


def shown_fields(noun: str, sent: Mapping[str, Any]) -> dict[str, Any]:
    """Return a request's fields as shown: values that hold no secret, and for others a mark that
    they were given."""
    allowed = SHOWN.get(noun, frozenset())
    return {name: _short(value) if name in allowed else "…" for name, value in sent.items()}


def _short(value: Any) -> Any:
    text = json.dumps(value)
    return value if len(text) <= VALUE_CHARACTERS_MAX else f"{text[:VALUE_CHARACTERS_MAX]}…"


class AuditLog:
    """Writes records to a file, if one is configured, and to the log."""

    def __init__(self, path: Path = NO_FILE) -> None:
        self._path = path
        self._fd = -1
        self._lock = threading.Lock()
        if path != NO_FILE:
            self._open()

    def __repr__(self) -> str:
        return f"<AuditLog {self._path}>"

    @property
    def is_kept(self) -> bool:
        """Whether records are written anywhere: to a file, or to a log at its level."""
        return self._path != NO_FILE or logger.isEnabledFor(logging.INFO)

    async def record(self, record: AuditRecord) -> None:
        """Write one record. A disk error is only logged: the action has happened."""
        line = record.line(wall_clock_ms())
        with labelled_shard(""):  # the record already names it
            logger.info("%s", line)
        if self._path == NO_FILE:
            return
        with trio.CancelScope(shield=True):
            try:
                await trio.to_thread.run_sync(self._write, f"{line}\n".encode())
            except OSError as error:
                logger.error("cannot write %s: %s", self._path, error.strerror)

    def reopen(self) -> None:
        """Open the file by its name again, whatever became of the open one. Raises
        :class:`OSError`, and then keeps the open one."""
        if self._path != NO_FILE:
            with self._lock:
                self._open()

    def close(self) -> None:
        """Close the file. Idempotent."""
        with self._lock:
            if self._fd >= 0:
                os.close(self._fd)
                self._fd = -1

    def _open(self) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        fd = os.open(self._path, flags, MODE)
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = fd

    def _write(self, line: bytes) -> None:
        with self._lock:
            if self._fd < 0 or self._is_moved():
                self._open()
            os.write(self._fd, line)

    def _is_moved(self) -> bool:
        try:
            there = os.stat(self._path)
        except FileNotFoundError:
            return True
        return not os.path.samestat(there, os.fstat(self._fd))


NO_AUDIT: Final = AuditLog()
