"""The hot reader: a connection's bytes in, items out, at a cost per run and not per message.

The rule: one receive brings hundreds of publishes or acks that hardly differ, so this module looks
for runs that C code can check and cut, and leaves the rest, frame by frame, to
:mod:`arneb_amqp.wire.assembly`. It never raises on input and never gets ahead of the assembler:
where a fast path is not sure, it stops before that frame.

Three speeds, in CPU time per 256-byte message on a small machine, compared with 15 us for a publish
taken frame by frame:

* *one stride* (0.6 us, 0.2 us without the copying): method frame, properties and body size are
  those of the message before. The messages are rows of a table, whose fixed columns are
  compared and whose bodies are cut out by C alone.
* *one layout* (0.6 to 1.4 us): the method frame is one that is known, and so is the size of the
  content header, so one precompiled struct reads the whole fixed part.
* acks (0.15 us), rejects and nacks are rows of 21 bytes, found by one regular expression.
"""

import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain, repeat
from struct import Struct, error
from typing import Final

from arneb_amqp.errors import AmqpError, ConnectionException
from arneb_amqp.wire.assembly import Assembler
from arneb_amqp.wire.constants import (
    BASIC_NACK,
    BASIC_REJECT,
    FRAME_BYTES_MIN,
    FRAME_END,
    FRAME_METHOD,
    FRAME_OVERHEAD_BYTES,
    FRAME_START,
    FRAME_START_BYTES,
    MESSAGE_BYTES_MAX_DEFAULT,
    PARTIAL_BYTES_MAX_DEFAULT,
    ChannelId,
)
from arneb_amqp.wire.frames import Frame, FramingLost, cut_frame
from arneb_amqp.wire.items import (
    Ack,
    AckRun,
    Broken,
    Item,
    Method,
    PublishRun,
    RejectRun,
)
from arneb_amqp.wire.methods import decode_method
from arneb_amqp.wire.properties import PropertyFlag
from arneb_amqp.wire.property_judge import INTERESTING, PropertyJudge
from arneb_amqp.wire.publishes import ITEMS_MAX, PUBLISH_METHOD, PublishReader, open_publishes

_ACK_METHOD: Final = b"\x00\x3c\x00\x50"
_REJECT_METHOD: Final = b"\x00\x3c\x00\x5a"
_NACK_METHOD: Final = b"\x00\x3c\x00\x78"
_METHOD_AT: Final = FRAME_START_BYTES


def _rows_of(method: bytes, bits: bytes, same_bits: bytes) -> "re.Pattern[bytes]":
    """Return what matches a run of answers to deliveries: the same method on one channel, with the
    same bits."""
    fixed = rb"\x00\x00\x00\x0d" + re.escape(method) + rb".{8}"
    return re.compile(
        rb"(?s)\x01(..)" + fixed + bits + rb"\xce(?:\x01\1" + fixed + same_bits + rb"\xce)*+"
    )


_ACKS: Final = _rows_of(_ACK_METHOD, rb"\x00", rb"\x00")
_REJECTS: Final = _rows_of(_REJECT_METHOD, rb"([\x00\x01])", rb"\2")  # the bit: requeue
_NACKS: Final = _rows_of(_NACK_METHOD, rb"([\x00\x02])", rb"\2")  # multiple, then requeue
_ACK: Final = Struct(">BHI4sQBB")
_ACK_TAGS: Final = Struct(">11xQ2x")
_ACK_PAYLOAD_BYTES: Final = 13


