"""Answers by HTTP, read whole.

The rule: whoever answers can neither fill the client's memory nor keep it waiting a byte at a time.
"""

from typing import Final

import anyio
import httpx

from arneb_pulsar.client.errors import UnexpectedAnswer

ANSWER_BYTES_MAX: Final = 64 * 1024 * 1024
"""Of one answer, unpacked: the names of half a million topics."""


async def answer_of(http: httpx.AsyncClient, request: httpx.Request) -> httpx.Response:
    """The answer, whatever its status; of a redirect only where it leads. All of it may take as
    long as ``http`` waits for a byte. Raises :class:`UnexpectedAnswer` of one that is too large,
    :class:`TimeoutError`, and what httpx raises."""
    with anyio.fail_after(http.timeout.read):
        answer = await http.send(request, stream=True, follow_redirects=False)
        try:
            if answer.next_request is not None:
                return answer
            body = bytearray()
            async for piece in answer.aiter_bytes():
                body += piece
                if len(body) > ANSWER_BYTES_MAX:
                    raise UnexpectedAnswer(
                        f"expected an answer of at most {ANSWER_BYTES_MAX} bytes of "
                        f"{request.url.netloc.decode()}, got more"
                    )
        finally:
            await answer.aclose()
    kept = {name: answer.headers[name] for name in ("Content-Type",) if name in answer.headers}
    return httpx.Response(answer.status_code, headers=kept, content=bytes(body), request=request)
