"""Calling: requests to one broker, by its control socket or over HTTP.

The rule: an answer is a status and a value; what was not answered is :class:`Unreachable`, with one
sentence for the user.
"""

import http.client
import json
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from arneb.control.place import connect

TIMEOUT_S: Final = 60.0
"""Of one request, as with ``rabbitmqctl``."""

Body = dict[str, Any] | list[Any] | str | None


class Unreachable(Exception):
    """Nobody answers. The text is one line for the user."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a broker answered."""

    status: int
    value: Any
    """The JSON of the body; None without one."""

    @property
    def is_done(self) -> bool:
        """It was done, or there it is."""
        return self.status < 300

    @property
    def reason(self) -> str:
        """Why it was not, in the broker's words."""
        if isinstance(self.value, dict):
            reason = self.value.get("reason") or self.value.get("error") or ""
            return reason if isinstance(reason, str) else json.dumps(reason)
        return f"status {self.status}"


class _SocketConnection(http.client.HTTPConnection):
    def __init__(self, directory: Path, timeout_s: float) -> None:
        super().__init__("localhost", timeout=timeout_s)
        self._directory = directory
        self._timeout_s = timeout_s

    def connect(self) -> None:
        self.sock: socket.socket = connect(self._directory, self._timeout_s)


@dataclass(frozen=True, slots=True)
class SocketCaller:
    """The control socket in a data directory."""

    directory: Path
    timeout_s: float = TIMEOUT_S

    def call(
        self, method: str, path: str, body: Body = None, headers: dict[str, str] | None = None
    ) -> Answer:
        """One request."""
        connection = _SocketConnection(self.directory, self.timeout_s)
        return _exchange(connection, str(self.directory), method, path, body, headers or {})


def _exchange(
    connection: http.client.HTTPConnection,
    place: str,
    method: str,
    path: str,
    body: Body,
    headers: dict[str, str],
) -> Answer:
    kind = "application/x-www-form-urlencoded" if isinstance(body, str) else "application/json"
    data = body if isinstance(body, str | None) else json.dumps(body)
    try:
        sent = None if data is None else data.encode()
        connection.request(method, path, sent, {"content-type": kind, **headers})
        answer = connection.getresponse()
        found = answer.read()
        return Answer(answer.status, json.loads(found) if found else None)
    except TimeoutError:
        raise
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise Unreachable(f"cannot reach the broker in {place}: {reason}") from error
    except ValueError as error:
        raise Unreachable(f"{place} does not answer as an Arneb broker does") from error
    finally:
        connection.close()
