"""Gathered answers: what is about every shard of a cluster is asked of the leader of each.

The rule: who may see what is judged by each leader, by the caller's own proof. Where one of them
gives no answer, or refuses, that is the answer: a list or a total that lacks a part would look
whole. What is held of answers meanwhile is bounded.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from arneb.http.gathering import (
    Kind,
    alarms,
    cut,
    definitions,
    in_all,
    joined,
    kind_of,
    order_of,
    totals,
)
from arneb.http.long_answers import between_pieces
from arneb.http.management.calls import Refused, bad_request
from arneb.http.management.definitions import uploaded
from arneb.http.management.lists import Source, listed, listing_of
from arneb.http.routed import path_of
from arneb_core.api.json_text import InvalidJson, parse_json

HELD_BYTES_MAX: Final = 64 * 1024 * 1024
"""Of the parts of one answer: some 50,000 queues with all their figures."""

CUT_LAST: Final = ("columns", "sort", "sort_reverse", "page", "page_size", "name", "use_regex")
"""What of a query is about the whole list."""

DEFINITIONS: Final = "/api/definitions"

Wanted = Callable[[str], ASGIApp]
"""The application of a shard's leader, wherever that is."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What one leader has said."""

    status: int
    headers: Sequence[tuple[bytes, bytes]]
    body: bytes

    @property
    def is_good(self) -> bool:
        return 200 <= self.status < 300


class Gathered:
    """An application before that of a node that leads some shards."""

    def __init__(
        self,
        shards: Sequence[str],
        shard_of: Callable[[str], str],
        leader_of: Wanted,
        one: ASGIApp,
    ) -> None:
        """``shards``: the first one first. ``shard_of``: that of a namespace. ``one`` answers what
        is one shard's."""
        self._shards = shards
        self._shard_of = shard_of
        self._leader_of = leader_of
        self._one = one

    def __repr__(self) -> str:
        return f"<Gathered of {', '.join(self._shards)} before {self._one!r}>"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """As ASGI has it."""
        kind = Kind.ONE if scope["type"] != "http" else kind_of(scope["method"], path_of(scope))
        if kind is Kind.ONE:
            await self._one(scope, receive, send)
            return
        try:
            if kind is Kind.FILE:
                answer = await self._take_in(scope, await _body(receive))
            elif kind in (Kind.FOUND, Kind.EACH, Kind.CHECK):
                answer = await self._one_after_the_other(kind, scope, await _body(receive))
            else:
                answer = await self._gather(kind, scope)
        except Refused as refused:
            said = {"error": refused.error, "reason": refused.reason}
            answer = _json(said, refused.status)
        headers = [*answer.headers, (b"content-length", str(len(answer.body)).encode())]
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        body = b"" if scope["method"] == "HEAD" else answer.body
        await send({"type": "http.response.body", "body": body})

    async def _one_after_the_other(self, kind: Kind, scope: Scope, body: bytes) -> Answer:
        """Until one has it, or does not do it."""
        ends = (lambda each: each.status != 404) if kind is Kind.FOUND else _is_bad
        for shard in self._shards:
            answer = await self._asked(shard, scope, body=body)
            if ends(answer):
                break
        return answer

    async def _gather(self, kind: Kind, scope: Scope) -> Answer:
        query = dict(parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True))
        listing = listing_of(query)
        rest = {name: value for name, value in query.items() if name not in CUT_LAST}
        parts: list[tuple[str, Any]] = []
        held = 0
        for shard in self._shards:
            answer = await self._asked(shard, scope, query=urlencode(rest))
            if not answer.is_good:
                return answer
            held += len(answer.body)
            if held > HELD_BYTES_MAX:
                raise bad_request(
                    f"the shards have more than {HELD_BYTES_MAX} bytes to say: ask for one virtual "
                    "host after the other"
                )
            parts.append((shard, json.loads(answer.body)))
        if kind is Kind.LIST:
            documents = [each for _, said in parts for each in said]
            source: Source[Any] = Source(documents, lambda each: each, order_of)
            return _json(await listed(source, listing, between_pieces))
        return _json(JOINS[kind](parts))

    async def _take_in(self, scope: Scope, body: bytes) -> Answer:
        """Have each shard take in its part, the first one's, which has the users, first."""
        try:
            found = parse_json(uploaded(Headers(scope=scope).get("content-type", ""), body))
        except InvalidJson as error:
            raise bad_request(str(error)) from error
        if not isinstance(found, dict):
            raise bad_request("expected an object")
        done: list[str] = []
        for shard, part in cut(found, self._shards, self._shard_of).items():
            said = json.dumps(part).encode()
            answer = await self._asked(shard, scope, path=DEFINITIONS, body=said)
            if not answer.is_good:
                return _in_part(answer, shard, done)
            done.append(shard)
        return answer

    async def _asked(
        self,
        shard: str,
        scope: Scope,
        *,
        path: str | None = None,
        query: str | None = None,
        body: bytes = b"",
    ) -> Answer:
        headers = [each for each in scope["headers"] if each[0].lower() not in NOT_PASSED]
        if body:
            headers += [
                (b"content-type", b"application/json"),
                (b"content-length", str(len(body)).encode()),
            ]
        asked = {**scope, "headers": headers}
        if scope["method"] == "HEAD":
            asked["method"] = "GET"
        if path is not None:
            asked |= {"path": path, "raw_path": path.encode()}
        if query is not None:
            asked["query_string"] = query.encode("latin-1")
        head: list[Message] = []
        said = bytearray()

        async def receive() -> Message:
            return {"type": "http.request", "body": body, "more_body": False}

        async def take(message: Message) -> None:
            if message["type"] == "http.response.start":
                head.append(message)
            elif len(said) <= HELD_BYTES_MAX:
                said.extend(message.get("body", b""))

        await self._leader_of(shard)(asked, receive, take)
        kept = [each for each in head[0]["headers"] if each[0].lower() != b"content-length"]
        return Answer(head[0]["status"], kept, bytes(said))


NOT_PASSED: Final = (b"accept-encoding", b"content-length", b"content-type", b"transfer-encoding")
"""Headers of a request that are said anew to each leader."""

JOINS: Final[Mapping[Kind, Callable[[Sequence[tuple[str, Any]]], Any]]] = {
    Kind.OBJECT_OF_LISTS: joined,
    Kind.ALARMS: alarms,
    Kind.TOTALS: totals,
    Kind.DEFINITIONS: definitions,
    Kind.IN_ALL: in_all,
}


def _is_bad(answer: Answer) -> bool:
    return not answer.is_good


def _in_part(answer: Answer, shard: str, done: Sequence[str]) -> Answer:
    """What a leader has refused, and what others have done before."""
    try:
        reason = json.loads(answer.body)["reason"]
    except (ValueError, KeyError, TypeError):
        reason = f"status {answer.status}"
    text = f"shard '{shard}': {reason}"
    if done:
        text += f"; shard {' and '.join(repr(each) for each in done)} has taken in its part"
    return _json({"error": "bad_request", "reason": text}, answer.status)


def _json(said: Any, status: int = 200) -> Answer:
    headers = [(b"content-type", b"application/json"), (b"cache-control", b"no-cache")]
    return Answer(status, headers, json.dumps(said).encode())


async def _body(receive: Receive) -> bytes:
    body, more = bytearray(), True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    return bytes(body)