class FastReader:
    """Turns a connection's bytes, after the protocol header, into items.

    ``frame_bytes_max`` is 4096 until tuning is done; then set it to the negotiated limit (0 = no
    limit but the largest message).
    """

    __slots__ = (
        "_assembler",
        "_closing",
        "_lost",
        "_message_bytes_max",
        "_need",
        "_publishes",
        "_tail",
        "has_more",
    )

    def __init__(
        self,
        frame_bytes_max: int = FRAME_BYTES_MIN,
        *,
        message_bytes_max: int = MESSAGE_BYTES_MAX_DEFAULT,
        partial_bytes_max: int = PARTIAL_BYTES_MAX_DEFAULT,
        interesting: PropertyFlag = INTERESTING,
    ) -> None:
        judge = PropertyJudge(interesting)
        self._assembler = Assembler(
            judge, message_bytes_max=message_bytes_max, partial_bytes_max=partial_bytes_max
        )
        self._message_bytes_max = message_bytes_max
        self._publishes = PublishReader(judge, self._assembler.waiting, message_bytes_max)
        self.frame_bytes_max = frame_bytes_max
        self._tail = bytearray()
        self._need = 0
        self._closing = False
        self._lost = False
        self.has_more = False
        """Whether the last call stopped early: call :meth:`receive` again, with no data."""

    def __repr__(self) -> str:
        return f"<FastReader {len(self._tail)} bytes held, {self._assembler!r}>"

    @property
    def frame_bytes_max(self) -> int:
        """The limit in force; 0 = no limit but the largest message."""
        limit = self._publishes.payload_bytes_max
        return 0 if limit == self._unlimited else limit

    @frame_bytes_max.setter
    def frame_bytes_max(self, value: int) -> None:
        # RabbitMQ tolerates a payload of frame_max octets, eight more than the limit allows.
        self._publishes.payload_bytes_max = value or self._unlimited

    @property
    def _unlimited(self) -> int:
        return self._message_bytes_max + FRAME_OVERHEAD_BYTES

    def receive(self, data: bytes | bytearray) -> list[Item]:
        """Return the items that ``data`` completes, in wire order: about :data:`ITEMS_MAX` at most,
        in which case ``has_more`` is set. Never raises on a peer's input."""
        if self._tail:
            self._tail += data
            if len(self._tail) < self._need:
                return []
            data, self._tail = self._tail, bytearray()
        items: list[Item] = []
        raw, at = bytes(data), 0
        frames = 0
        self.has_more = False
        while not self._lost:
            if frames + len(items) >= ITEMS_MAX:
                self.has_more = True
                self._need = 0
                self._tail += raw[at:]
                break
            frames += 1
            if not self._closing:
                self._need = 0
                self._publishes.is_full = False
                at = self._runs(raw, at, items)
                if self._need:
                    self._tail += raw[at:]
                    break
                if self._publishes.is_full:
                    frames = ITEMS_MAX
                    continue
                if at == len(raw):  # the usual case
                    break
            try:
                frame = cut_frame(raw, at, self._publishes.payload_bytes_max)
            except FramingLost as problem:
                _, channel, _ = FRAME_START.unpack_from(raw, at)
                items.append(Broken(ChannelId(channel), problem, framing_lost=True))
                self._lost = True
                break
            if isinstance(frame, int):
                self._tail += raw[at:]
                self._need = frame
                break
            self._take(frame, items)
            at += frame.bytes_on_wire
        return items

    def close(self) -> None:
        """Accept only methods on channel 0 from now on: the session sends ``connection.close``."""
        self._closing = True
        self._assembler.forget()

    def _take(self, frame: Frame, items: list[Item]) -> None:
        """Pass one frame to the assembler, or around it once the connection is closing."""
        if self._closing:
            if frame.channel == 0 and frame.type == FRAME_METHOD:
                # Any further mistake of the peer has been answered already.
                with suppress(AmqpError, error):
                    items.append(Method(frame.channel, decode_method(frame.payload)))
            return
        try:
            item = self._assembler.take(frame)
        except ConnectionException as problem:
            items.append(Broken(frame.channel, problem))
            self.close()
            return
        match item:
            case PublishRun(channel, route, persistent, mandatory, bodies, priority, expiration_ms):
                routes, run = open_publishes(
                    items, channel, route, persistent, mandatory, priority, expiration_ms
                )
                run += bodies
                if routes is not None:
                    routes += repeat(route, len(bodies))
            case AckRun(channel, tags):
                _open_acks(items, channel).extend(tags)
            case RejectRun(channel, tags, requeue, method):
                _open_rejects(items, channel, requeue, method).extend(tags)
            case None:
                pass
            case _:
                items.append(item)

    def _runs(self, raw: bytes, at: int, items: list[Item]) -> int:
        """Take runs from ``at`` on; return their end."""
        publishes = self._publishes
        while True:
            method = raw[at + _METHOD_AT : at + _METHOD_AT + 4]
            if method == PUBLISH_METHOD:
                after = publishes.take(raw, at, items)
                self._need = publishes.need_bytes
            elif method == _ACK_METHOD:
                after = self._acks(raw, at, items)
            elif method == _REJECT_METHOD:
                after = self._rejects(raw, at, items, _REJECTS, BASIC_REJECT)
            elif method == _NACK_METHOD:
                after = self._rejects(raw, at, items, _NACKS, BASIC_NACK)
            else:
                return at
            if after == at or self._need or len(items) >= ITEMS_MAX or publishes.is_full:
                return after
            at = after

    def _acks(self, raw: bytes, at: int, items: list[Item]) -> int:
        """Take the acks at ``at``: a run of single ones, or one that is multiple."""
        if len(raw) < at + _ACK.size:
            return at
        kind, channel, size, _, tag, bits, end = _ACK.unpack_from(raw, at)
        if not channel or channel in self._assembler.waiting:
            return at
        found = _ACKS.match(raw, at)
        if found is not None:
            after = _whole_rows(found)
            _open_acks(items, channel).extend(_tags_of(raw, at, after))
            return after
        if (kind, size, bits, end) != (FRAME_METHOD, _ACK_PAYLOAD_BYTES, 1, FRAME_END):
            return at
        items.append(Ack(channel, tag))
        return at + _ACK.size

    def _rejects(
        self,
        raw: bytes,
        at: int,
        items: list[Item],
        rows: "re.Pattern[bytes]",
        method: tuple[int, int],
    ) -> int:
        """Take the run of ``rows`` at ``at``: of rejects, or of nacks that are not multiple."""
        found = rows.match(raw, at)
        if found is None:
            return at
        channel = _ACK.unpack_from(raw, at)[1]
        if not channel or channel in self._assembler.waiting:
            return at
        after = _whole_rows(found)
        requeue = found[2] != b"\x00"
        _open_rejects(items, channel, requeue, method).extend(_tags_of(raw, at, after))
        return after


