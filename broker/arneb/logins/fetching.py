"""Fetching: small answers from other servers over HTTP, each within a time limit.

The rule: every failure is an :class:`Unanswered` with one line that names the URL and never the
fields sent; no log line has them either. Only a broker whose settings name a server imports this,
at its start: at the first login, the import would block the event loop for some tenth of a second.
"""

import logging
from collections.abc import Mapping
from typing import Final

import trio
from httpx import AsyncClient, HTTPError, InvalidURL, Response

ANSWER_BYTES_MAX: Final = 1024 * 1024
"""The most bytes of an answer; a set of keys has some kilobytes, ``allow`` five bytes."""

AS_IT_IS: Final = {"accept-encoding": "identity"}
"""Headers that ask for uncompressed answers: few compressed bytes can become very many."""

REQUESTS_AT_ONCE: Final = 32
"""The most simultaneous requests of one backend."""


# At INFO it logs each URL, whose query may contain passwords.
logging.getLogger("httpx").setLevel(logging.WARNING)


class Unanswered(Exception):
    """There was no answer, or no usable one."""


class Fetcher:
    """Sends requests to servers."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._made: AsyncClient | None = None
        self._crowd = trio.CapacityLimiter(REQUESTS_AT_ONCE)

    def __repr__(self) -> str:
        return f"<Fetcher, {self._timeout_s} s each>"

    async def fetch(
        self, url: str, fields: Mapping[str, str] | None = None, *, post: bool = False
    ) -> bytes:
        """Return what ``url`` answers to ``fields``, with status 200 or 201. Raises
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
            # The error's own text may contain the query.
            raise Unanswered(f"{url} did not answer: {type(error).__name__}") from None

    async def close(self) -> None:
        """Close the idle connections."""
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
