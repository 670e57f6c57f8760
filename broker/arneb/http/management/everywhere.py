"""Everywhere: asks all shards' leaders for what a page watches, where a cluster has several shards.

The rule: each leader decides what the session's user may see: by the name that this node vouches
for or, for a user of an external authority, by the credentials from the login, which are sent over
TLS only.
"""

import json
from base64 import b64encode
from typing import Final

from starlette.types import ASGIApp

from arneb.http.management.page.watching import Watch, Watched
from arneb.http.server.asgi import VOUCHED
from arneb.http.server.whole_answers import holding, whole_answer

ANSWER_BYTES_MAX: Final = 64 * 1024 * 1024
"""Held of all leaders' answers together."""


async def asked_everywhere(app: ASGIApp, watch: Watch, watched: Watched) -> str:
    """Return status and body of the answer of ``app``, which serves all shards, as JSON."""
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
    with holding():
        answer = await whole_answer(app, scope, ANSWER_BYTES_MAX)
        body = answer.body.decode() if _is_json(answer.body) else "null"
        return f'{{"status": {answer.status}, "body": {body}}}'


def _is_json(body: bytes) -> bool:
    try:
        json.loads(body)
    except ValueError:
        return False
    return True
