"""Ends in other brokers."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from pamqp.commands import Basic, Confirm, Queue

from arneb_amqp.client.connection import ClientChannel, ClientConnection, connected
from arneb_amqp.client.events import RemoteClosed
from arneb_amqp.client.uris import BrokerUri
from arneb_amqp.errors import ReplyCode
from arneb_amqp.shovels.ends import Moved
from arneb_amqp.shovels.settings import AckMode, Destination, Source
from arneb_amqp.wire.content import compose
from arneb_amqp.wire.json_fields import table_from_json
from arneb_amqp.wire.replies import make


class RemoteSource:
    """A queue, or an exchange, of another broker."""

    def __init__(self, channel: ClientChannel, length: int, *, acks: bool) -> None:
        self._channel = channel
        self._acks = acks
        self.length = length

    def __repr__(self) -> str:
        return f"<RemoteSource {self._channel!r}>"

    async def receive(self, most: int) -> Sequence[Moved]:
        """See :class:`.SourceEnd`."""
        return [
            Moved(
                each.exchange, each.routing_key,
                compose(each.channel, each.properties, each.payload), each.tag,
            )
            for each in await self._channel.receive(most)
        ]  # fmt: skip

    async def acknowledge(self, batch: Sequence[Moved], refused: set[int]) -> None:
        """See :class:`.SourceEnd`."""
        if not self._acks:
            return
        if not refused:
            last = batch[-1].tag
            await self._channel.say(make(Basic.Ack, delivery_tag=last, multiple=True))
            return
        for index, each in enumerate(batch):
            if index in refused:
                nack = make(Basic.Nack, delivery_tag=each.tag, multiple=False, requeue=True)
                await self._channel.say(nack)
            else:
                await self._channel.say(make(Basic.Ack, delivery_tag=each.tag, multiple=False))


class RemoteDestination:
    """A queue, or an exchange, of another broker."""

    def __init__(self, connection: ClientConnection, channel: ClientChannel) -> None:
        self._connection = connection
        self._channel = channel

    def __repr__(self) -> str:
        return f"<RemoteDestination {self._channel!r}>"

    @property
    def is_blocked(self) -> bool:
        """See :class:`.DestinationEnd`."""
        return self._connection.is_blocked

    async def put(self, batch: Sequence[Moved], *, confirmed: bool) -> set[int]:
        """See :class:`.DestinationEnd`."""
        numbers = [
            self._channel.publish(each.exchange, each.routing_key, each.body, confirmed=confirmed)
            for each in batch
        ]
        await self._channel.flush()
        if not confirmed:
            return set()
        refused = await self._channel.confirmed()
        return {index for index, number in enumerate(numbers) if number in refused}


@asynccontextmanager
async def remote_source(
    uri: BrokerUri, wanted: Source, mode: AckMode, name: str
) -> AsyncIterator[RemoteSource]:
    """Consume from the source while the block runs. Raises :class:`.RemoteClosed`."""
    async with connected(uri, name) as connection:
        channel = await connection.channel()
        queue, length = wanted.queue, 0
        if queue is None:
            declared = await _declare(channel, "", {}, exclusive=True)
            queue = declared.queue
            bind = make(
                Queue.Bind, ticket=0, queue=queue, exchange=wanted.exchange or "",
                routing_key=wanted.exchange_key, nowait=False, arguments={},
            )  # fmt: skip
            await channel.call(bind)
        else:
            length = await _ensure(connection, queue, wanted.queue_arguments)
        if mode is not AckMode.NO_ACK:
            qos = make(Basic.Qos, prefetch_size=0, prefetch_count=wanted.prefetch, global_=False)
            await channel.call(qos)
        source = RemoteSource(channel, length, acks=mode is not AckMode.NO_ACK)
        consume = make(
            Basic.Consume, ticket=0, queue=queue, consumer_tag="", no_local=False,
            no_ack=mode is AckMode.NO_ACK, exclusive=False, nowait=False,
            arguments=table_from_json(wanted.consumer_arguments),
        )  # fmt: skip
        await channel.call(consume)
        yield source


@asynccontextmanager
async def remote_destination(
    uri: BrokerUri, wanted: Destination, mode: AckMode, name: str
) -> AsyncIterator[RemoteDestination]:
    """Open the destination while the block runs. Raises :class:`.RemoteClosed`."""
    async with connected(uri, name) as connection:
        if wanted.queue is not None:
            await _ensure(connection, wanted.queue, wanted.queue_arguments)
        channel = await connection.channel()
        if mode is AckMode.ON_CONFIRM:
            await channel.call(make(Confirm.Select, nowait=False))
        yield RemoteDestination(connection, channel)


async def _ensure(connection: ClientConnection, queue: str, arguments: Any) -> int:
    """Make sure the queue exists, making it durable if it is new; return its number of ready
    messages."""
    try:
        found = await _declare(await connection.channel(), queue, {}, passive=True)
    except RemoteClosed as error:
        if error.code != ReplyCode.NOT_FOUND:
            raise
        await _declare(await connection.channel(), queue, arguments)
        return 0
    return found.message_count or 0


async def _declare(
    channel: ClientChannel,
    queue: str,
    arguments: Any,
    *,
    passive: bool = False,
    exclusive: bool = False,
) -> Queue.DeclareOk:
    method = make(
        Queue.Declare, ticket=0, queue=queue, passive=passive, durable=not exclusive,
        exclusive=exclusive, auto_delete=False, nowait=False,
        arguments=table_from_json(arguments),
    )  # fmt: skip
    answer = await channel.call(method)
    assert isinstance(answer, Queue.DeclareOk), "the answer to a declaration"
    return answer
