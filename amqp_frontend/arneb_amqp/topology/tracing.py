"""Tracing: a copy of everything that is published and delivered in one vhost, for who looks on.

The rule: copies go to the exchange ``amq.rabbitmq.trace`` and nowhere else, and are never traced
themselves. They are made only while tracing is on, which a restart ends, as in RabbitMQ; what
cannot be stored of them is lost, for nobody waits for it.

Source: ``rabbit_trace``, RabbitMQ 3.13.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

from arneb_amqp.errors import AmqpError
from arneb_amqp.routing.router import Router
from arneb_amqp.routing.routes import CachedRoute
from arneb_amqp.topology.overflow import Admission
from arneb_amqp.topology.queues.queues import Queues
from arneb_amqp.wire.constants import FRAME_START, ChannelId
from arneb_amqp.wire.content import compose, payload_of, properties_of
from arneb_amqp.wire.properties import Properties, decode_properties, encode_properties
from arneb_amqp.wire.route import join_route, routing_key_of, split_route
from arneb_amqp.wire.tables import Field, array, longstr, signedint, table
from arneb_core.api.clock import wall_clock_ms
from arneb_core.api.core import Core, Unit
from arneb_core.api.entry import HEADER_BYTES, read_header
from arneb_core.api.errors import CommitFailed
from arneb_core.api.hashing import key_hash

TRACE: Final = "amq.rabbitmq.trace"
"""The exchange where copies go."""

KEY_BYTES_MAX: Final = 255
"""Of a routing key: that of a copy has a name in it that may be as long alone."""

_PROPERTIES: Final = tuple(each.name for each in fields(Properties))


@dataclass(frozen=True, slots=True)
class Tapped:
    """Whose messages are looked at."""

    connection: str
    """By the name of both its ends."""
    user: str


class Tracing:
    """Copies what goes through one vhost."""

    def __init__(self, vhost: str, core: Core, router: Router, queues: Queues, node: str) -> None:
        self._vhost = vhost
        self._core = core
        self._router = router
        self._queues = queues
        self._node = node

    def __repr__(self) -> str:
        return f"<Tracing of {self._vhost!r}>"

    def published(self, tapped: Tapped, entries: Iterable[bytes], queues: Sequence[str]) -> None:
        """Messages were published, and go to these queues."""
        routed = {"routed_queues": array([longstr(each) for each in queues])}
        admission = Admission()
        for entry in entries:
            start = HEADER_BYTES + read_header(entry).hint
            exchange, _ = split_route(entry[HEADER_BYTES:start])
            channel = FRAME_START.unpack_from(entry, start + 1)[1]
            headers = self._seen(tapped, channel) | routed
            self._copy(admission, f"publish.{exchange}", entry, headers)
        self._send(admission)

    def delivered(
        self,
        tapped: Tapped,
        channel: int,
        queue: str,
        entries: Iterable[bytes],
        redelivered: Sequence[bool],
    ) -> None:
        """Messages of a queue were delivered."""
        admission = Admission()
        for entry, again in zip(entries, redelivered, strict=True):
            headers = {"redelivered": signedint(again)} | self._seen(tapped, channel)
            self._copy(admission, f"deliver.{queue}", entry, headers)
        self._send(admission)

    def _seen(self, tapped: Tapped, channel: int) -> dict[str, Field]:
        return {
            "vhost": longstr(self._vhost),
            "connection": longstr(tapped.connection),
            "channel": signedint(channel),
            "user": longstr(tapped.user),
        }

    def _copy(
        self, admission: Admission, key: str, entry: bytes, more: Mapping[str, Field]
    ) -> None:
        start = HEADER_BYTES + read_header(entry).hint
        exchange, routing_key = split_route(entry[HEADER_BYTES:start])
        if exchange == TRACE:
            return
        content = entry[start:]
        headers = {
            "exchange_name": longstr(exchange),
            "routing_keys": array([longstr(routing_key)]),
            "properties": table(_as_table(decode_properties(properties_of(content)))),
            "node": longstr(self._node),
            **more,
        }
        while len(key.encode("utf-8", "surrogateescape")) > KEY_BYTES_MAX:
            key = key[:-1]
        try:
            names = self._router.route(TRACE, key, headers).queues
        except AmqpError:
            return  # hostile bindings: nobody can be told
        raw = join_route(TRACE, key)
        traffic = self._router.traffic.exchanges[TRACE]
        hashed = key_hash(routing_key_of(raw))
        route = CachedRoute(TRACE, key, raw, names, False, hashed, traffic)
        properties = encode_properties(Properties(headers=headers))
        copy = route.head(wall_clock_ms(), persistent=False) + compose(
            ChannelId(1), properties, payload_of(content)
        )
        for name in names:
            if (overflow := self._queues.refusing.get(name)) is not None:
                admission.offer(overflow, copy)
            elif (topic := self._queues.topic(name)) is not None:
                admission.put(topic, copy)

    def _send(self, admission: Admission) -> None:
        appends = list(admission.close().items())
        unit = Unit(appends, passes_over_gone=True, has_batches=False)

        def done(_: CommitFailed | None) -> None:
            admission.over()

        if not appends or self._core.commit(unit, done):
            admission.over()


def _as_table(properties: Properties) -> dict[str, Field]:
    """The properties that are there, as RabbitMQ writes them into a table."""
    shown: dict[str, Field] = {}
    for name in _PROPERTIES:
        value: Any = getattr(properties, name)
        if isinstance(value, str):
            shown[name] = longstr(value)
        elif isinstance(value, int):
            shown[name] = signedint(value)
        elif value is not None:
            shown[name] = table(value)
    return shown
