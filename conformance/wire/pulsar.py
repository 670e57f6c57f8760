"""A minimal Pulsar client on raw frames, for what the official wheel cannot do.

The wheel cannot acknowledge with receipts, acknowledge batch indexes explicitly, or send a broken
frame. Commands are built from the protocol's field numbers; there is no schema file and no
generated code here.
"""

import asyncio
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, Self

import crc32c
from conformance.brokers.process import Address
from conformance.wire.protobuf import (
    Fields,
    Message,
    Value,
    data_of,
    decode,
    encode,
    integer,
    integers,
)
from conformance.wire.running import dropped, opened

CALL_WITHIN_S: Final = 30.0
SIZE: Final = struct.Struct(">I")
MAGIC: Final = b"\x0e\x01"
EXCLUSIVE: Final = 0
SHARED: Final = 1
FAILOVER: Final = 2
KEY_SHARED: Final = 3
"""Subscription types."""

PROTOCOL_VERSION: Final = 20


class Command(IntEnum):
    """Command types; the field of the same number in BaseCommand holds the command."""

    CONNECT = 2
    CONNECTED = 3
    SUBSCRIBE = 4
    PRODUCER = 5
    SEND = 6
    SEND_RECEIPT = 7
    SEND_ERROR = 8
    MESSAGE = 9
    ACK = 10
    FLOW = 11
    UNSUBSCRIBE = 12
    SUCCESS = 13
    ERROR = 14
    CLOSE_PRODUCER = 15
    CLOSE_CONSUMER = 16
    PRODUCER_SUCCESS = 17
    PING = 18
    PONG = 19
    REDELIVER = 20
    LOOKUP = 23
    LOOKUP_RESPONSE = 24
    CONSUMER_STATS = 25
    CONSUMER_STATS_RESPONSE = 26
    SEEK = 28
    GET_LAST_MESSAGE_ID = 29
    GET_LAST_MESSAGE_ID_RESPONSE = 30
    ACTIVE_CONSUMER_CHANGE = 31
    AUTH_CHALLENGE = 36
    ACK_RESPONSE = 38


