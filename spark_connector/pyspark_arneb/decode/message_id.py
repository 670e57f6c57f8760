"""Message ids in the binary form of Pulsar's clients.

The rule: the bytes equal those of a Pulsar client's ``MessageId.serialize()``, the protobuf message
``MessageIdData`` (ledgerId = 1, entryId = 2, partition = 3, batch_index = 4; the last two absent
when -1), so that a row's id can be passed to ``seek`` or ``create_reader``.
"""

from typing import Final

LEDGER_TAG: Final = b"\x08"
ENTRY_TAG: Final = b"\x10"
PARTITION_TAG: Final = b"\x18"
BATCH_INDEX_TAG: Final = b"\x20"


def varint(number: int) -> bytes:
    """Encode a non-negative number as a protobuf varint."""
    assert number >= 0, "ids count from 0; -1 is expressed by absence"
    groups = bytearray()
    while number > 0x7F:
        groups.append(number & 0x7F | 0x80)
        number >>= 7
    groups.append(number)
    return bytes(groups)


def message_id_head(ledger: int) -> bytes:
    """Return the beginning of the ids of a ledger's messages; the entry id's varint follows."""
    return LEDGER_TAG + varint(ledger) + ENTRY_TAG


def message_id_tail(partition: int, batch_index: int) -> bytes:
    """Return the part of an id after the entry id."""
    tail = PARTITION_TAG + varint(partition) if partition >= 0 else b""
    return tail + BATCH_INDEX_TAG + varint(batch_index) if batch_index >= 0 else tail


def message_id(ledger: int, entry: int, partition: int, batch_index: int) -> bytes:
    """Return the serialised id of one message."""
    return message_id_head(ledger) + varint(entry) + message_id_tail(partition, batch_index)
