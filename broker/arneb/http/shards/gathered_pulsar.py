"""Gathered answers of Pulsar's admin API: a request about tenants concerns every shard of a
cluster.

The rule: tenants belong to the first shard, and the others have copies. Each leader knows a
tenant's namespaces in its shard, and a tenant with namespaces in any shard is not removed. If a
leader gives no answer, that is the answer.
"""

import json
import re
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, Final

from starlette.types import ASGIApp, Receive, Scope, Send

from arneb.http.routing.routed import path_of
from arneb.http.routing.targets import namespace_in
from arneb.http.server.whole_answers import Answer, holding
from arneb.http.shards.gathered import Wanted, asked, body_of, json_answer, of_shard


class Kind(Enum):
    """How a request is answered."""

    ONE = "one shard's"
    NAMES = "the lists of all"
    NAMESPACES = "the lists of those that have the tenant"
    TENANT = "of the first that knows it"
    REMOVAL = "the first shard's, if no other has namespaces of the tenant"
    IN_USE = "the first shard's, if it is done at every other"
    TOPICS = "of the shard that has the topics in the body"


_KINDS: Final = [
    (methods, re.compile(f"/admin/v2/{path}/?"), kind)
    for methods, path, kind in (
        (("GET",), "tenants", Kind.NAMES),
        (("GET",), "namespaces/[^/]+", Kind.NAMESPACES),
        (("GET",), "tenants/[^/]+", Kind.TENANT),
        (("DELETE",), "tenants/[^/]+", Kind.REMOVAL),
        (("DELETE",), "resourcegroups/[^/]+", Kind.IN_USE),
        (("POST",), "namespaces/(grant|revoke)PermissionsOnTopics", Kind.TOPICS),
    )
]

ACTIVE: Final = "The tenant still has active namespaces"
NOT_FOUND: Final = 404


def kind_of(method: str, path: str) -> Kind:
    """Return the kind of a request, by its path as received."""
    for methods, pattern, kind in _KINDS:
        if method in methods and pattern.fullmatch(path):
            return kind
    return Kind.ONE


class GatheredPulsar:
    """An application in front of a node that leads some shards."""

    def __init__(
        self,
        shards: Sequence[str],
        shard_of: Callable[[str], str],
        leader_of: Wanted,
        one: ASGIApp,
    ) -> None:
        """``shards``: the first shard first. ``shard_of``: returns a namespace's shard. ``one``
        answers requests about a single shard."""
        self._shards = shards
        self._shard_of = shard_of
        self._leader_of = leader_of
        self._one = one

    def __repr__(self) -> str:
        return f"<GatheredPulsar of {', '.join(self._shards)} before {self._one!r}>"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        kind = Kind.ONE if scope["type"] != "http" else kind_of(scope["method"], path_of(scope))
        if kind is Kind.ONE:
            await self._one(scope, receive, send)
            return
        with holding():
            answer = await self._answer(kind, scope, await body_of(receive))
            await answer.pass_on(send)

    async def _answer(self, kind: Kind, scope: Scope, body: bytes) -> Answer:
        match kind:
            case Kind.NAMES | Kind.NAMESPACES:
                return await self._names(scope, kind)
            case Kind.TENANT:
                return await self._first_that_knows(scope)
            case Kind.REMOVAL:
                return await self._removed(scope)
            case Kind.IN_USE:
                return await self._removed_everywhere(scope)
            case _:
                return await self._ask(self._shard_of(_namespace_in(body)), scope, body)

    async def _names(self, scope: Scope, kind: Kind) -> Answer:
        """Combine the lists of all shards. A tenant that a shard does not know has no namespaces
        there."""
        names: set[str] = set()
        answers: list[Answer] = []
        for shard in self._shards:
            answer = await self._ask(shard, scope)
            if answer.is_good:
                names.update(json.loads(answer.body))
                answers.append(answer)
            elif kind is Kind.NAMES or answer.status != NOT_FOUND:
                return answer
        return json_answer(sorted(names)) if answers else answer

    async def _first_that_knows(self, scope: Scope) -> Answer:
        for shard in self._shards:
            answer = await self._ask(shard, scope)
            if answer.status != NOT_FOUND:
                break
        return answer

    async def _removed(self, scope: Scope) -> Answer:
        first, *others = self._shards
        path = path_of(scope).replace("/tenants/", "/namespaces/", 1)
        look = {**scope, "method": "GET", "path": path, "raw_path": path.encode()}
        for shard in others:
            answer = await self._ask(shard, look)
            if answer.is_good and json.loads(answer.body):
                return json_answer({"reason": ACTIVE}, 409)
            if not answer.is_good and answer.status != NOT_FOUND:
                return answer
        return await self._ask(first, scope)

    async def _removed_everywhere(self, scope: Scope) -> Answer:
        """Remove a resource group at the other shards, which may still use it, before the first."""
        first, *others = self._shards
        for shard in others:
            answer = await self._ask(shard, scope)
            if not answer.is_good and answer.status != NOT_FOUND:
                return answer
        return await self._ask(first, scope)

    async def _ask(self, shard: str, scope: Scope, body: bytes = b"") -> Answer:
        return of_shard(await asked(self._leader_of(shard), scope, body=body), shard)


def _namespace_in(body: bytes) -> str:
    """Return the namespace of the first topic in a body; the shard that answers checks the rest."""
    try:
        rows: Any = json.loads(body)
        return namespace_in(str(rows[0]["topic"]))
    except (ValueError, TypeError, LookupError, RecursionError):
        return namespace_in("")
