"""AMQP entries as neutral messages, and neutral messages as AMQP entries."""

from typing import Final

from arneb_core.codec import Message
from arneb_core.entry import Origin


class AmqpCodec:
    """:class:`arneb_core.codec.Codec` for :data:`Origin.AMQP`."""

    origin: Final = Origin.AMQP

    def decode(self, entry: bytes) -> list[Message]:
        """The one message of ``entry``."""
        raise NotImplementedError


CODEC: Final = AmqpCodec()


def encode_message(message: Message, queue: str) -> bytes:
    """An entry in AMQP form, 40-byte header with hint included, for delivering ``message`` (of a
    foreign origin) to consumers of ``queue``: feed it to DeliverEncoder like any other entry."""
    raise NotImplementedError
