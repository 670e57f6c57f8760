"""Everywhere: what a page watches where a cluster has several shards, asked of all of their
leaders.

The rule: each leader judges what the session's user may see, by the name that is vouched for here,
or by what the user has shown, where somebody else knows who that is. That goes by TLS only.
"""

import json
from base64 import b64encode

from starlette.types import ASGIApp, Message

from arneb.http.asgi import VOUCHED
from arneb.http.management.page.watching import Watch, Watched


async def asked_everywhere(app: ASGIApp, watch: Watch, watched: Watched) -> str:
    """What ``app``, which is about all shards, answers: status and body, as JSON."""
    principal = watch.session.principal
    headers, extensions, scheme = list[tuple[bytes, bytes]](), {VOUCHED: principal.name}, "http"
    if principal.secret is not None:
        proof = b64encode(f"{principal.name}:{principal.secret}".encode())
        headers, extensions, scheme = [(b"authorization", b"Basic " + proof)], {}, "https"
    scope = {
        "type": "http",
        "method": "GET",
        "path": watched.raw_path,
        "raw_path": watched.raw_path.encode(),
        "query_string": watched.query.encode(),
        "headers": headers,
        "client": (watch.address, 0),
        "scheme": scheme,
        "extensions": extensions,
    }
    status, body = 503, bytearray()

    async def nothing() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def take(message: Message) -> None:
        nonlocal status
        if message["type"] == "http.response.start":
            status = message["status"]
        else:
            body.extend(message.get("body", b""))

    await app(scope, nothing, take)
    said = bytes(body).decode() if _is_json(bytes(body)) else "null"
    return f'{{"status": {status}, "body": {said}}}'


def _is_json(body: bytes) -> bool:
    try:
        json.loads(body)
    except ValueError:
        return False
    return True
