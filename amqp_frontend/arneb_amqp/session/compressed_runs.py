"""Compressed runs: deliveries that take long to decompress, and those that wait for them.

The rule: pure. A run waits here until its owner has decompressed it outside the event loop, piece
by piece. Deliveries on a channel stay in order: while one run waits, later runs of that channel
wait too. Other channels are not held up.
"""

from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice
from typing import Final, NamedTuple, TypeAlias, cast

from arneb_amqp.wire.constants import ChannelId
from arneb_core.api.entries.codec import Codec, CompressedCodec, codecs
from arneb_core.api.entries.position import Position
from arneb_core.api.subscriptions.deliveries import Deliveries

IN_A_TURN: Final = 256 * 1024
"""Bytes that are decompressed in the event loop at once: a millisecond."""

IN_A_PIECE: Final = 4 * 1024 * 1024
"""Bytes that are decompressed together, unless a single entry has more, and sent before the next: a
few KB may decompress to 100 MiB, so a run of those would fill the memory."""

Messages: TypeAlias = tuple[list[Position], list[bytes], dict[int, int]]
"""Positions, messages, and by index the number of a message within its batch."""

Send: TypeAlias = Callable[[Deliveries, Messages], None]


class Piece(NamedTuple):
    """The part of a run that is decompressed next."""

    run: Deliveries
    queue: str
    decompressed_bytes: int


@dataclass(slots=True, eq=False)
class _Waiting:
    channel: ChannelId
    queue: str
    run: Deliveries
    sizes: Sequence[int]
    send: Send
    at: int = 0
    """How many of the entries are sent."""


class CompressedRuns:
    """The runs of one connection that wait, oldest first."""

    __slots__ = ("_channels", "_out", "_runs", "bytes_waiting", "put_total", "sent_total")

    def __init__(self) -> None:
        self._runs: deque[_Waiting] = deque()
        self._channels: Counter[ChannelId] = Counter()
        self._out: _Waiting | None = None
        self.bytes_waiting = 0
        """The size of all entries that wait, as they are stored."""
        self.put_total = self.sent_total = 0
        """Runs that were put in, and runs that were sent or forgotten."""

    def __repr__(self) -> str:
        return f"<CompressedRuns, {len(self._runs)} runs, {self.bytes_waiting} bytes>"

    def __bool__(self) -> bool:
        return bool(self._runs)

    def takes(self, channel: ChannelId, run: Deliveries) -> bool:
        """Return whether a run must wait: it is large, or one of its channel waits already."""
        return channel in self._channels or sum(decompressed_sizes(run.entries)) > IN_A_TURN

    def put(self, channel: ChannelId, queue: str, run: Deliveries, send: Send) -> None:
        """Have a run wait. ``send`` is called with each part of it once that is decompressed."""
        self._runs.append(_Waiting(channel, queue, run, decompressed_sizes(run.entries), send))
        self._channels[channel] += 1
        self.bytes_waiting += sum(map(len, run.entries))
        self.put_total += 1

    def first(self) -> Piece | None:
        """Return what is to be decompressed next, and then given to :meth:`sent`."""
        if not self._runs:
            return None
        waiting = self._runs[0]
        run, end, decompressed = waiting.run, waiting.at, 0
        for size in islice(waiting.sizes, waiting.at, None):
            if size and decompressed and decompressed + size > IN_A_PIECE:
                break
            end, decompressed = end + 1, decompressed + size
        self._out = waiting
        part = slice(waiting.at, end)
        offsets = None if run.offsets is None else run.offsets[part]
        run = replace(
            run, positions=run.positions[part], entries=run.entries[part], offsets=offsets
        )
        return Piece(run, waiting.queue, decompressed)

    def sent(self, piece: Piece, messages: Messages) -> None:
        """Send the decompressed ``piece``, unless its channel has ended meanwhile."""
        waiting, self._out = self._out, None
        if waiting is None or not self._runs or self._runs[0] is not waiting:
            return
        waiting.at += len(piece.run.entries)
        self.bytes_waiting -= sum(map(len, piece.run.entries))
        if waiting.at == len(waiting.sizes):
            self._runs.popleft()
            self._ended(waiting)
        waiting.send(piece.run, messages)

    def forget(self, channel: ChannelId) -> None:
        """Forget the runs of a channel that has ended: the core takes them back."""
        if channel not in self._channels:
            return
        for waiting in [each for each in self._runs if each.channel == channel]:
            self._runs.remove(waiting)
            self.bytes_waiting -= sum(map(len, waiting.run.entries[waiting.at :]))
            self._ended(waiting)

    def forget_all(self) -> None:
        """Forget everything: the connection ends."""
        for channel in list(self._channels):
            self.forget(channel)

    def _ended(self, waiting: _Waiting) -> None:
        self.sent_total += 1
        self._channels[waiting.channel] -= 1
        if not self._channels[waiting.channel]:
            del self._channels[waiting.channel]


def decompressed_sizes(entries: Sequence[bytes]) -> list[int]:
    """Return for each entry how many bytes it has when decompressed; 0 if it is not compressed."""
    known = {
        int(origin): cast("CompressedCodec", codec)
        for origin, codec in codecs().items()
        if _decompresses(type(codec))
    }
    return [
        known[entry[1]].decompressed_bytes(entry) if entry[1] in known else 0 for entry in entries
    ]


@cache
def _decompresses(codec: type[Codec]) -> bool:
    """Return whether it is a :class:`.CompressedCodec`. Asking ``isinstance`` each time would take
    as long as decoding a small entry."""
    return hasattr(codec, CompressedCodec.decompressed_bytes.__name__)
