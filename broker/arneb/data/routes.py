"""Routes: the data API's paths and their handlers.

The rule: a handler checks the request and the sender's rights, calls another module to do the work,
and answers with the result.
"""

import json
from base64 import b64encode
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, replace
from typing import Any, Final, NoReturn

import trio
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from arneb.data import blocks
from arneb.data.asking import ID_MAX, Fields, document, parameters, parse_position
from arneb.data.cursors import Cursors, Holder
from arneb.data.errors import RETRY_AFTER_S, DataError, bad_request, in_words
from arneb.data.leases import LEASE_S_MAX, LEASE_S_MIN
from arneb.data.rights import ASKED_A_TURN, Rights, RightsOf, expect_consume, expect_produce
from arneb.data.topics import TopicDirectory
from arneb.data.writing import WritingRoutes
from arneb.http.access.rules import TOPICS, RuledRoute
from arneb.http.server.senders import HOLD
from arneb_core.api.entries.position import Position, before, render
from arneb_core.api.subscriptions.subscription import InitialPosition
from arneb_core.api.topics.topic import Topic
from arneb_core.engine.topics.stored_reading import StoredReading
from arneb_pulsar.admin.calls.requests import no_need
from arneb_pulsar.names import topic_name_of

ROOT: Final = "/data/v1"

NAME_MAX: Final = 500
"""The most characters of a subscription's or an owner's name."""

ASKED_MAX: Final = 10_000
"""The most topics in one request."""

SCHEMAS: Final = "pulsar/schema/"
"""The prefix of the Pulsar frontend's schema keys; the topic's short name and version follow."""

Handler = Callable[[Request, Rights], Awaitable[Response]]
"""Answers a request. May raise :class:`.DataError`, and errors of the core."""


