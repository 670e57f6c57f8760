"""The hot reader."""

from arneb_amqp.wire.constants import FRAME_BYTES_MIN, MESSAGE_BYTES_MAX_DEFAULT
from arneb_amqp.wire.items import Item
from arneb_amqp.wire.properties import INTERESTING, PropertyFlag


class FastReader:
    """Turns the bytes of a connection, after the protocol header, into items.

    ``frame_bytes_max`` is 4096 until tuning is done; then set the attribute to what was
    negotiated (0 = no limit but the largest message).
    """

    def __init__(
        self,
        frame_bytes_max: int = FRAME_BYTES_MIN,
        *,
        message_bytes_max: int = MESSAGE_BYTES_MAX_DEFAULT,
        interesting: PropertyFlag = INTERESTING,
    ) -> None:
        self.frame_bytes_max = frame_bytes_max

    def receive(self, data: bytes | bytearray) -> list[Item]:
        """The items that ``data`` completes, in wire order. Never raises."""
        raise NotImplementedError

    def close(self) -> None:
        """The session sent connection.close: from now on yield only methods on channel 0."""
        raise NotImplementedError
