"""Connectionless: what a user does in a vhost without a connection, such as over HTTP.

The rule: methods, rights, locks and errors are the same as for a connection; what belongs to a
connection (exclusive queues, channels) does not exist. Messages are taken by a temporary consumer.
"""

import sys
from dataclasses import dataclass
from typing import Final

import trio
from pamqp.base import Frame as Command
from pamqp.commands import Basic

from arneb_amqp.decompression import decompressed
from arneb_amqp.errors import access_refused, exchange_in_words
from arneb_amqp.server.context import NOBODY
from arneb_amqp.server.operations.consumers import ConsumerSink, count_got
from arneb_amqp.server.operations.methods import Methods
from arneb_amqp.session.deliveries import ConsumerId
from arneb_amqp.session.effects import Authorize
from arneb_amqp.session.rights import Rights, RightUndecided
from arneb_amqp.session.rules import Asked, questions
from arneb_amqp.topology import publishing
from arneb_amqp.topology.footprint import of_queue
from arneb_amqp.topology.overflow import Admission
from arneb_amqp.topology.queues.declaration import ConnectionId
from arneb_amqp.topology.topology import Topology, Vhost
from arneb_amqp.wire.constants import ChannelId
from arneb_amqp.wire.content import compose, payload_of, properties_of
from arneb_amqp.wire.properties import (
    Properties,
    decode_properties,
    encode_properties,
)
from arneb_amqp.wire.replies import make
from arneb_amqp.wire.route import Route, content_start, split_route
from arneb_core.access.principals import Principal
from arneb_core.api.core import Core, Unit
from arneb_core.api.entries.entry import HEADER_BYTES
from arneb_core.api.entries.position import Position

NO_CONNECTION: Final = ConnectionId(0)
"""No connection has this number, so everything exclusive belongs to others."""

_CHANNEL: Final = ChannelId(1)
_GETTER: Final = ConsumerId(0)


@dataclass(frozen=True, slots=True)
class Fetched:
    """A message taken from a queue."""

    route: Route
    properties: Properties
    payload: bytes
    redelivered: bool
    message_count: int
    """The number of messages left after it."""


@dataclass(frozen=True, slots=True)
class Taking:
    """What happens to messages once they are taken."""

    no_ack: bool = False
    """Whether messages are gone once taken."""
    rejected: bool = False
    requeued: bool = False


class Actor:
    """A user in a vhost."""

    owner = NO_CONNECTION

    def __init__(self, core: Core, topology: Topology, vhost: Vhost, principal: Principal) -> None:
        self._core = core
        self.topology = topology
        self.vhost = vhost
        self.rights = Rights(principal, vhost.name)
        self._methods = Methods(self)

    def __repr__(self) -> str:
        return f"<Actor {self.rights!r}>"

    async def authorize(self, order: Authorize) -> None:
        """Fetch a verdict that is not known at once."""
        await self.rights.principal.verdicts.ask(self.vhost.name, order.question)

    async def perform(self, method: Command) -> object:
        """Carry out a method of the topology. Raises :class:`.AmqpError` as for a connection."""
        return await self._methods.perform(method)

    async def publish(
        self, exchange: str, routing_key: str, properties: Properties, payload: bytes
    ) -> bool | None:
        """Publish a message durably; return whether any queue takes it, or None if a full queue
        refused it. Raises :class:`.AmqpError`."""
        method = make(
            Basic.Publish, ticket=0, exchange=exchange, routing_key=routing_key,
            mandatory=True, immediate=False,
        )  # fmt: skip
        await self._require(method)
        vhost = self.vhost
        if vhost.router.exchange(exchange).internal:
            words = exchange_in_words(exchange, vhost.name)
            raise access_refused(f"cannot publish to internal {words}")
        if properties.user_id is not None:
            self.rights.check_user_id(properties.user_id)
        body = compose(_CHANNEL, encode_properties(properties), payload)
        admission = Admission()
        try:
            published = await publishing.publish(
                vhost, exchange, routing_key, properties, body, admission
            )
            unit = Unit(list(admission.close().items()), passes_over_gone=True)
            unit.appends += [(topic, [entry]) for topic, entry in published.delayed]
            await self._core.committed(unit)
        finally:
            admission.over()
        traffic, routed = vhost.router.traffic, bool(unit.appends)
        traffic.to_confirm += 1
        traffic.confirmed += published.admitted
        traffic.returned += not routed
        return routed if published.admitted else None

    async def take(
        self, queue: str, count: int, taking: Taking, bytes_max: int = sys.maxsize
    ) -> list[Fetched]:
        """Take the first messages of a queue, at most ``count``, stopping once their payloads reach
        ``bytes_max``. Raises :class:`.AmqpError`."""
        vhost = self.vhost
        method = make(Basic.Get, ticket=0, queue=queue, no_ack=taking.no_ack)
        await self._require(method)
        async with self.topology.changing(lambda: of_queue(vhost.name, queue)):
            attachment = await vhost.attachments.attach_getter(
                queue, self.owner, ConsumerSink(NOBODY, _GETTER), no_ack=taking.no_ack
            )
        consumer = attachment.consumer
        found: list[Fetched] = []
        size = 0
        positions: list[Position] = []
        masks: dict[Position, int] = {}
        try:
            while len(found) < count and size < bytes_max:
                run = await consumer.pull()
                count_got(attachment.queue.traffic, run, no_ack=taking.no_ack)
                if run is None:
                    break
                positions += run.positions
                for position, mask in (run.masks or {}).items():
                    masks[position] = masks.get(position, 0) | mask
                left = attachment.queue.message_count
                _, entries, _ = await decompressed(run, queue)
                again = bool(run.redelivered)
                got = [fetched(entry, again, left) for entry in entries]
                size += sum(len(each.payload) for each in got)
                found += got
        finally:
            with trio.CancelScope(shield=True):
                if positions and not taking.no_ack:
                    if taking.requeued:
                        consumer.release(positions, count=True, masks=masks or None)
                    elif taking.rejected:
                        consumer.reject(positions, masks or None)
                async with self.topology.changing():
                    await vhost.attachments.detach(attachment)
        return found

    async def _require(self, method: Command) -> None:
        """Raises 403 if a right is missing."""
        asked = Asked(method, self.vhost, limits_keys=self.rights.limits_keys)
        while True:
            try:
                self.rights.require(questions(type(method), asked))
            except RightUndecided as undecided:
                await self.authorize(Authorize(undecided.question))
            else:
                return


def fetched(entry: bytes, redelivered: bool = False, left: int = 0) -> Fetched:
    """Decode an entry of AMQP origin."""
    start = content_start(entry)
    return Fetched(
        split_route(entry[HEADER_BYTES:start]),
        decode_properties(properties_of(entry, start)),
        payload_of(entry, start),
        redelivered,
        left,
    )
