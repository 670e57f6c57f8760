"""Packing: turns messages into SEND frames.

The rule: a frame is packed once; a resend uses the same bytes. Pure: the time of day is an
argument.
"""

from base64 import b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from arneb_pulsar.client.connection.commands import command_of
from arneb_pulsar.client.errors import ConfigurationError, MessageTooLarge, PulsarError
from arneb_pulsar.client.messages import OutgoingMessage, TransactionId
from arneb_pulsar.wire.batch import SIZE
from arneb_pulsar.wire.checksum import join_body
from arneb_pulsar.wire.frame import AROUND_BYTES_MAX, payload_frame
from arneb_pulsar.wire.proto.pulsar_pb2 import (
    CommandSend,
    CompressionType,
    KeyValue,
    MessageMetadata,
    SingleMessageMetadata,
)
from arneb_pulsar.wire.varint import varint

FIELD_PAYLOAD_SIZE: Final = b"\x18"
FIELD_SEQUENCE_ID: Final = b"\x40"
CHUNK_HEADROOM_BYTES: Final = 1024
"""Bytes left free in each chunk for the fields that distinguish chunks."""

Compress = Callable[[bytes], bytes]


class Encryptor(Protocol):
    """See ``codec.encryption``."""

    def encrypt(self, metadata: MessageMetadata, payload: bytes) -> bytes:
        """Return the encrypted payload; record in ``metadata`` how it was encrypted."""

    def rotate(self, now: float) -> None:
        """Make a new data key if one is due."""


@dataclass(frozen=True, slots=True)
class Packed:
    """One SEND: a message, a batch, or a chunk of a message."""

    frame: bytes
    first: int
    """The lowest sequence id in it."""
    last: int
    batch: bool
    chunk: int = 0
    chunks: int = 1

    def is_followed_by(self, other: "Packed") -> bool:
        """Return whether ``other``, sent next, is the next chunk of the same message."""
        return self.chunk + 1 < self.chunks and other.chunk == self.chunk + 1