def _whole_rows(found: "re.Match[bytes]") -> int:
    """Return the end of the last whole row: Python 3.11.2 may end a possessive match inside the
    first frame that is no such row."""
    start = found.start()
    return start + (found.end() - start) // _ACK.size * _ACK.size


def _tags_of(raw: bytes, at: int, after: int) -> Iterator[int]:
    return chain.from_iterable(_ACK_TAGS.iter_unpack(memoryview(raw)[at:after]))


def _open_acks(items: list[Item], channel: ChannelId) -> list[int]:
    """Return the tags of the run that ends ``items``; begin a run if the last item is another
    one."""
    last = items[-1] if items else None
    if isinstance(last, AckRun) and last.channel == channel:
        return last.tags
    run = AckRun(channel, [])
    items.append(run)
    return run.tags


def _open_rejects(
    items: list[Item], channel: ChannelId, requeue: bool, method: tuple[int, int]
) -> list[int]:
    """Return the tags of the run that ends ``items``; begin a run if the last item is another
    one."""
    last = items[-1] if items else None
    if (
        isinstance(last, RejectRun)
        and last.channel == channel
        and last.requeue == requeue
        and last.method == method
    ):
        return last.tags
    run = RejectRun(channel, [], requeue, method)
    items.append(run)
    return run.tags
