"""The hot writer: entries to the frames of basic.deliver, basic.get-ok and basic.return."""

from collections.abc import Sequence

from arneb_amqp.wire.constants import ChannelId, DeliveryTag


class DeliverEncoder:
    """Writes deliveries of one consumer."""

    def __init__(self, channel: ChannelId, consumer_tag: str, frame_bytes_max: int) -> None:
        raise NotImplementedError

    def encode_run(
        self,
        first_tag: DeliveryTag,
        entries: list[bytes],
        redelivered: bool | Sequence[bool] = False,
    ) -> list[bytes]:
        """Chunks for one ``b"".join``: ``basic.deliver`` and content of every entry, with tags
        ``first_tag``, ``first_tag + 1``, ..."""
        raise NotImplementedError


def encode_get_ok(
    channel: ChannelId,
    tag: DeliveryTag,
    redelivered: bool,
    entry: bytes,
    message_count: int,
    frame_bytes_max: int,
) -> list[bytes]:
    """``basic.get-ok`` with the content of ``entry``."""
    raise NotImplementedError


def encode_return(
    channel: ChannelId,
    reply_code: int,
    reply_text: str,
    route: bytes,
    body: bytes,
    frame_bytes_max: int,
) -> list[bytes]:
    """``basic.return`` with the content of a publish (its route and body)."""
    raise NotImplementedError
