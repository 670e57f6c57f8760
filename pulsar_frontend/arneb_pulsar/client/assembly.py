"""Assembly: makes one producer, or one consumer, from its parts.

The rule: the same code serves topics without partitions and single partitions.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

from arneb_pulsar.client.codec.compression import Compression, compress
from arneb_pulsar.client.codec.encryption import Decryptor, Encryptor, KeyReader
from arneb_pulsar.client.codec.schemas.schema import Schema
from arneb_pulsar.client.consumer.consumer import Consumer
from arneb_pulsar.client.consumer.dead_letters import DeadLetters, MakeProducer
from arneb_pulsar.client.consumer.machine import ConsumerMachine
from arneb_pulsar.client.consumer.message import Message, PlainDecoder
from arneb_pulsar.client.consumer.options import ConsumerOptions
from arneb_pulsar.client.consumer.unpacking import Unpacker
from arneb_pulsar.client.consumer.versions import SchemaVersions
from arneb_pulsar.client.context import ClientContext
from arneb_pulsar.client.errors import ConfigurationError
from arneb_pulsar.client.interceptors import ConsumerInterceptor
from arneb_pulsar.client.producer.building import Builder
from arneb_pulsar.client.producer.machine import ProducerMachine
from arneb_pulsar.client.producer.options import ProducerOptions
from arneb_pulsar.client.producer.packing import Packer
from arneb_pulsar.client.producer.producer import Producer
from arneb_pulsar.client.trackers.ack_grouping import (
    AckGroupingTracker,
    AckTracker,
    NonPersistentAcks,
)
from arneb_pulsar.client.trackers.batching import BatchContainer, DefaultBatches, KeyBatches
from arneb_pulsar.client.trackers.chunks import ChunkAssembler
from arneb_pulsar.client.trackers.receiver_queue import ReceiverQueue
from arneb_pulsar.names import TopicName
from arneb_pulsar.wire.proto import pulsar_pb2 as pb

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ProducerParts(Generic[T]):
    """What the producers of all partitions of a topic share."""

    options: ProducerOptions
    builder: Builder[T]
    compression: Compression = Compression.NONE
    encryption_keys: Sequence[str] = ()
    key_reader: KeyReader | None = None


def make_producer(context: ClientContext, topic: TopicName, parts: ProducerParts[T]) -> Producer[T]:
    """Return a producer that is not attached yet. Raises :class:`ConfigurationError`."""
    options, compression = parts.options, parts.compression
    encryptor = None
    if parts.encryption_keys:
        if parts.key_reader is None:
            raise ConfigurationError("expected a key reader for the encryption keys, got none")
        encryptor = Encryptor(parts.encryption_keys, parts.key_reader)
    packer = Packer(
        next(context.numbers),
        compression=compression.value,
        compress=None
        if compression is Compression.NONE
        else partial(compress, compression=compression),
        encryptor=encryptor,
    )
    machine = ProducerMachine(str(topic), topic.partition, options, packer, _batches(options))
    return Producer(
        context,
        topic,
        options,
        machine,
        parts.builder,
        encrypted=encryptor is not None,
    )


def _batches(options: ProducerOptions) -> BatchContainer | None:
    batching = options.batching
    if batching is None:
        return None
    kind = KeyBatches if batching.by_key else DefaultBatches
    return kind(
        messages_max=batching.messages_max,
        bytes_max=batching.bytes_max,
        delay_s=batching.delay_s,
    )


@dataclass(frozen=True, slots=True)
class ConsumerParts(Generic[T]):
    """What the consumers of all topics of a subscription share."""

    subscription: str
    options: ConsumerOptions
    schema: Schema[T]
    interceptors: Sequence[ConsumerInterceptor] = ()
    key_reader: KeyReader | None = None
    make_letter_producer: MakeProducer | None = None


def make_consumer(context: ClientContext, topic: TopicName, parts: ConsumerParts[T]) -> Consumer[T]:
    """Return a consumer that is not attached yet. Raises :class:`ConfigurationError`."""
    options, number = parts.options, next(context.numbers)
    chunks = ChunkAssembler(
        pending_max=options.chunked_pending_max, expire_s=options.chunk_expire_s
    )
    queue: ReceiverQueue[Message[T]] = ReceiverQueue(
        options.queue_size, auto_scaled=options.auto_scaled_queue
    )
    versions = None
    if parts.schema.info.type != pb.Schema.Type.Value("None"):
        ask = partial(context.lookup.schema, topic.base)
        versions = SchemaVersions(context, parts.schema, str(topic.base), ask)
    unpacker = Unpacker(
        str(topic),
        topic.partition,
        versions or PlainDecoder(parts.schema),
        chunks,
        decryptor=Decryptor(parts.key_reader) if parts.key_reader else None,
        crypto_failure=options.crypto_failure,
    )
    memory = context.memory if options.auto_scaled_queue else None
    machine = ConsumerMachine(
        number, str(topic), options, _acks(topic, options), queue, chunks, unpacker, memory
    )
    letters: DeadLetters[T] | None = None
    if options.dead_letters is not None and parts.make_letter_producer is not None:
        letters = DeadLetters(
            context, topic, parts.subscription, options.dead_letters, parts.make_letter_producer
        )
    return Consumer(
        context,
        topic,
        parts.subscription,
        options,
        machine,
        parts.schema.info.to_wire(),
        letters,
        versions,
        parts.interceptors,
    )


def _acks(topic: TopicName, options: ConsumerOptions) -> AckTracker:
    if not topic.is_persistent:
        return NonPersistentAcks()
    return AckGroupingTracker(
        group_s=options.ack_group_s,
        group_max=options.ack_group_max,
        batch_index_acks=options.batch_index_acks,
    )
