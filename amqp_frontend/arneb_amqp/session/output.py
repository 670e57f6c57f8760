"""The output: everything one wake-up sends, to be written at once."""

from collections.abc import Iterable

from pamqp.base import Frame as Command

from arneb_amqp.session.compressed_runs import CompressedRuns
from arneb_amqp.wire.constants import CHANNEL_ZERO, ChannelId
from arneb_amqp.wire.deliver import Chunk
from arneb_amqp.wire.methods import encode_method


class Output:
    """Encoded frames in wire order; ``size`` is their bytes. ``compressed`` are deliveries that
    must be decompressed before they are encoded."""

    __slots__ = ("_chunks", "_muted", "compressed", "size")

    def __init__(self) -> None:
        self._chunks: list[bytes] = []
        self._muted = False
        self.size = 0
        self.compressed = CompressedRuns()

    def __repr__(self) -> str:
        return f"<Output {self.size} bytes in {len(self._chunks)} chunks>"

    def send(self, channel: ChannelId, command: Command) -> None:
        """Queue a method without content."""
        if channel == CHANNEL_ZERO or not self._muted:
            self._put((encode_method(channel, command),))

    def send_chunks(self, chunks: Iterable[Chunk]) -> None:
        """Queue encoded frames of a channel, or heartbeats."""
        if not self._muted:
            self._put(chunks)

    def mute_channels(self) -> None:
        """Drop further output of channels: only methods of the connection may follow its close."""
        self._muted = True

    def drain(self) -> bytes:
        """Return everything queued since the last call."""
        data = b"".join(self._chunks)
        self._chunks.clear()
        self.size = 0
        return data

    def _put(self, chunks: Iterable[Chunk]) -> None:
        # Joining here costs less than asking each of thousands of chunks for its size.
        data = b"".join(chunks)
        self._chunks.append(data)
        self.size += len(data)
