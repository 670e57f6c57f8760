"""The official Python client: a wheel around the C++ library."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from threading import Event
from typing import Any, Final

import pulsar
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
from pulsar.schema import (
    AvroSchema,
    BytesSchema,
    JsonSchema,
    Long,
    ProtobufNativeSchema,
    Record,
    String,
    StringSchema,
)

BATCH_MS: Final = 5_000
COMPRESSIONS: Final = {
    "NONE": pulsar.CompressionType.NONE,
    "LZ4": pulsar.CompressionType.LZ4,
    "ZLIB": pulsar.CompressionType.ZLib,
    "ZSTD": pulsar.CompressionType.ZSTD,
    "SNAPPY": pulsar.CompressionType.SNAPPY,
}
TYPES: Final = {
    "Exclusive": pulsar.ConsumerType.Exclusive,
    "Shared": pulsar.ConsumerType.Shared,
    "Failover": pulsar.ConsumerType.Failover,
    "Key_Shared": pulsar.ConsumerType.KeyShared,
}
BATCH: Final = {"batching_enabled": True, "batching_max_publish_delay_ms": BATCH_MS}
PACKINGS: Final[dict[str, dict[str, Any]]] = {
    "single": {"batching_enabled": False},
    "batch": BATCH,
    "key batch": BATCH | {"batching_type": pulsar.BatchingType.KeyBased},
    "chunks": {"batching_enabled": False, "chunking_enabled": True},
}
ON_CRYPTO_FAILURE: Final = {
    "FAIL": pulsar.ConsumerCryptoFailureAction.FAIL,
    "DISCARD": pulsar.ConsumerCryptoFailureAction.DISCARD,
    "CONSUME": pulsar.ConsumerCryptoFailureAction.CONSUME,
}


@contextmanager
def wheel(url: str) -> Iterator["Wheel"]:
    """A client."""
    quiet = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    client = pulsar.Client(url, operation_timeout_seconds=int(WITHIN_S), logger=quiet)
    try:
        yield Wheel(client)
    finally:
        client.close()


class Wheel:
    """See ``Library``."""

    name = "wheel"

    def __init__(self, client: pulsar.Client) -> None:
        self._client = client

    def __repr__(self) -> str:
        return "<Wheel>"

    def sender(self, topic: str, how: Sending) -> Sender:
        """See ``Library``. The wheel encrypts with one key only."""
        options = dict(PACKINGS[how.packing])
        if how.keys is not None:
            ((name, _),) = how.keys.public.items()
            options |= {"encryption_key": name, "crypto_key_reader": _key_reader(how.keys)}
        make = partial(
            self._client.create_producer,
            topic,
            producer_name=how.name or None,
            schema=VALUES.schema(how.schema),
            compression_type=COMPRESSIONS[how.compression],
            **options,
        )
        return WheelSender(_called(make), how)

    def receiver(self, topic: str, how: Receiving) -> Receiver:
        """See ``Library``."""
        make = partial(
            self._client.subscribe,
            topic,
            how.subscription,
            consumer_type=TYPES[how.type],
            schema=VALUES.schema(how.schema),
            receiver_queue_size=how.queue_size,
            consumer_name=how.name or None,
            initial_position=pulsar.InitialPosition.Earliest,
            negative_ack_redelivery_delay_ms=int(how.negative_ack_delay_s * 1000),
            unacked_messages_timeout_ms=int(how.ack_timeout_s * 1000) or None,
            crypto_key_reader=None if how.keys is None else _key_reader(how.keys),
            crypto_failure_action=ON_CRYPTO_FAILURE[how.on_crypto_failure],
            batch_index_ack_enabled=how.batch_index_acks,
        )
        return WheelReceiver(_called(make))


class WheelSender:
    """See ``Sender``."""

    def __init__(self, producer: Any, how: Sending) -> None:
        self._producer = producer
        self._how = how

    def __repr__(self) -> str:
        return f"<WheelSender to {self._producer.topic()}>"

    def send(self, messages: Sequence[Outgoing]) -> list[bytes]:
        """See ``Sender``."""
        ids: list[Any] = [None] * len(messages)
        answered = [Event() for _ in messages]

        def note(number: int, result: Any, found: Any) -> None:
            ids[number] = found if result == pulsar.Result.Ok else result
            answered[number].set()

        for number, each in enumerate(messages):
            value = VALUES.made(self._how.schema, each.value)
            self._producer.send_async(value, partial(note, number), **_keywords(each))
        self._producer.flush()
        for each_event in answered:
            assert each_event.wait(WITHIN_S)
        for each_id in ids:
            if isinstance(each_id, pulsar.Result):
                raise Refused(str(each_id))
        return [each_id.serialize() for each_id in ids]

    def close(self) -> None:
        """See ``Sender``."""
        _called(self._producer.close)


class WheelReceiver:
    """See ``Receiver``."""

    def __init__(self, consumer: Any) -> None:
        self._consumer = consumer
        self._got: dict[bytes, Any] = {}

    def __repr__(self) -> str:
        return f"<WheelReceiver of {self._consumer.topic()}>"

    def receive(self, within_s: float = WITHIN_S) -> Incoming | None:
        """See ``Receiver``."""
        try:
            message = self._consumer.receive(int(within_s * 1000))
        except pulsar.Timeout:
            return None
        found = _incoming(message)
        self._got[found.id] = message
        return found

    def acknowledge(self, which: Incoming, *, cumulative: bool = False) -> None:
        """See ``Receiver``."""
        message = self._got[which.id]
        if cumulative:
            _called(partial(self._consumer.acknowledge_cumulative, message))
        else:
            self._consumer.acknowledge(message)

    def negative_acknowledge(self, which: Incoming) -> None:
        """See ``Receiver``."""
        self._consumer.negative_acknowledge(self._got[which.id])

    def seek(self, where: bytes) -> None:
        """See ``Receiver``."""
        self._consumer.seek(pulsar.MessageId.deserialize(where))

    def close(self) -> None:
        """See ``Receiver``."""
        _called(self._consumer.close)


def _called(make: Any) -> Any:
    try:
        return make()
    except pulsar.PulsarException as error:
        raise Refused(f"{type(error).__name__}: {error}") from error


def _incoming(message: Any) -> Incoming:
    is_null = message.has_null_value()
    encrypted = message.encryption_context()
    is_raw = encrypted is not None and encrypted.is_decryption_failed()
    return Incoming(
        message.data() if is_raw else None if is_null else VALUES.plain(message.value()),
        is_null,
        message.partition_key() or None,
        message.ordering_key() or None,
        dict(message.properties()),
        message.event_timestamp(),
        message.redelivery_count(),
        message.message_id().serialize(),
    )


def _keywords(message: Outgoing) -> dict[str, Any]:
    return {
        "properties": dict(message.properties) or None,
        "partition_key": message.key,
        "ordering_key": message.ordering_key,
        "event_timestamp": message.event_time_ms or None,
        "sequence_id": message.sequence_id,
        "deliver_after": timedelta(seconds=message.deliver_after_s)
        if message.deliver_after_s
        else None,
    }


def _key_reader(keys: Keys) -> pulsar.CryptoKeyReader:
    ((_, public),) = keys.public.items()
    ((_, private),) = keys.private.items()
    return pulsar.CryptoKeyReader(public, private)


def _records() -> dict[str, type]:
    class Order(Record):  # type: ignore[misc]
        item = String()
        count = Long()

    older = Order

    class Order(Record):  # type: ignore[misc, no-redef]
        item = String()
        count = Long()
        gift = String(default=None, required_default=True)

    return {"older": older, "newer": Order}


VALUES: Final = Values(
    _records(),
    lambda record: record._fields,
    plain={"bytes": BytesSchema, "string": StringSchema},
    of_records={"json": JsonSchema, "avro": AvroSchema},
    protobuf=ProtobufNativeSchema,
)
