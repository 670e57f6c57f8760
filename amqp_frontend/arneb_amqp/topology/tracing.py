"""Tracing: copies of everything published and delivered in one vhost.

The rule: copies go to the exchange ``amq.rabbitmq.trace`` and nowhere else, and are never traced
themselves. They are made only while tracing is on, which a restart ends, as in RabbitMQ; copies
that cannot be stored are lost, because nobody waits for them.

Source: ``rabbit_trace``, RabbitMQ 3.13.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any, Final

from arneb_amqp.topology.message_observers import Tapped
from arneb_amqp.topology.notices import Notices
from arneb_amqp.topology.overflow import Admission
from arneb_amqp.wire.constants import FRAME_START
from arneb_amqp.wire.content import payload_of, properties_of
from arneb_amqp.wire.properties import Properties, decode_properties
from arneb_amqp.wire.route import content_start, split_route
from arneb_amqp.wire.tables import Field, array, longstr, signedint, table
from arneb_core.api.entries.entry import HEADER_BYTES

TRACE: Final = "amq.rabbitmq.trace"
"""The exchange for copies."""

_PROPERTIES: Final = tuple(each.name for each in fields(Properties))


class Tracing:
    """Copies the messages of one vhost."""

    def __init__(self, vhost: str, notices: Notices, node: str) -> None:
        self._vhost = vhost
        self._notices = notices
        self._node = node

    def __repr__(self) -> str:
        return f"<Tracing of {self._vhost!r}>"

    def published(self, tapped: Tapped, entries: Iterable[bytes], queues: Sequence[str]) -> None:
        """Copy published messages that go to these queues."""
        routed = {"routed_queues": array([longstr(each) for each in queues])}
        admission = Admission()
        for entry in entries:
            start = content_start(entry)
            exchange, _ = split_route(entry[HEADER_BYTES:start])
            channel = FRAME_START.unpack_from(entry, start + 1)[1]
            headers = self._seen(tapped, channel) | routed
            self._copy(admission, f"publish.{exchange}", entry, headers)
        self._notices.send(admission)

    def delivered(
        self,
        tapped: Tapped,
        channel: int,
        queue: str,
        entries: Iterable[bytes],
        redelivered: Sequence[bool],
    ) -> None:
        """Copy delivered messages of a queue."""
        admission = Admission()
        for entry, again in zip(entries, redelivered, strict=True):
            headers = {"redelivered": signedint(again)} | self._seen(tapped, channel)
            self._copy(admission, f"deliver.{queue}", entry, headers)
        self._notices.send(admission)

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
        start = content_start(entry)
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
        copy = Properties(headers=headers)
        self._notices.add(admission, TRACE, key, copy, payload_of(content))


def _as_table(properties: Properties) -> dict[str, Field]:
    """Return the properties that are set, as RabbitMQ writes them into a table."""
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
