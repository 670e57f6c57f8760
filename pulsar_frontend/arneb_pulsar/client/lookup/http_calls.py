"""HTTP calls: one request to a broker's HTTP port, and its response.

The rule: redirects are followed with the client's credentials, which are never sent over HTTP after
a call over HTTPS; failures below HTTP become the client's own errors, and a server can neither fill
the client's memory nor keep it waiting.
"""

import socket
import ssl
from collections.abc import Iterator, Mapping
from typing import Any, Final

import httpx

from arneb_pulsar.client.connection.authentication import Authentication, proof
from arneb_pulsar.client.connection.http_answers import answer_of
from arneb_pulsar.client.errors import (
    ConnectError,
    NotPulsar,
    TimedOut,
    TlsFailed,
    UnknownAddress,
)

REDIRECTS_MAX: Final = 20
"""Redirects of one call, as many as in lookups by the binary protocol."""


async def call(
    http: httpx.AsyncClient,
    authentication: Authentication,
    method: str,
    url: str,
    what: str,
    *,
    query: Mapping[str, str] | None = None,
    body: Any = None,
) -> httpx.Response:
    """Send a request and return the response, whatever its status; ``what`` names the call in
    errors. Each redirect may take as long as the read timeout of ``http``. Raises
    :class:`ConnectError`, :class:`TimedOut`, :class:`AuthenticationFailed`, and
    :class:`UnexpectedAnswer` if the response is too large."""
    request = http.build_request(method, url, params=query, json=body)
    is_secret = request.url.scheme == "https"
    for _ in range(REDIRECTS_MAX):
        if not is_secret or request.url.scheme == "https":
            request.headers.update(await proof(authentication, authentication.headers))
        host = request.url.netloc.decode()
        try:
            answer = await answer_of(http, request)
        except (httpx.TimeoutException, TimeoutError) as error:
            raise TimedOut(f"{what}: no answer of {host}: {error!r}") from error
        except httpx.HTTPError as error:
            text = f"{what}: expected an answer of {host}, got {error!r}"
            raise _kind_of(error)(text) from error
        if answer.next_request is None:
            return answer
        request = answer.next_request
    raise ConnectError(f"{what}: redirected {REDIRECTS_MAX} times, last to {request.url}")


def _kind_of(error: BaseException) -> type[ConnectError]:
    if "illegal status line" in str(error):
        return NotPulsar
    for cause in _causes_of(error):
        if isinstance(cause, ssl.SSLError):
            return TlsFailed
        if isinstance(cause, socket.gaierror):
            return UnknownAddress
    return ConnectError


def _causes_of(error: BaseException) -> Iterator[BaseException]:
    found: BaseException | None = error
    while found is not None:
        yield found
        found = found.__cause__ or found.__context__
