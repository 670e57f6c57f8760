"""This project's client library, on trio in a thread of its own."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, cast

import anyio
from anyio.from_thread import BlockingPortal, start_blocking_portal
from conformance.pulsar.interoperation.libraries import (
    WITHIN_S,
    Incoming,
    Keys,
    Outgoing,
    Receiver,
    Receiving,
    Refused,
    Sender,
    Sending,
)
from conformance.pulsar.interoperation.values import Values

from arneb_pulsar.client import (
    Batching,
    Client,
    Compression,
    ConsumerOptions,
    CryptoFailureAction,
    InitialPosition,
    Message,
    MessageId,
    ProducerOptions,
    SubscriptionType,
    connect,
)
from arneb_pulsar.client.codec.encryption import KeyFiles
from arneb_pulsar.client.codec.schemas.avro_schema import AvroSchema
from arneb_pulsar.client.codec.schemas.json_schema import JsonSchema
from arneb_pulsar.client.codec.schemas.protobuf_schema import ProtobufNativeSchema
from arneb_pulsar.client.codec.schemas.schema import BytesSchema, StringSchema
from arneb_pulsar.client.errors import PulsarError, TimedOut
from arneb_pulsar.client.producer.building import Keywords

BATCH_S: Final = 5.0
"""Longer than it takes any scenario to send all messages of one batch, in seconds."""

TYPES: Final = {
    "Exclusive": SubscriptionType.EXCLUSIVE,
    "Shared": SubscriptionType.SHARED,
    "Failover": SubscriptionType.FAILOVER,
    "Key_Shared": SubscriptionType.KEY_SHARED,
}
PACKINGS: Final = {
    "single": ProducerOptions(batching=None),
    "batch": ProducerOptions(batching=Batching(delay_s=BATCH_S)),
    "key batch": ProducerOptions(batching=Batching(delay_s=BATCH_S, by_key=True)),
    "chunks": ProducerOptions(batching=None, chunking=True),
}


@contextmanager
def ours(url: str) -> Iterator["Ours"]:
    """A connected client."""
    with (
        start_blocking_portal("trio") as portal,
        portal.wrap_async_context_manager(connect(url)) as client,
    ):
        yield Ours(portal, client)


class Ours:
    """See ``Library``."""

    name = "ours"

    def __init__(self, portal: BlockingPortal, client: Client) -> None:
        self._portal = portal
        self._client = client

    def __repr__(self) -> str:
        return f"<Ours {self._client!r}>"

    def sender(self, topic: str, how: Sending) -> Sender:
        """See ``Library``."""
        options = PACKINGS[how.packing]
        if how.name:
            options = ProducerOptions(name=how.name, batching=options.batching)
        make = partial(
            self._client.create_producer,
            topic,
            options,
            schema=VALUES.schema(how.schema),
            compression=Compression[how.compression],
            encryption_keys=list(how.keys.public) if how.keys else [],
            key_reader=_key_files(how.keys),
        )
        return OurSender(self._portal, self._call(make), how)

    def receiver(self, topic: str, how: Receiving) -> Receiver:
        """See ``Library``."""
        options = ConsumerOptions(
            type=TYPES[how.type],
            name=how.name,
            initial_position=InitialPosition.EARLIEST,
            queue_size=how.queue_size,
            negative_ack_delay_s=how.negative_ack_delay_s,
            ack_timeout_s=how.ack_timeout_s,
            ack_timeout_tick_s=0.1,
            batch_index_acks=how.batch_index_acks,
            crypto_failure=CryptoFailureAction[how.on_crypto_failure],
        )
        make = partial(
            self._client.subscribe,
            topic,
            how.subscription,
            options,
            schema=VALUES.schema(how.schema),
            key_reader=_key_files(how.keys),
        )
        return OurReceiver(self._portal, self._call(make))

    def _call(self, make: Any) -> Any:
        try:
            return self._portal.call(make)
        except PulsarError as error:
            raise Refused(str(error)) from error


class OurSender:
    """See ``Sender``."""

    def __init__(self, portal: BlockingPortal, producer: Any, how: Sending) -> None:
        self._portal = portal
        self._producer = producer
        self._how = how

    def __repr__(self) -> str:
        return f"<OurSender {self._producer!r}>"

    def send(self, messages: Sequence[Outgoing]) -> list[bytes]:
        """See ``Sender``."""
        return self._portal.call(self._send, messages)

    async def _send(self, messages: Sequence[Outgoing]) -> list[bytes]:
        ids: list[MessageId | Exception | None] = [None] * len(messages)

        def answered(number: int, found: MessageId | None, error: Exception | None) -> None:
            ids[number] = found or error

        for number, each in enumerate(messages):
            value = VALUES.made(self._how.schema, each.value)
            callback = partial(answered, number)
            self._producer.send_nowait(value, **_keywords(each), callback=callback)
        with anyio.fail_after(WITHIN_S):
            await self._producer.flush()
        for each_id in ids:
            if not isinstance(each_id, MessageId):
                raise Refused(str(each_id))
        return [cast(MessageId, each_id).serialize() for each_id in ids]

    def close(self) -> None:
        """See ``Sender``."""
        self._portal.call(self._producer.close)


class OurReceiver:
    """See ``Receiver``."""

    def __init__(self, portal: BlockingPortal, consumer: Any) -> None:
        self._portal = portal
        self._consumer = consumer
        self._got: dict[bytes, Message[Any]] = {}

    def __repr__(self) -> str:
        return f"<OurReceiver {self._consumer!r}>"

    def receive(self, within_s: float = WITHIN_S) -> Incoming | None:
        """See ``Receiver``."""
        message = self.receive_message(within_s)
        return None if message is None else _incoming(message)

    def receive_message(self, within_s: float = WITHIN_S) -> Message[Any] | None:
        """The next message as our own type, for tests that look at its packing."""
        try:
            message: Message[Any] = self._portal.call(self._consumer.receive, within_s)
        except TimedOut:
            return None
        self._got[message.id.serialize()] = message
        return message

    def acknowledge(self, which: Incoming, *, cumulative: bool = False) -> None:
        """See ``Receiver``."""
        stored = partial(self._consumer.acknowledge_stored, cumulative=cumulative)
        self._portal.call(stored, self._got[which.id])

    def negative_acknowledge(self, which: Incoming) -> None:
        """See ``Receiver``."""
        self._portal.call(self._consumer.negative_acknowledge, self._got[which.id])

    def seek(self, where: bytes) -> None:
        """See ``Receiver``."""
        self._portal.call(self._consumer.seek, MessageId.deserialize(where))

    def close(self) -> None:
        """See ``Receiver``."""
        self._portal.call(self._consumer.close)


def _incoming(message: Message[Any]) -> Incoming:
    ordering_key = message.ordering_key
    value = message.data if message.is_encrypted else VALUES.plain(message.value)
    return Incoming(
        value,
        message.is_null,
        message.key_as_sent,
        None if ordering_key is None else ordering_key.decode(),
        message.properties,
        message.event_time_ms,
        message.redelivery_count,
        message.id.serialize(),
    )


def _keywords(message: Outgoing) -> Keywords:
    keywords: Keywords = {"key": message.key, "properties": message.properties}
    if message.ordering_key is not None:
        keywords["ordering_key"] = message.ordering_key.encode()
    if message.event_time_ms:
        keywords["event_time_ms"] = message.event_time_ms
    if message.sequence_id is not None:
        keywords["sequence_id"] = message.sequence_id
    if message.deliver_after_s:
        keywords["deliver_after_s"] = message.deliver_after_s
    return keywords


def _key_files(keys: Keys | None) -> KeyFiles | None:
    return None if keys is None else KeyFiles(keys.public, keys.private)


def _records() -> dict[str, type]:
    """Two versions of one record, with the same name."""

    @dataclass
    class Order:
        item: str | None = None
        count: int | None = None

    older = Order

    @dataclass
    class Order:  # type: ignore[no-redef]
        item: str | None = None
        count: int | None = None
        gift: str | None = None

    return {"older": older, "newer": Order}


VALUES: Final = Values(
    _records(),
    lambda record: record.__dataclass_fields__,
    plain={"bytes": BytesSchema, "string": StringSchema},
    of_records={"json": JsonSchema, "avro": AvroSchema},
    protobuf=ProtobufNativeSchema,
)
