"""Fetching: small answers of other servers over HTTP, each within its time.

The rule: whatever goes wrong is a :class:`Unanswered` with one line that says what was asked for
and never with what; nor does any line of a log. Only a broker whose settings name a server reads
this, and at its start: with the first login, the library would hold the event loop up for some
tenth of a second.
"""

import logging
from collections.abc import Mapping
from typing import Final

import trio
from httpx import AsyncClient, HTTPError, InvalidURL, Response

ANSWER_BYTES_MAX: Final = 1024 * 1024
"""Of one answer; a set of keys has some kilobytes, and ``allow`` has five bytes."""

AS_IT_IS: Final = {"accept-encoding": "identity"}
"""A few compressed bytes can be very many, and are never unpacked."""

REQUESTS_AT_ONCE: Final = 32
"""Of one backend."""


# At INFO it writes each URL, and passwords stand in queries.
logging.getLogger("httpx").setLevel(logging.WARNING)


class Unanswered(Exception):
    """There was no answer, or none that means anything."""


class Fetcher:
    """Asks servers."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._made: AsyncClient | None = None
        self._crowd = trio.CapacityLimiter(REQUESTS_AT_ONCE)

    def __repr__(self) -> str:
        return f"<Fetcher, {self._timeout_s} s each>"

    async def fetch(
        self, url: str, fields: Mapping[str, str] | None = None, *, post: bool = False
    ) -> bytes:
        """What ``url`` answers to ``fields``, with status 200 or 201. Raises
        :class:`Unanswered`."""
        if self._made is None:
            self._made = AsyncClient(
                follow_redirects=False, timeout=self._timeout_s, headers=AS_IT_IS
            )
        client = self._made
        try:
            with trio.fail_after(self._timeout_s):  # waiting for others included
                async with self._crowd:
                    if post:
                        request = client.build_request("POST", url, data=fields)
                    else:
                        request = client.build_request("GET", url, params=fields)
                    answer = await client.send(request, stream=True)
                    try:
                        return await _body(url, answer)
                    finally:
                        await answer.aclose()
        except trio.TooSlowError:
            raise Unanswered(f"{url} did not answer within {self._timeout_s:g} s") from None
        except (HTTPError, InvalidURL, OSError) as error:
            # Its own text may hold the query.
            raise Unanswered(f"{url} did not answer: {type(error).__name__}") from None

    async def close(self) -> None:
        """Close the connections that are kept open."""
        if self._made is not None:
            await self._made.aclose()


async def _body(url: str, answer: Response) -> bytes:
    if answer.status_code not in (200, 201):
        raise Unanswered(f"{url} answered with status {answer.status_code}")
    body = bytearray()
    async for piece in answer.aiter_raw():
        body += piece
        if len(body) > ANSWER_BYTES_MAX:
            raise Unanswered(f"{url} answered more than {ANSWER_BYTES_MAX} bytes")
    return bytes(body)
