"""Unpacking: splits a MESSAGE from the broker into its messages.

The rule: a MESSAGE that cannot be unpacked is a fault, reported only to the broker; chunks of a
message are kept until the last has come. Pure.
"""

from dataclasses import dataclass, field
from struct import Struct
from typing import Final, Generic, Protocol, TypeVar

from google.protobuf.message import DecodeError

from arneb_pulsar.client.consumer.message import Decoder, Entry, Message
from arneb_pulsar.client.consumer.options import CryptoFailureAction
from arneb_pulsar.client.errors import CryptoError
from arneb_pulsar.client.ids import EntryId
from arneb_pulsar.client.trackers.chunks import ChunkAssembler
from arneb_pulsar.wire.ack_sets import mask_of
from arneb_pulsar.wire.checksum import split_body, verify_body
from arneb_pulsar.wire.compression import decompress
from arneb_pulsar.wire.errors import ChecksumMismatch, PayloadError
from arneb_pulsar.wire.metadata import parse_metadata
from arneb_pulsar.wire.proto.pulsar_pb2 import (
    BrokerEntryMetadata,
    CommandAck,
    CommandMessage,
    MessageMetadata,
    SingleMessageMetadata,
)

T = TypeVar("T")

MESSAGES_MAX: Final = 1 << 20
"""Messages in one batch: a 5 MiB entry has no room for more, even of the smallest. A larger count
is invalid; trusting it would cost a bit for each message before the first is read."""

BROKER_MAGIC: Final = b"\x0e\x02"
"""The magic number of the broker's entry metadata."""

SIZE: Final = Struct(">I")


class Decryptor(Protocol):
    """See ``codec.encryption``."""

    def decrypt(self, metadata: MessageMetadata, payload: bytes) -> bytes:
        """Return the payload in clear. Raises :class:`CryptoError`."""


@dataclass(slots=True)
class Unpacked(Generic[T]):
    """The result of unpacking one MESSAGE."""

    entry: EntryId
    messages: list[Message[T]] = field(default_factory=list)
    permits: int = 1
    """The permits that the broker counted for it."""
    left: int | None = None
    """For a batch: the bit set of its messages that the broker counts as unacknowledged."""
    batch_size: int = 0
    is_chunk: bool = False
    """Whether it is a chunk of a message."""
    fault: "CommandAck.ValidationError | None" = None
    """What is wrong with it, to be reported with its acknowledgement."""
    text: str = ""
    refused: bool = False
    """It could not be decrypted, and is to be redelivered."""

    def __repr__(self) -> str:
        return f"<Unpacked {self.entry}, {len(self.messages)} messages>"


def permits_of(command: CommandMessage, body: bytes) -> int:
    """Return the permits that the broker counted for an entry, without unpacking it."""
    if command.ack_set:
        return mask_of(command.ack_set).bit_count()
    try:
        _, body = _split_broker_metadata(body)
        count = parse_metadata(split_body(body)[0]).num_messages_in_batch
        return count if 0 < count <= MESSAGES_MAX else 1
    except (PayloadError, DecodeError):
        return 1