class Packer:
    """Packs the messages of one producer. Its name and schema version are set once the broker has
    told them."""

    def __init__(
        self,
        producer_id: int,
        *,
        compression: CompressionType = CompressionType.NONE,
        compress: Compress | None = None,
        encryptor: Encryptor | None = None,
    ) -> None:
        self.name = ""
        self.schema_version = b""
        self.message_bytes_max = 0
        """The largest payload of an entry that the broker accepts; 0 until it has told."""
        self.producer_id = producer_id
        self._compression = compression
        self._compress = compress
        self._encryptor = encryptor

    def __repr__(self) -> str:
        return f"<Packer of {self.name!r}, {CompressionType.Name(self._compression)}>"

    def rotate(self, now: float) -> None:
        """Let the encryptor make a new data key if one is due."""
        if self._encryptor is not None:
            self._encryptor.rotate(now)

    def pack_batch(
        self, messages: Sequence[OutgoingMessage], wall_ms: int, *, by_key: bool = False
    ) -> Packed:
        """Pack messages as one entry, in order; with ``by_key`` all must have the same key. Raises
        :class:`MessageTooLarge`."""
        parts: list[bytes] = []
        pack = SIZE.pack
        for message in messages:
            head, payload = single_of(message), message.payload
            parts += (pack(len(head)), head, payload)
        first, last = messages[0].sequence_id, messages[-1].sequence_id
        metadata = self._metadata(first, wall_ms, messages[0].transaction)
        metadata.num_messages_in_batch = len(messages)
        metadata.highest_sequence_id = last
        if by_key:
            _set_keys(metadata, messages[0])
        payload = self._squeeze(metadata, b"".join(parts))
        if 0 < self.message_bytes_max < len(payload):
            raise MessageTooLarge(
                f"expected a batch of at most {self.message_bytes_max} bytes, got {len(payload)} "
                f"of {len(messages)} messages"
            )
        send = CommandSend(
            producer_id=self.producer_id, sequence_id=first, num_messages=len(messages)
        )
        if last != first:
            send.highest_sequence_id = last
        _set_transaction(send, messages[0].transaction)
        return Packed(self._frame(send, metadata, payload), first, last, True)

    def pack_single(
        self, message: OutgoingMessage, wall_ms: int, bytes_max: int, chunk_bytes_max: int
    ) -> list[Packed]:
        """Pack one message without a batch; in chunks of ``chunk_bytes_max`` if it is larger than
        that (0 = never), or in smaller ones if ``bytes_max`` requires. Raises
        :class:`MessageTooLarge`."""
        number = message.sequence_id
        metadata = self._metadata(number, wall_ms, message.transaction)
        _set_keys(metadata, message)
        if message.properties:
            metadata.properties.extend(pairs_of(message.properties))
        if message.event_time_ms:
            metadata.event_time = message.event_time_ms
        if message.deliver_at_ms:
            metadata.deliver_at_time = message.deliver_at_ms
        if message.null_value:
            metadata.null_value = True
        payload = self._squeeze(metadata, message.payload)
        send = CommandSend(producer_id=self.producer_id, sequence_id=number)
        _set_transaction(send, message.transaction)
        if len(payload) <= min(chunk_bytes_max or bytes_max, bytes_max):
            return [Packed(self._frame(send, metadata, payload), number, number, False)]
        if not chunk_bytes_max:
            raise MessageTooLarge(
                f"expected a message of at most {bytes_max} bytes, got {len(payload)}; "
                "larger ones need chunking"
            )
        room = bytes_max - metadata.ByteSize() - CHUNK_HEADROOM_BYTES
        return self._pack_chunks(send, metadata, payload, max(1, min(chunk_bytes_max, room)))

    def _pack_chunks(
        self, send: CommandSend, metadata: MessageMetadata, payload: bytes, step: int
    ) -> list[Packed]:
        number, count = send.sequence_id, -(-len(payload) // step)
        metadata.uuid = f"{self.name}-{number}"
        metadata.num_chunks_from_msg = count
        metadata.total_chunk_msg_size = len(payload)
        send.is_chunk = True
        found = []
        for index in range(count):
            each = MessageMetadata()
            each.CopyFrom(metadata)
            each.chunk_id = index
            frame = self._frame(send, each, payload[index * step : (index + 1) * step])
            found.append(Packed(frame, number, number, False, index, count))
        return found

    def _metadata(
        self, sequence_id: int, wall_ms: int, transaction: TransactionId | None
    ) -> MessageMetadata:
        metadata = MessageMetadata(
            producer_name=self.name, sequence_id=sequence_id, publish_time=wall_ms
        )
        if self.schema_version:
            metadata.schema_version = self.schema_version
        _set_transaction(metadata, transaction)
        return metadata

    def _squeeze(self, metadata: MessageMetadata, payload: bytes) -> bytes:
        metadata.uncompressed_size = len(payload)
        if self._compress is None or not payload:
            # The official C++ client takes an empty payload compressed by zlib for damage.
            return payload
        metadata.compression = self._compression
        return self._compress(payload)

    def _frame(self, send: CommandSend, metadata: MessageMetadata, payload: bytes) -> bytes:
        if self._encryptor is not None:
            payload = self._encryptor.encrypt(metadata, payload)
        frame = payload_frame(command_of(send), join_body(metadata.SerializeToString(), payload))
        if 0 < self.message_bytes_max < len(frame) - AROUND_BYTES_MAX:
            # The broker would close the connection, and again after every resend.
            raise MessageTooLarge(
                f"expected at most {AROUND_BYTES_MAX} bytes around a payload of "
                f"{self.message_bytes_max}, got {len(frame)} bytes in sum: keys and properties "
                "count"
            )
        return frame


def unsendable(error: Exception) -> PulsarError:
    """Return why a message could not be packed. An error that is not a :class:`PulsarError` comes
    from application code: interceptors or key readers."""
    if isinstance(error, PulsarError):
        return error
    return ConfigurationError(f"expected a message that can be sent, got {error!r}")


def single_of(message: OutgoingMessage) -> bytes:
    """Return the metadata of one message in a batch.

    Hot path: the fields that most messages have are encoded by hand; a property test compares the
    result with protobuf's."""
    if (
        message.properties is None
        and message.key is None
        and not message.ordering_key
        and not message.event_time_ms
        and not message.null_value
    ):
        size = varint(len(message.payload))
        return FIELD_PAYLOAD_SIZE + size + FIELD_SEQUENCE_ID + varint(message.sequence_id)
    single = SingleMessageMetadata(
        payload_size=len(message.payload), sequence_id=message.sequence_id
    )
    _set_keys(single, message)
    if message.properties:
        single.properties.extend(pairs_of(message.properties))
    if message.event_time_ms:
        single.event_time = message.event_time_ms
    if message.null_value:
        single.null_value = True
    return single.SerializeToString()


def pairs_of(properties: Any) -> list[KeyValue]:
    """Return properties in wire form."""
    return [KeyValue(key=name, value=value) for name, value in properties.items()]


def _set_keys(
    metadata: "MessageMetadata | SingleMessageMetadata", message: OutgoingMessage
) -> None:
    if isinstance(message.key, str):
        metadata.partition_key = message.key
    elif message.key is not None:
        metadata.partition_key = b64encode(message.key).decode()
        metadata.partition_key_b64_encoded = True
    if message.ordering_key:
        metadata.ordering_key = message.ordering_key


def _set_transaction(
    target: "CommandSend | MessageMetadata", transaction: TransactionId | None
) -> None:
    if transaction is not None:
        target.txnid_most_bits = transaction.most_bits
        target.txnid_least_bits = transaction.least_bits
