"""Sizes: what of an entry counts where bytes are limited."""

from arneb_amqp.wire.content import payload_of
from arneb_core.api.entry import HEADER_BYTES, Origin, read_header


def payload_bytes(entry: bytes) -> int:
    """What of an entry counts as the message's size: its payload, as in RabbitMQ."""
    if entry[1] != Origin.AMQP:
        return len(entry) - HEADER_BYTES
    return len(payload_of(entry, HEADER_BYTES + read_header(entry).hint))