class Unpacker(Generic[T]):
    """Unpacks the MESSAGEs of one consumer."""

    def __init__(
        self,
        topic: str,
        partition: int,
        decoder: Decoder[T],
        chunks: ChunkAssembler,
        *,
        decryptor: Decryptor | None = None,
        crypto_failure: CryptoFailureAction = CryptoFailureAction.FAIL,
    ) -> None:
        self._topic = topic
        self._partition = partition
        self._decoder = decoder
        self._chunks = chunks
        self._decryptor = decryptor
        self._crypto_failure = crypto_failure

    def __repr__(self) -> str:
        return f"<Unpacker of {self._topic}, {self._chunks!r}>"

    def unpack(self, command: CommandMessage, body: bytes, now: float) -> Unpacked[T]:
        """Return the messages in a MESSAGE, or what is wrong with it."""
        data = command.message_id
        found: Unpacked[T] = Unpacked((data.ledgerId, data.entryId))
        try:
            broker, body = _split_broker_metadata(body)
            verify_body(body)
            head, at = split_body(body)
            metadata = parse_metadata(head)
        except ChecksumMismatch as error:
            return _faulty(found, CommandAck.ChecksumMismatch, error)
        except (PayloadError, DecodeError) as error:
            return _faulty(found, CommandAck.BatchDeSerializeError, error)
        is_batch = metadata.HasField("num_messages_in_batch")
        count = found.batch_size = metadata.num_messages_in_batch if is_batch else 0
        if not 0 <= count <= MESSAGES_MAX or (is_batch and not count):
            found.batch_size = 0
            wrong = PayloadError(f"expected 1 to {MESSAGES_MAX} messages in a batch, got {count}")
            return _faulty(found, CommandAck.BatchDeSerializeError, wrong)
        ack_set = command.ack_set
        if is_batch:
            all_messages = (1 << found.batch_size) - 1
            found.left = mask_of(ack_set) & all_messages if ack_set else all_messages
            found.permits = found.left.bit_count() if ack_set else found.batch_size
        entry = Entry(
            self._topic,
            self._partition,
            found.entry,
            metadata,
            self._decoder,
            command.redelivery_count,
            found.batch_size,
            broker,
        )
        payload = body[at:]
        if metadata.encryption_keys:
            clear = self._decrypt(found, entry, payload)
            if clear is None:
                return found
            payload = clear
        return self._open(found, entry, payload, now)

    def _open(self, found: Unpacked[T], entry: Entry[T], payload: bytes, now: float) -> Unpacked[T]:
        """Do what follows decryption: assemble chunks, decompress, split batches."""
        metadata = entry.metadata
        if metadata.num_chunks_from_msg > 1:
            found.is_chunk = True
            whole = self._chunks.add(
                metadata.uuid,
                metadata.chunk_id,
                metadata.num_chunks_from_msg,
                metadata.total_chunk_msg_size,
                found.entry,
                payload,
                now,
            )
            if whole is None:
                return found
            payload, entry.chunks = whole.payload, whole.entries
        if metadata.compression:
            try:
                payload = decompress(payload, metadata.compression, metadata.uncompressed_size)
            except PayloadError as error:
                return _faulty(found, CommandAck.DecompressionError, error)
        if found.batch_size:
            try:
                found.messages = _split(entry, payload, found.left or 0)
            except (PayloadError, DecodeError, IndexError) as error:
                return _faulty(found, CommandAck.BatchDeSerializeError, error)
        else:
            found.messages = [Message(entry, payload, -1, None)]
        return found

    def _decrypt(self, found: Unpacked[T], entry: Entry[T], payload: bytes) -> bytes | None:
        """Return the payload in clear; None if ``found`` is complete without it."""
        try:
            if self._decryptor is None:
                raise CryptoError(f"expected a key for {self._topic}, got none")
            return self._decryptor.decrypt(entry.metadata, payload)
        except CryptoError as error:
            found.text = str(error)
        match self._crypto_failure:
            case CryptoFailureAction.DISCARD:
                found.fault = CommandAck.DecryptionError
            case CryptoFailureAction.CONSUME:
                # An encrypted batch cannot be split: it is delivered as one message.
                entry.is_encrypted, entry.batch_size = True, 0
                found.messages, found.batch_size, found.left = (
                    [Message(entry, payload, -1, None)],
                    0,
                    None,
                )
            case CryptoFailureAction.FAIL:
                found.refused = True
        return None


def _split_broker_metadata(body: bytes) -> tuple[BrokerEntryMetadata | None, bytes]:
    """Split off the broker's entry metadata, if any. Raises :class:`PayloadError` and
    :class:`DecodeError`."""
    if body[:2] != BROKER_MAGIC:
        return None, body
    if len(body) < 6 or len(body) < (end := 6 + SIZE.unpack_from(body, 2)[0]):
        raise PayloadError(f"expected the broker's metadata, got {len(body)} bytes")
    return BrokerEntryMetadata.FromString(body[6:end]), body[end:]


def _split(entry: Entry[T], payload: bytes, left: int) -> list[Message[T]]:
    """Return the messages of a batch whose bits are set in ``left``.

    Hot path: one iteration for each message."""
    messages: list[Message[T]] = []
    add, read, size_at = messages.append, SingleMessageMetadata.FromString, SIZE.unpack_from
    count, size, at = entry.batch_size, len(payload), 0
    every = left == (1 << count) - 1
    for index in range(count):
        if at + 4 > size:
            raise PayloadError(f"expected message {index} of {count} at byte {at}, got the end")
        start = at + 4
        at = start + size_at(payload, at)[0]
        single = read(payload[start:at])
        start = at
        at += single.payload_size
        if at > size or at < start:
            raise PayloadError(f"expected {single.payload_size} bytes of message {index}")
        if (every or left >> index & 1) and not single.compacted_out:
            add(Message(entry, payload[start:at], index, single))
    return messages


def _faulty(
    found: Unpacked[T], fault: "CommandAck.ValidationError", error: Exception
) -> Unpacked[T]:
    found.fault, found.text = fault, str(error)
    found.messages = []
    return found
