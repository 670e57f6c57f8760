"""Entries of other origins, as Pulsar consumers get them."""

from dataclasses import replace
from operator import itemgetter
from typing import Final

from arneb_core.codec import Message, codecs
from arneb_core.entry import HEADER_BYTES, Origin, read_header
from arneb_core.interface import Deliveries
from arneb_pulsar.codec import encode_messages
from arneb_pulsar.wire.checksum import without_checksum

ORIGIN: Final = itemgetter(1)
"""The origin in an entry's header; see :mod:`arneb_core.entry`."""

ONLY_PULSAR: Final = {int(Origin.PULSAR)}

UNREADABLE: Final = "arneb-unreadable"
"""The property of a message whose entry could not be translated: why. Its payload is the
entry's body as it is kept. It must be delivered all the same: a message is never skipped."""


def with_pulsar_bodies(run: Deliveries) -> Deliveries:
    """``run`` with every body in Pulsar's form; itself if they all are already."""
    if set(map(ORIGIN, run.entries)) == ONLY_PULSAR:
        return run
    entries = [
        entry if entry[1] == Origin.PULSAR else entry[:HEADER_BYTES] + translate(entry)
        for entry in run.entries
    ]
    return replace(run, entries=entries)


def without_checksums(run: Deliveries) -> Deliveries:
    """``run`` for a client that reads no checksums."""
    entries = [
        entry[:HEADER_BYTES] + without_checksum(entry[HEADER_BYTES:]) for entry in run.entries
    ]
    return replace(run, entries=entries)


def translate(entry: bytes) -> bytes:
    """Headers and payload for an entry of another origin. Never fails."""
    try:
        messages = codecs()[Origin(entry[1])].decode(entry)
        return encode_messages(messages)
    except (ValueError, KeyError) as error:
        header = read_header(entry)
        reason = f"{type(error).__name__}: {error}"
        unreadable = Message(
            entry[HEADER_BYTES:],
            properties={UNREADABLE: reason},
            publish_time_ms=header.publish_time_ms,
        )
        return encode_messages([unreadable])
