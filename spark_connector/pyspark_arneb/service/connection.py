"""A connection to the data API: sends requests, returns responses, and retries what may be sent
again.

The rule: one connection for each process and thread, opened on first use, so that objects with a
connection are sent from the driver to the executors as an address. It needs only Python's own HTTP
client.
"""

import json
import logging
import os
import ssl
import time
from base64 import b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from threading import local
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

from arneb_core.api.connections.verification import make_context
from pyspark_arneb.service.errors import ServiceError

ROOT: Final = "/data/v1"

GUEST: Final = "guest:guest"
"""The login accepted from the broker's own machine as long as no other user was created."""

ATTEMPTS: Final = 5
PAUSE_S: Final = 0.1
"""Seconds before the second attempt, doubled before each further one: three seconds in all."""

TIMEOUT_S: Final = 60.0
"""Seconds without a byte from the broker before a request fails."""

KEPT_S: Final = 10.0
"""Seconds for which an idle connection is reused: the broker closes it after 30 s, and a request at
that moment would fail needlessly."""

UNTRUSTED: Final = "untrusted"
"""The code of a permanent error: no trusted authority signed the broker's certificate."""

ANSWER_BYTES_MAX: Final = 256 * 1024 * 1024
"""The largest response that is kept whole: the names of a million topics."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Address:
    """Where the broker is and which user connects: ``guest`` if none is given, as with RabbitMQ's
    clients. ``token`` overrides ``user``. ``authorities``: the CA certificates that verify the
    broker's, in PEM, instead of the system's; not a file name, because executors need not have the
    file."""

    url: str
    user: str = ""
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    authorities: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        try:
            port_is_one = parts.port is None or parts.port > 0
        except ValueError:
            port_is_one = False
        if parts.scheme not in ("http", "https") or not parts.hostname or not port_is_one:
            raise ValueError(f"expected http://host:port or https://host:port, got {self.url!r}")
        if parts.username or parts.password:
            raise ValueError("expected no password in the address; there are options for it")
        if parts.path.strip("/") or parts.query or parts.fragment:
            raise ValueError(f"expected nothing after host and port, got {self.url!r}")

    def __str__(self) -> str:
        return self.url

    @property
    def headers(self) -> dict[str, str]:
        """Return the headers with the credentials of every request."""
        if self.token:
            return {"authorization": f"Bearer {self.token}"}
        user = f"{self.user}:{self.password}" if self.user else GUEST
        return {"authorization": f"Basic {b64encode(user.encode()).decode()}"}

    def connect(self) -> HTTPConnection:
        """Return a connection, which is opened by the first request."""
        parts = urlsplit(self.url)
        assert parts.hostname is not None, "looked at when it was made"
        if parts.scheme == "http":
            return HTTPConnection(parts.hostname, parts.port, timeout=TIMEOUT_S)
        context = make_context(cadata=self.authorities or None)
        return HTTPSConnection(parts.hostname, parts.port, timeout=TIMEOUT_S, context=context)


class _Kept(local):
    """The connections of one thread, by address."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.by_address: dict[Address, tuple[HTTPConnection, float]] = {}
        """Each connection with the time of its last use."""


_kept: Final = _Kept()


def close_connections() -> None:
    """Close this thread's connections."""
    while _kept.by_address:
        _, (connection, _) = _kept.by_address.popitem()
        if _kept.pid == os.getpid():
            connection.close()


def ask(
    address: Address,
    method: str,
    path: str,
    *,
    parameters: Mapping[str, object] | None = None,
    body: Any = None,
    rows: bytes | None = None,
    again: bool = True,
) -> Any:
    """Send a request with a JSON ``body`` or with ``rows``, and return the response's JSON.
    ``again``: it may be sent again if its outcome is unknown. Raises :class:`ServiceError`."""
    for attempt in range(1, ATTEMPTS + 1):
        try:
            with _response(address, method, path, parameters, body, rows) as response:
                return _document(response)
        except ServiceError as error:
            is_lost = error.status == 0 and error.code != UNTRUSTED
            may = error.status == 503 or (is_lost and again)
            if not may or attempt == ATTEMPTS:
                raise
            pause(attempt, error)
    raise AssertionError("the last attempt returns or raises")


@contextmanager
def opened(address: Address, path: str, parameters: Mapping[str, object]) -> Iterator[HTTPResponse]:
    """Yield the response to a ``GET``, to be read piece by piece. Raises :class:`ServiceError`."""
    with _response(address, "GET", path, parameters, None, None) as response:
        yield response


def pause(attempt: int, error: ServiceError) -> None:
    """Wait before the next attempt."""
    pause_s = PAUSE_S * 2 ** (attempt - 1)
    logger.info("asking again in %.1f s: %s", pause_s, error)
    time.sleep(pause_s)


@contextmanager
def _response(
    address: Address,
    method: str,
    path: str,
    parameters: Mapping[str, object] | None,
    body: Any,
    rows: bytes | None,
) -> Iterator[HTTPResponse]:
    target = f"{ROOT}{path}"
    if parameters:
        target += "?" + urlencode(parameters, doseq=True)
    headers, data = address.headers, rows
    if rows is not None:
        headers["content-type"] = "application/vnd.arneb.rows"
    elif body is not None:
        headers["content-type"], data = "application/json", json.dumps(body).encode()
    connection = _take(address)
    whole = False
    try:
        response = _answer(connection, method, target, data, headers)
        if response.status >= 300:
            raise _refusal(address, response)
        yield response
        whole = response.isclosed()
    except (OSError, HTTPException) as error:
        raise _unreachable(address, error) from error
    finally:
        # A connection whose response was not read to its end cannot be reused.
        if whole:
            _kept.by_address[address] = connection, time.monotonic()
        else:
            connection.close()


def _answer(
    connection: HTTPConnection,
    method: str,
    target: str,
    data: bytes | None,
    headers: Mapping[str, str],
) -> HTTPResponse:
    try:
        connection.request(method, target, data, headers)
    except (BrokenPipeError, ConnectionResetError) as error:
        # A broker that refuses a body by its length answers at once, and closes the connection.
        try:
            return connection.getresponse()
        except (OSError, HTTPException):
            raise error from None
    return connection.getresponse()


def _take(address: Address) -> HTTPConnection:
    """Take the thread's connection out for exclusive use."""
    if _kept.pid != os.getpid():  # a fork shares the sockets of its parent
        _kept.pid, _kept.by_address = os.getpid(), {}
    connection, used_at = _kept.by_address.pop(address, (None, 0.0))
    if connection is not None and time.monotonic() - used_at < KEPT_S:
        return connection
    if connection is not None:
        connection.close()
    return address.connect()


def _document(response: HTTPResponse) -> Any:
    data = response.read(ANSWER_BYTES_MAX + 1)
    if len(data) > ANSWER_BYTES_MAX:
        raise HTTPException(f"more than {ANSWER_BYTES_MAX} bytes")
    response.read()
    try:
        return json.loads(data)
    except ValueError as error:
        raise HTTPException(f"expected JSON, got {data[:40]!r}") from error


def _refusal(address: Address, response: HTTPResponse) -> ServiceError:
    return ServiceError.from_document(response.read(64 * 1024), str(address), response.status)


def _unreachable(address: Address, error: Exception) -> ServiceError:
    if isinstance(error, ssl.SSLCertVerificationError):
        text = f"the broker at {address} is not vouched for: {error.verify_message}"
        return ServiceError(UNTRUSTED, f"{text} (option service.caFile)")
    text = str(error) or type(error).__name__
    return ServiceError("unreachable", f"cannot reach the broker at {address}: {text}")