class PulsarClosed(Exception):
    """The broker answered with an error, or the stream ended."""


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A message id without the batch index: the position of an entry."""

    ledger: int
    entry: int


@dataclass(frozen=True, slots=True)
class Entry:
    """A MESSAGE command as it arrived."""

    place: Place
    redelivery_count: int
    messages: int
    """How many messages the entry holds."""
    unacked: int
    """Bit i is set if message i is still unacknowledged."""
    payload: bytes
    """What follows the metadata; for a batch, its messages as packed."""


def simple_frame(command: Command, fields: Sequence[tuple[int, Value]]) -> bytes:
    """The frame of a command without payload."""
    base = encode([(1, int(command)), (int(command), fields)])
    return SIZE.pack(len(base) + 4) + SIZE.pack(len(base)) + base


def payload_frame(
    command: Command,
    fields: Sequence[tuple[int, Value]],
    metadata: Sequence[tuple[int, Value]],
    payload: bytes,
) -> bytes:
    """The frame of a command with checksum, metadata and payload."""
    base = encode([(1, int(command)), (int(command), fields)])
    meta = encode(metadata)
    covered = SIZE.pack(len(meta)) + meta + payload
    tail = MAGIC + SIZE.pack(crc32c.crc32c(covered)) + covered
    head = SIZE.pack(len(base)) + base
    return SIZE.pack(len(head) + len(tail)) + head + tail


def connect_frame(more: Fields = ()) -> bytes:
    """The CONNECT command of a client without authentication, unless ``more`` has it."""
    return simple_frame(Command.CONNECT, [(1, "arneb-raw"), (4, PROTOCOL_VERSION), *more])


class PulsarClient:
    """One connection whose commands are sent explicitly."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.received: Callable[[int, Entry], None] = lambda consumer, entry: None
        """Called with the consumer id for each MESSAGE."""
        self.ended: Callable[[], None] = lambda: None
        self.closed: PulsarClosed | None = None
        self._reader = reader
        self._writer = writer
        self._requests = 0
        self._answers: dict[int, asyncio.Future[Message]] = {}
        self._receipts: dict[tuple[int, int], asyncio.Future[Message]] = {}
        self._connected: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def open(cls, address: Address, more: Fields = ()) -> Self:
        """Connect and complete the handshake, with ``more`` fields in CONNECT. Raises
        :class:`PulsarClosed` if refused."""
        client = cls(*await asyncio.open_connection(address.host, address.port, limit=1 << 20))
        opened(client)
        client._write(connect_frame(more))
        await asyncio.wait_for(client._connected, CALL_WITHIN_S)
        return client

    async def look_up(self, topic: str) -> None:
        """Look the topic up; Apache Pulsar serves no topic that has not been looked up."""
        request, answer = self._request()
        self._write(simple_frame(Command.LOOKUP, [(1, topic), (2, request)]))
        await asyncio.wait_for(answer, CALL_WITHIN_S)

    async def subscribe(
        self,
        topic: str,
        subscription: str,
        *,
        consumer: int = 1,
        kind: int = SHARED,
        more: Fields = (),
    ) -> None:
        """Subscribe from the earliest entry. Raises :class:`PulsarClosed` if refused."""
        request, answer = self._request()
        fields: list[tuple[int, Value]] = [(1, topic), (2, subscription), (3, kind)]
        fields += [(4, consumer), (5, request), (8, 1), (13, 1), *more]
        self._write(simple_frame(Command.SUBSCRIBE, fields))
        await asyncio.wait_for(answer, CALL_WITHIN_S)

    async def close_consumer(self, *, consumer: int = 1) -> None:
        """Close the consumer."""
        request, answer = self._request()
        self._write(simple_frame(Command.CLOSE_CONSUMER, [(1, consumer), (2, request)]))
        await asyncio.wait_for(answer, CALL_WITHIN_S)

    def flow(self, permits: int, *, consumer: int = 1) -> None:
        self._write(simple_frame(Command.FLOW, [(1, consumer), (2, permits)]))

    def acknowledge(
        self,
        entries: Sequence[tuple[Place, int | None]],
        *,
        consumer: int = 1,
        cumulative: bool = False,
    ) -> asyncio.Future[Message]:
        """Acknowledge entries with a receipt; the future is done when the receipt has come.

        The number beside a place is a bit set of the messages that stay unacknowledged; None means
        none.
        """
        request, answer = self._request()
        ids: list[tuple[int, Value]] = []
        for place, left in entries:
            parts: list[tuple[int, Value]] = [(1, place.ledger), (2, place.entry)]
            parts += [(5, word) for word in _words(left)]
            ids.append((3, parts))
        fields: list[tuple[int, Value]] = [(1, consumer), (2, int(cumulative)), *ids, (8, request)]
        self._write(simple_frame(Command.ACK, fields))
        return answer

    async def create_producer(self, topic: str, *, producer: int = 1, more: Fields = ()) -> Message:
        """Create a producer; the result is PRODUCER_SUCCESS. Raises :class:`PulsarClosed` if
        refused."""
        request, answer = self._request()
        fields: list[tuple[int, Value]] = [(1, topic), (2, producer), (3, request), *more]
        self._write(simple_frame(Command.PRODUCER, fields))
        return await asyncio.wait_for(answer, CALL_WITHIN_S)

    def send(
        self,
        sequence: int,
        data: bytes,
        *,
        producer: int = 1,
        more: Fields = (),
        metadata: Fields = (),
    ) -> asyncio.Future[Message]:
        """Send one message; the future's result is its receipt, or it raises
        :class:`PulsarClosed`."""
        answer = self._promise()
        self._receipts[producer, sequence] = answer
        described: Fields = [(1, f"raw-{producer}"), (2, sequence), (3, 1), *metadata]
        fields: Fields = [(1, producer), (2, sequence), (3, 1), *more]
        self._write(payload_frame(Command.SEND, fields, described, data))
        return answer

    async def last_place(self, *, consumer: int = 1) -> Message:
        """The last message id (field 1) and the mark-delete position (field 3)."""
        request, answer = self._request()
        self._write(simple_frame(Command.GET_LAST_MESSAGE_ID, [(1, consumer), (2, request)]))
        return await asyncio.wait_for(answer, CALL_WITHIN_S)

    async def statistics(self, *, consumer: int = 1) -> Message:
        """The CONSUMER_STATS_RESPONSE. Raises :class:`PulsarClosed` if refused."""
        request, answer = self._request()
        self._write(simple_frame(Command.CONSUMER_STATS, [(1, request), (4, consumer)]))
        return await asyncio.wait_for(answer, CALL_WITHIN_S)

    async def seek(self, place: Place, *, consumer: int = 1) -> None:
        """Make the subscription continue with that entry; its consumers are disconnected."""
        request, answer = self._request()
        fields: list[tuple[int, Value]] = [(1, consumer), (2, request)]
        fields.append((3, [(1, place.ledger), (2, place.entry)]))
        self._write(simple_frame(Command.SEEK, fields))
        await asyncio.wait_for(answer, CALL_WITHIN_S)

    def give_back(self, places: Sequence[Place], *, consumer: int = 1) -> None:
        """Request redelivery of entries."""
        ids = [(2, [(1, each.ledger), (2, each.entry)]) for each in places]
        self._write(simple_frame(Command.REDELIVER, [(1, consumer), *ids]))

    async def abort(self) -> None:
        """Close the socket. Idempotent."""
        self._reading.cancel()
        await asyncio.wait([self._reading])
        self._writer.transport.abort()
        dropped(self)

    def _write(self, data: bytes) -> None:
        if self._writer.transport.is_closing():
            raise self.closed or PulsarClosed("the stream is closing")
        self._writer.write(data)

    def _request(self) -> tuple[int, asyncio.Future[Message]]:
        if self.closed:
            raise self.closed
        self._requests += 1
        self._answers[self._requests] = answer = self._promise()
        return self._requests, answer

    def _promise(self) -> asyncio.Future[Message]:
        answer: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        # Retrieve the exception, so that asyncio does not report answers that never came because
        # the broker died.
        answer.add_done_callback(lambda done: done.cancelled() or done.exception())
        return answer

    async def _read(self) -> None:
        closed = PulsarClosed("aborted by the test")
        try:
            while True:
                total = SIZE.unpack(await self._reader.readexactly(4))[0]
                self._take(await self._reader.readexactly(total))
        except (OSError, asyncio.IncompleteReadError) as error:
            closed = PulsarClosed(f"stream ended: {error!r}")
        finally:
            self.closed = closed
            for answer in [self._connected, *self._answers.values(), *self._receipts.values()]:
                if not answer.done():
                    answer.set_exception(closed)
                    answer.exception()
            self.ended()

    def _take(self, frame: bytes) -> None:
        size = SIZE.unpack_from(frame)[0]
        base = decode(frame[4 : 4 + size])
        kind = Command(integer(base, 1))
        command = decode(data_of(base, kind))
        match kind:
            case Command.CONNECTED:
                self._connected.set_result(command)
            case Command.MESSAGE:
                self.received(integer(command, 1), _entry(command, frame[4 + size :]))
            case Command.SEND_RECEIPT | Command.SEND_ERROR:
                self._receipt(kind, command)
            case Command.SUCCESS | Command.PRODUCER_SUCCESS:
                self._answer(integer(command, 1), command)
            case Command.LOOKUP_RESPONSE:
                self._answer(integer(command, 4), command)
            case Command.GET_LAST_MESSAGE_ID_RESPONSE:
                self._answer(integer(command, 2), command)
            case Command.CONSUMER_STATS_RESPONSE:
                self._answer(integer(command, 1), command, error=2, text=3)
            case Command.ACK_RESPONSE:
                self._answer(integer(command, 6), command, error=4, text=5)
            case Command.ERROR:
                self._answer(integer(command, 1), command, error=2, text=3)
            case Command.PING:
                self._write(simple_frame(Command.PONG, []))
            case _:
                pass

    def _receipt(self, kind: Command, command: Message) -> None:
        answer = self._receipts.pop((integer(command, 1), integer(command, 2)), None)
        if answer is None or answer.done():
            return
        if kind is Command.SEND_ERROR:
            what = data_of(command, 4).decode(errors="replace")
            answer.set_exception(PulsarClosed(f"send error {integer(command, 3)}: {what}"))
        else:
            answer.set_result(command)

    def _answer(self, request: int, command: Message, error: int = 0, text: int = 0) -> None:
        answer = self._answers.pop(request, None)
        if answer is None or answer.done():
            return
        if error and error in command:
            what = data_of(command, text).decode(errors="replace")
            answer.set_exception(PulsarClosed(f"error {integer(command, error)}: {what}"))
        else:
            answer.set_result(command)


def _words(left: int | None) -> Iterator[int]:
    """An ack set: 64-bit words, the lowest first; empty if the whole entry is acknowledged."""
    while left:
        yield left & (1 << 64) - 1
        left >>= 64


def _entry(command: Message, tail: bytes) -> Entry:
    ids = decode(data_of(command, 2))
    if tail[:2] == MAGIC:
        assert crc32c.crc32c(tail[6:]) == SIZE.unpack_from(tail, 2)[0], "expected a good checksum"
        tail = tail[6:]
    size = SIZE.unpack_from(tail)[0]
    metadata = decode(tail[4 : 4 + size])
    messages = integer(metadata, 11, 1)
    unacked = (1 << messages) - 1
    if 4 in command:
        unacked = 0
        for number, word in enumerate(integers(command[4])):
            unacked |= (word & (1 << 64) - 1) << (64 * number)
    place = Place(integer(ids, 1), integer(ids, 2))
    return Entry(place, integer(command, 3), messages, unacked, tail[4 + size :])