class DataRoutes:
    """The handlers of all paths but those for writing."""

    def __init__(
        self,
        directory: TopicDirectory,
        reading: StoredReading,
        cursors: Cursors,
        writing: WritingRoutes,
        rights_of: RightsOf,
    ) -> None:
        self._directory = directory
        self._reading = reading
        self._cursors = cursors
        self._writing = writing
        self._rights_of = rights_of

    def __repr__(self) -> str:
        return f"<DataRoutes over {self._directory!r}>"

    @property
    def routes(self) -> list[RuledRoute]:
        """All routes."""
        return [
            self._route("", self._writing.greet),
            self._route("/topics", self._topics),
            self._route("/extents", self._extents, "POST"),
            self._route("/positions", self._positions, "POST"),
            self._route("/schemas", self._schemas),
            self._route("/blocks", self._blocks),
            self._route("/cursors", self._list_cursors),
            self._route("/cursors/open", self._open_cursors, "POST"),
            self._route("/cursors/renew", self._renew, "POST"),
            self._route("/cursors/acknowledge", self._acknowledge, "POST"),
            self._route("/cursors/release", self._release, "POST"),
            self._route("/ledgers/roll", self._roll, "POST"),
            self._route("/ledgers/trim", self._trim, "POST"),
            self._route("/publish", self._writing.publish, "POST"),
            self._route("/stages", self._writing.stage, "POST"),
            self._route("/stages", self._writing.stages),
            self._route("/stages", self._writing.abort, "DELETE"),
            self._route("/commits", self._writing.commit, "POST"),
            self._route("/commits", self._writing.last),
        ]

    def _route(self, path: str, handler: Handler, *methods: str) -> RuledRoute:
        async def endpoint(request: Request) -> Response:
            try:
                with in_words():
                    return await handler(request, self._rights_of(request))
            except DataError as error:
                again = {"retry-after": str(RETRY_AFTER_S)} if error.status == 503 else None
                return JSONResponse(error.document, error.status, headers=again)

        # The request names its topics, so handlers check the rights.
        return RuledRoute(ROOT + path, endpoint, TOPICS, methods or ("GET",))

    # Topics

    async def _topics(self, request: Request, rights: Rights) -> Response:
        given = request.query_params.multi_items()
        asked: dict[str, list[str]] = {"topic": [], "queue": [], "namespace": []}
        for name, value in given:
            if name in asked:
                asked[name].append(value)
        rest = Fields({k: v for k, v in given if k not in asked}, "the query")
        vhost, internal = rest.text("vhost", "/"), rest.flag("internal")
        rest.end()
        if sum(map(len, asked.values())) > ASKED_MAX:
            raise bad_request(f"expected at most {ASKED_MAX} names")
        directory = self._directory
        found = {name: directory.named(name) for name in asked["topic"]}
        found |= {name: directory.queue(vhost, name) for name in asked["queue"]}
        topics = [
            topic for each in found.values() for topic in each if rights.may_consume(topic.name)
        ]
        namespaces = frozenset(asked["namespace"])
        if namespaces or not found:
            listed = directory.listed(rights, namespaces=namespaces, internal=internal)
            topics += [topic async for topic in listed]
        missing = [name for name, each in found.items() if not each]
        answer = {
            "topics": await directory.documents(dict.fromkeys(topics)),
            "missing": missing,
            "similar": await directory.similar(rights, missing) if missing else {},
        }
        return await _rendered(lambda: answer)

    async def _extents(self, request: Request, rights: Rights) -> Response:
        body = await document(request)
        names = _few(body.texts("topics"))
        body.end()
        await expect_consume(rights, names)
        found = await self._reading.extents(names)
        return await _rendered(lambda: {"extents": [asdict(each) for each in found]})

    async def _positions(self, request: Request, rights: Rights) -> Response:
        body = await document(request)
        times = body.objects("topics")
        body.end()
        _few(list(times))
        await expect_consume(rights, times)
        found: dict[str, str] = {}
        for name, each in times.items():
            topic = self._directory.find(name, each.maybe_number("id", most=ID_MAX))
            time_ms = each.number("time_ms")
            each.end()
            position = await topic.first_published(time_ms)
            found[name] = render(topic.next_append if position is None else position)
        return JSONResponse({"positions": found})

    async def _schemas(self, request: Request, rights: Rights) -> Response:
        asked = parameters(request)
        name = asked.text("topic")
        asked.end()
        await expect_consume(rights, [name])
        whole = (topic_name_of(name) or unknown(name)).base
        found = await self._reading.metadata(f"{SCHEMAS}{whole.namespace}/{whole.local}/")
        versions = {number: b64encode(row).decode() for number, row in found.items()}
        return JSONResponse({"schemas": versions})

    # Blocks

    async def _blocks(self, request: Request, rights: Rights) -> Response:
        asked = parameters(request)
        number, name = asked.number("id", most=ID_MAX), asked.text("topic", "")
        first, last = asked.position("from"), asked.position("to")
        size = asked.number("bytes", blocks.BYTES_MIN, blocks.BYTES_MAX, blocks.BYTES_DEFAULT)
        asked.end()
        directory = self._directory
        topic = directory.find(name, number) if name else directory.numbered(number)
        await expect_consume(rights, [topic.name])
        if not topic.durable:
            raise DataError(409, "not_allowed", f"{topic.name} is kept in memory, not stored")
        hold = request.scope.get("extensions", {}).get(HOLD, no_need)
        sent = blocks.frames(self._reading, topic, first, last, size, hold)
        return blocks.BlockAnswer(sent)

    # Cursors

    async def _list_cursors(self, request: Request, rights: Rights) -> Response:
        asked = parameters(request)
        name = asked.text("topic")
        asked.end()
        await expect_consume(rights, [name])
        topic = self._directory.find(name)
        return JSONResponse({"cursors": {name: self._cursors.listed(topic)}})

    async def _open_cursors(self, request: Request, rights: Rights) -> Response:
        body = await document(request)
        holder = replace(_holder(body), lease_s=_lease_s(body))
        expect = body.flag("expect")
        asked = await self._asked_topics(body, rights, holder.subscription, numbered=False)
        starts = {topic: _start(each) for topic, each in asked}
        body.end()
        return JSONResponse({"cursors": await self._cursors.open(holder, starts, expect=expect)})

    async def _renew(self, request: Request, rights: Rights) -> Response:
        body = await document(request)
        holder = _holder(body)
        positions: dict[Topic, Position | None] = {}
        for topic, each in await self._asked_topics(body, rights, holder.subscription):
            positions[topic] = None
            each.end()
        body.end()
        return JSONResponse({"cursors": await self._cursors.renew(holder, positions)})

    async def _acknowledge(self, request: Request, rights: Rights) -> Response:
        body = await document(request)
        holder = _holder(body)
        positions: dict[Topic, Position | None] = {}
        for topic, each in await self._asked_topics(body, rights, holder.subscription):
            positions[topic] = each.position("next")
            each.end()
        body.end()
        return JSONResponse({"cursors": await self._cursors.renew(holder, positions)})

    async def _release(self, request: Request, rights: Rights) -> Response:
        body = await document(request)
        holder = _holder(body)
        names = _few(body.texts("topics"))
        body.end()
        await expect_consume(rights, names, holder.subscription)
        topics = self._directory.present(names)
        await self._cursors.release(holder, topics)
        return JSONResponse({})

    # Ledgers

    async def _roll(self, request: Request, rights: Rights) -> Response:
        body = await document(request)
        asked = dict(await self._asked_topics(body, rights))
        body.end()
        for each in asked.values():
            each.end()
        ends = {topic.name: {"end": render(await topic.roll())} for topic in asked}
        return JSONResponse({"topics": ends})

    async def _trim(self, request: Request, rights: Rights) -> Response:
        body = await document(request)
        positions = {}
        for topic, each in await self._asked_topics(body, rights):
            expect_produce(rights, topic.name)
            positions[topic] = each.position("before")
            each.end()
        body.end()
        found = {}
        for topic, position in positions.items():
            await topic.trim(position)
            found[topic.name] = {"first": render(topic.floor), "held_by": _holders(topic, position)}
        return JSONResponse({"topics": found})

    async def _asked_topics(
        self, body: Fields, rights: Rights, subscription: str = "", *, numbered: bool = True
    ) -> list[tuple[Topic, Fields]]:
        """Return the topics that a body names, each with its fields, after checking the rights of
        ``subscription``. With ``numbered``, their numbers must be given."""
        asked = body.objects("topics")
        _few(list(asked))
        await expect_consume(rights, asked, subscription)
        found = []
        for count, (name, each) in enumerate(asked.items(), 1):
            if count % ASKED_A_TURN == 0:
                await trio.lowlevel.checkpoint()
            number = each.number("id", most=ID_MAX) if numbered else each.maybe_number("id")
            found.append((self._directory.find(name, number), each))
        return found


