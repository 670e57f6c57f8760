"""The admin API of the tests: calls, and what they answer."""

import json
from collections.abc import Sequence
from typing import Any

from tests.pulsar_frontend.conftest import Running

from arneb_pulsar.admin.api import answer
from arneb_pulsar.admin.calls.requests import Query

PERSISTENT = "/admin/v2/persistent/public/default"

NULL = object()
"""A body that is JSON's null; None is no body."""


class Admin:
    """Calls, and what they answer."""

    def __init__(self, running: Running) -> None:
        self._context = running.context

    async def __call__(
        self, method: str, path: str, body: Any = None, **query: str | Sequence[str]
    ) -> Any:
        """(status, document). Of ``query``, what is no text is repeated."""
        pairs = [
            (name, each)
            for name, value in query.items()
            for each in ([value] if isinstance(value, str) else value)
        ]
        data = b"" if body is None else json.dumps(None if body is NULL else body).encode()
        if not path.startswith(("/admin", "/lookup")):
            path = PERSISTENT + path
        reply = await answer(self._context, method, path, Query(pairs), data, "here:8080")
        if reply.kind == "application/json" and reply.body:
            return reply.status, json.loads(reply.body)
        return reply.status, reply.body
