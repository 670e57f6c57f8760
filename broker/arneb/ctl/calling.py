"""Calling: requests to one broker, by its control socket or over HTTP.

The rule: an answer is a status and a value; what was not answered is :class:`Unreachable`, with one
sentence for the user.
"""

import http.client
import json
import socket
from base64 import b64encode
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import quote, unquote, urlsplit

from arneb.control.place import connect
from arneb_core.api.connections.verification import make_context

TIMEOUT_S: Final = 60.0
"""The time limit of one request, as with ``rabbitmqctl``."""

Body = dict[str, Any] | list[Any] | str | None


class Unreachable(Exception):
    """No answer came. The text is one line for the user."""


class NoneRunning(Unreachable):
    """No broker is running that could answer."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The status and the body of a broker's answer; refusals are answers too."""

    status: int
    """The HTTP status."""
    value: Any
    """The JSON of the body; None without one."""

    @property
    def is_done(self) -> bool:
        """Whether the request succeeded."""
        return self.status < 300

    @property
    def reason(self) -> str:
        """Why it failed, in the broker's words."""
        if isinstance(self.value, dict):
            reason = self.value.get("reason") or self.value.get("error") or ""
            return reason if isinstance(reason, str) else json.dumps(reason)
        return f"status {self.status}"


class Caller(Protocol):
    """Sends requests to one broker."""

    @property
    def is_trusted(self) -> bool:
        """Whether requests go to the control socket, which can stop and start the broker."""
        ...

    def call(
        self, method: str, path: str, body: Body = None, headers: dict[str, str] | None = None
    ) -> Answer:
        """Send one request and wait for the answer, at most the caller's time limit. A text body is
        sent as a form, any other as JSON. Raises :class:`Unreachable`, and :class:`TimeoutError` if
        the broker accepted the request and has not answered in time."""
        ...


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
    is_trusted: bool = field(default=True, init=False)

    def call(
        self, method: str, path: str, body: Body = None, headers: dict[str, str] | None = None
    ) -> Answer:
        """See :class:`Caller`."""
        connection = _SocketConnection(self.directory, self.timeout_s)
        return _exchange(connection, str(self.directory), method, path, body, headers or {})


@dataclass(frozen=True, slots=True)
class HttpCaller:
    """The management API at ``http://USER:PASSWORD@HOST:PORT``, with that login."""

    url: str
    user: str = "guest"
    password: str = field(default="guest", repr=False)
    timeout_s: float = TIMEOUT_S
    ca_file: Path | None = None
    is_trusted: bool = field(default=False, init=False)

    def call(
        self, method: str, path: str, body: Body = None, headers: dict[str, str] | None = None
    ) -> Answer:
        """See :class:`Caller`."""
        parts = urlsplit(self.url)
        host, port = parts.hostname or "", parts.port
        connection: http.client.HTTPConnection
        if parts.scheme == "https":
            context = make_context(cafile=self.ca_file)
            connection = http.client.HTTPSConnection(
                host, port or 443, timeout=self.timeout_s, context=context
            )
        else:
            connection = http.client.HTTPConnection(host, port or 80, timeout=self.timeout_s)
        user = unquote(parts.username) if parts.username is not None else self.user
        password = unquote(parts.password) if parts.password is not None else self.password
        proof = b64encode(f"{user}:{password}".encode()).decode()
        sent = {"authorization": f"Basic {proof}", **(headers or {})}
        url = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
        return _exchange(connection, url, method, path, body, sent)


def _exchange(
    connection: http.client.HTTPConnection,
    where: str,
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
    except (FileNotFoundError, ConnectionRefusedError) as error:
        raise NoneRunning(f"no broker answers at {where}: none is running there") from error
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise Unreachable(f"cannot reach the broker in {where}: {reason}") from error
    except ValueError as error:
        raise Unreachable(f"{where} does not answer as an Arneb broker does") from error
    finally:
        connection.close()


def path_of(*parts: str) -> str:
    """A path of the management API: names with slashes are one part each."""
    return "/api/" + "/".join(quote(each, safe="") for each in parts)
