"""Reading complete HTTP responses.

The rule: a server can neither fill the client's memory nor keep it waiting byte by byte.
"""

from typing import Final

import anyio
import httpx

from arneb_pulsar.client.errors import UnexpectedAnswer

ANSWER_BYTES_MAX: Final = 64 * 1024 * 1024
"""Bytes in one response, decompressed: the names of half a million topics."""


async def answer_of(http: httpx.AsyncClient, request: httpx.Request) -> httpx.Response:
    """Return the response, whatever its status; a redirect without its body. The whole response
    may take no longer than the read timeout of ``http``. Raises :class:`UnexpectedAnswer` if it is
    too large, :class:`TimeoutError`, and what httpx raises."""
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