async def _rendered(make: Callable[[], Any]) -> Response:
    """Return an answer that may be long, made and serialised in a thread."""
    data = await trio.to_thread.run_sync(lambda: json.dumps(make()).encode())
    return Response(data, media_type="application/json")


def _holder(body: Fields) -> Holder:
    subscription, owner = body.text("subscription"), body.text("owner")
    if not 0 < len(subscription) <= NAME_MAX or not 0 < len(owner) <= NAME_MAX:
        raise bad_request(f"expected a subscription and an owner of 1 to {NAME_MAX} characters")
    return Holder(subscription, owner)


def _lease_s(body: Fields) -> int | None:
    return body.maybe_number("lease_s", LEASE_S_MIN, LEASE_S_MAX)


def _start(asked: Fields) -> InitialPosition | Position:
    initial = asked.text("initial", InitialPosition.EARLIEST.value)
    asked.end()
    position = parse_position(initial)
    if position is not None:
        return position
    if initial not in (InitialPosition.EARLIEST.value, InitialPosition.LATEST.value):
        raise bad_request(f"expected earliest, latest or ledger:entry, got {initial[:100]!r}")
    return InitialPosition(initial)


def _holders(topic: Topic, position: Position) -> list[str]:
    """Return the subscriptions that still need entries before ``position``."""
    last = before(position)
    return [
        name
        for name, each in topic.subscriptions.items()
        if any(found <= last for found in each.unacknowledged(1))
    ]


def _few(names: Sequence[str]) -> Sequence[str]:
    if len(names) > ASKED_MAX:
        raise bad_request(f"expected at most {ASKED_MAX} topics, got {len(names)}")
    return names


def unknown(name: str) -> NoReturn:
    """Raise the error for a name that no topic can have."""
    raise DataError(404, "topic_not_found", f"no topic can be called {name[:200]!r}")
