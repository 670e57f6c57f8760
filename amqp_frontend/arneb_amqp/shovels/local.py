"""Ends in this broker, without a connection: moving a batch from one to the other is one commit.

The rule: messages are routed, refused and delayed as if a client published them. Rights are not
checked here: they were when the shovel's parameter was set.
"""

from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import count
from typing import Any, Final

import trio

from arneb_amqp.client.events import RemoteClosed
from arneb_amqp.consumption import Consumption
from arneb_amqp.decompression import decompressed
from arneb_amqp.errors import AmqpError, exchange_in_words
from arneb_amqp.routing.exchange import Binding
from arneb_amqp.shovels.ends import Moved, UnitSource
from arneb_amqp.shovels.settings import AckMode, Destination, Source
from arneb_amqp.topology.overflow import Admission
from arneb_amqp.topology.publishing import Published, publish
from arneb_amqp.topology.queues.attachments import Attachment, give_back
from arneb_amqp.topology.queues.declaration import ConnectionId, Declaration
from arneb_amqp.topology.topology import Topology, Vhost
from arneb_amqp.wire.content import properties_of
from arneb_amqp.wire.json_fields import table_from_json
from arneb_amqp.wire.properties import (
    decode_properties,
)
from arneb_amqp.wire.route import content_start, split_route
from arneb_core.api.core import Core, Unit
from arneb_core.api.entries.entry import HEADER_BYTES
from arneb_core.api.entries.position import Position
from arneb_core.api.errors import CoreError
from arneb_core.api.subscriptions.deliveries import Deliveries
from arneb_core.api.subscriptions.windows import Window
from arneb_core.api.topics.topic import Topic

OWNERS: Final = count(-1, -1)
"""Owner numbers of shovels' own queues: no connection has a number below 0."""

MESSAGES_PER_TURN: Final = 50
"""Messages routed in one turn: some 2 ms."""


class LocalSource:
    """A consumer of a queue of this broker, and its sink; see
    :class:`arneb_core.api.subscriptions.consumer.Sink`."""

    def __init__(self, queue: str, length: int, *, acks: bool) -> None:
        self._queue = queue
        self._acks = acks
        self.length = length
        self.attachment: Attachment | None = None
        self._runs: deque[Deliveries] = deque()
        self._ready: list[tuple[Position, bytes, int | None]] = []
        self._closed = ""
        self._news = trio.Event()

    def __repr__(self) -> str:
        return f"<LocalSource {self._queue!r}>"

    def deliver(self, run: Deliveries) -> None:
        self._runs.append(run)
        self._news.set()

    def active_changed(self, active: bool) -> None:
        """Do nothing: nobody waits for it."""

    def closed_by_core(self, reason: str) -> None:
        self._closed = reason
        self._news.set()

    async def receive(self, most: int) -> Sequence[Moved]:
        """See :class:`.SourceEnd`."""
        while not self._ready and not self._runs:
            if self._closed:
                raise RemoteClosed(f"queue '{self._queue}' was {self._closed}")
            self._news = trio.Event()
            await self._news.wait()
        # Everything that has come is one batch, and so one commit, however many runs it came in.
        while self._runs and len(self._ready) < most:
            positions, entries, parts = await decompressed(self._runs.popleft(), self._queue)
            self._ready += [
                (position, entry, parts.get(index))
                for index, (position, entry) in enumerate(zip(positions, entries, strict=True))
            ]
        taken, self._ready = self._ready[:most], self._ready[most:]
        return [_moved(*each) for each in taken]

    async def acknowledge(self, batch: Sequence[Moved], refused: set[int]) -> None:
        """See :class:`.SourceEnd`."""
        positions, masks = _positions_of(batch, refused)
        if self.attachment is not None and self._acks:
            self.attachment.consumer.acknowledge(positions)
            for index, mask in masks.items():
                self.attachment.consumer.acknowledge_messages(index, mask)
        self._give_back(batch, refused)
        await trio.lowlevel.checkpoint()

    def acknowledge_in(self, unit: Unit, batch: Sequence[Moved], refused: set[int]) -> None:
        """See :class:`.UnitSource`."""
        positions, masks = _positions_of(batch, refused)
        if self.attachment is not None and self._acks:
            unit.acks.append((self.attachment.consumer, positions))
            unit.parts.append((self.attachment.consumer, masks))
        self._give_back(batch, refused)

    def _give_back(self, batch: Sequence[Moved], refused: set[int]) -> None:
        if refused and self.attachment is not None and self._acks:
            others = set(range(len(batch))) - refused
            positions, masks = _positions_of(batch, others)
            whole = [*positions, *masks]
            self.attachment.consumer.release(whole, count=False, masks=masks or None)


