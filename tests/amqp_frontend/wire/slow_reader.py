"""A reader without fast paths, with which the fast one is compared."""

from arneb_amqp.wire.constants import FRAME_START, MESSAGE_BYTES_MAX_DEFAULT, ChannelId
from arneb_amqp.wire.fast import FastReader
from arneb_amqp.wire.frames import FramingLost, cut_frame
from arneb_amqp.wire.items import Broken, Item


class SlowReader:
    """Takes frame by frame what :class:`FastReader` takes in runs, through the same assembler."""

    has_more = False

    def __init__(
        self, frame_bytes_max: int, *, message_bytes_max: int = MESSAGE_BYTES_MAX_DEFAULT
    ) -> None:
        self._frame_bytes_max = frame_bytes_max
        self._frames = FastReader(frame_bytes_max, message_bytes_max=message_bytes_max)
        self._held = b""
        self._lost = False

    def receive(self, data: bytes) -> list[Item]:
        """The items that ``data`` completes."""
        items: list[Item] = []
        self._held += data
        while not self._lost:
            try:
                frame = cut_frame(self._held, 0, self._frame_bytes_max)
            except FramingLost as problem:
                _, channel, _ = FRAME_START.unpack_from(self._held)
                items.append(Broken(ChannelId(channel), problem, framing_lost=True))
                self._lost = True
                break
            if isinstance(frame, int):
                break
            self._frames._take(frame, items)
            self._held = self._held[frame.bytes_on_wire :]
        return items
