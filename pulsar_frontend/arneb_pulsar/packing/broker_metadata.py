"""Broker metadata: put in front of an entry, it says when it was stored, and its message number.

The rule: only clients that said that they read it get it; it is made when it is sent, and stored
nowhere.
"""

from dataclasses import replace
from struct import Struct
from typing import Final

from arneb_core.api.entries.entry import HEADER_BYTES, messages_in, read_header
from arneb_core.api.subscriptions.deliveries import Deliveries
from arneb_pulsar.wire.proto.pulsar_pb2 import BrokerEntryMetadata

MAGIC: Final = b"\x0e\x02"
SIZE: Final = Struct(">I")


def with_broker_metadata(run: Deliveries) -> Deliveries:
    """Return ``run``, which must have offsets, with the broker metadata of each entry."""
    assert run.offsets is not None, "a numbered sink has numbered the run"
    entries = [
        entry[:HEADER_BYTES] + _metadata(entry, offset) + entry[HEADER_BYTES:]
        for entry, offset in zip(run.entries, run.offsets, strict=True)
    ]
    return replace(run, entries=entries)


def _metadata(entry: bytes, offset: int) -> bytes:
    data = BrokerEntryMetadata(
        broker_timestamp=read_header(entry).publish_time_ms,
        # The number of its last message, as Pulsar's brokers count.
        index=offset + messages_in(entry) - 1,
    ).SerializeToString()
    return MAGIC + SIZE.pack(len(data)) + data