class LocalDestination:
    """A queue, an exchange, or each message's own exchange, in this broker."""

    is_blocked = False

    def __init__(self, core: Core, vhost: Vhost) -> None:
        self._core = core
        self._vhost = vhost

    def __repr__(self) -> str:
        return f"<LocalDestination in {self._vhost.name!r}>"

    async def put(self, batch: Sequence[Moved], *, confirmed: bool) -> set[int]:
        """See :class:`.DestinationEnd`. It always waits for the commit, which bounds memory."""
        return await self.move(batch, None)

    async def move(self, batch: Sequence[Moved], source: UnitSource | None) -> set[int]:
        """Put a batch in, in one commit, in which ``source`` gives it up. Return the indexes of
        refused messages. Raises :class:`.RemoteClosed`."""
        admission = Admission()
        try:
            return await self._move(batch, source, admission)
        except AmqpError as error:
            raise RemoteClosed(str(error), error.reply_code) from error
        except CoreError as error:
            raise RemoteClosed(f"the commit failed: {error}") from error
        finally:
            admission.over()

    async def _move(
        self, batch: Sequence[Moved], source: UnitSource | None, admission: Admission
    ) -> set[int]:
        refused = set()
        later: list[tuple[Topic, bytes]] = []
        for index, message in enumerate(batch):
            if index % MESSAGES_PER_TURN == MESSAGES_PER_TURN - 1:
                await trio.lowlevel.checkpoint()
            published = await self._publish(message, admission)
            later += published.delayed
            if not published.admitted:
                refused.add(index)
        for _ in admission.closing():
            await trio.lowlevel.checkpoint()
        unit = Unit(list(admission.appends.items()), passes_over_gone=True, has_batches=False)
        unit.appends += [(topic, [entry]) for topic, entry in later]
        if source is not None:
            source.acknowledge_in(unit, batch, refused)
        await self._core.committed(unit)
        return refused

    async def _publish(self, message: Moved, admission: Admission) -> Published:
        exchange = message.exchange
        if self._vhost.router.exchange(exchange).internal:
            words = exchange_in_words(exchange, self._vhost.name)
            raise RemoteClosed(f"cannot publish to internal {words}")
        properties = decode_properties(properties_of(message.body))
        return await publish(
            self._vhost, exchange, message.routing_key, properties, message.body, admission
        )


@asynccontextmanager
async def local_source(
    topology: Topology, vhost: Vhost, wanted: Source, mode: AckMode, name: str
) -> AsyncIterator[LocalSource]:
    """Consume from the source while the block runs. Raises :class:`.RemoteClosed`."""
    owner = ConnectionId(next(OWNERS))
    try:
        async with topology.changing():
            if wanted.queue is None:
                queue = await _own_queue(vhost, owner, wanted)
            else:
                queue = await _ensured(vhost, wanted.queue, wanted.queue_arguments)
            found = await vhost.queues.find(queue)
            acks = mode is not AckMode.NO_ACK
            source = LocalSource(queue, found.message_count, acks=acks)
            consumption = Consumption(
                queue, name, not acks, False, table_from_json(wanted.consumer_arguments),
                (Window(wanted.prefetch), Window()),
            )  # fmt: skip
            attachment = await vhost.attachments.attach(consumption, owner, source)
    except (AmqpError, CoreError) as error:
        raise RemoteClosed(str(error)) from error
    source.attachment = attachment
    try:
        yield source
    finally:
        with trio.CancelScope(shield=True):
            if attachment.consumer.attached:
                await give_back([attachment])
            async with topology.changing():
                await vhost.attachments.detach(attachment)
                await vhost.queues.delete_exclusive(owner)


async def local_destination(
    core: Core, topology: Topology, vhost: Vhost, wanted: Destination
) -> LocalDestination:
    """Open the destination. Raises :class:`.RemoteClosed`."""
    try:
        if wanted.queue is not None:
            async with topology.changing():
                await _ensured(vhost, wanted.queue, wanted.queue_arguments)
        elif wanted.exchange:
            vhost.router.exchange(wanted.exchange)
    except (AmqpError, CoreError) as error:
        raise RemoteClosed(str(error)) from error
    return LocalDestination(core, vhost)


async def _ensured(vhost: Vhost, name: str, arguments: Any) -> str:
    """Make sure the queue exists, making it durable if it is new. Under the lock."""
    if not vhost.has_queue(name) and not vhost.foreign_topic(name):
        wanted = Declaration(
            ConnectionId(0), name, durable=True, arguments=table_from_json(arguments)
        )
        await vhost.queues.declare(wanted)
    return name


async def _own_queue(vhost: Vhost, owner: ConnectionId, wanted: Source) -> str:
    """Declare a queue for an exchange's messages, for as long as the shovel runs. Under the
    lock."""
    queue = await vhost.queues.declare(Declaration(owner, "", exclusive=True))
    binding = Binding(wanted.exchange or "", queue.name, wanted.exchange_key)
    await vhost.exchanges.bind(binding, owner)
    return queue.name


def _moved(position: Position, entry: bytes, part: int | None) -> Moved:
    start = content_start(entry)
    exchange, key = split_route(entry[HEADER_BYTES:start])
    return Moved(exchange, key, entry[start:], position, part)


def _positions_of(
    batch: Sequence[Moved], without: set[int]
) -> tuple[list[Position], dict[Position, int]]:
    """Return the entries of a batch, and for entries that are batches their messages."""
    positions: list[Position] = []
    masks: dict[Position, int] = {}
    for index, each in enumerate(batch):
        if index in without:
            continue
        position = Position(each.tag)
        if each.part is None:
            positions.append(position)
        else:
            masks[position] = masks.get(position, 0) | 1 << each.part
    return positions, masks
