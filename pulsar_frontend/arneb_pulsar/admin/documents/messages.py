"""Messages: one entry as the admin API shows it, a body with headers.

The rule: everything in the metadata is shown, because clients rebuild the message from it. The
payload is uncompressed unless it is encrypted, a batch is shown whole with its number of messages,
and characters that a header cannot hold are percent-encoded.
"""

import json
from base64 import b64encode
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import quote

from arneb_core.api.entries.entry import HEADER_BYTES, Origin, messages_in, read_header
from arneb_core.api.entries.ledger_ids import AS_COUNTED, LedgerIds
from arneb_core.api.entries.position import Position
from arneb_pulsar.session.translation import translate
from arneb_pulsar.wire.checksum import split_body
from arneb_pulsar.wire.compression import decompress
from arneb_pulsar.wire.errors import PayloadError
from arneb_pulsar.wire.metadata import parse_metadata
from arneb_pulsar.wire.proto.pulsar_pb2 import CompressionType, MessageMetadata

PREFIX: Final = "X-Pulsar-"
SAFE: Final = " !#$&'()*+,/:;=?@[]<>{}|^`\"\\"
"""ASCII characters that a header holds unencoded, besides letters and digits."""

AS_THEY_ARE: Final = (
    "producer_name", "sequence_id", "replicated_from", "partition_key", "null_value",
    "partition_key_b64_encoded", "null_partition_key", "uncompressed_size", "encryption_algo",
    "marker_type", "txnid_least_bits", "txnid_most_bits", "highest_sequence_id", "uuid",
    "num_chunks_from_msg", "total_chunk_msg_size", "chunk_id",
)  # fmt: skip
TIMES: Final = "publish_time", "event_time", "deliver_at_time"
BYTES: Final = "encryption_param", "schema_version", "ordering_key"
"""Fields of metadata that have their own headers, if they are set."""

STORED: Final = PREFIX + "Broker-Entry-METADATA-timestamp"
NUMBER: Final = PREFIX + "Broker-Entry-METADATA-index"
UNCOMMITTED: Final = PREFIX + "txn-uncommitted"
ABORTED: Final = PREFIX + "txn-aborted"

Header = tuple[str, str]
"""A name and a value. Names may repeat."""


def message_of(
    position: Position, entry: bytes, ids: LedgerIds = AS_COUNTED
) -> tuple[list[Header], bytes]:
    """Return headers and payload of the message or batch in ``entry``. ``ids``: the topic's."""
    body = entry[HEADER_BYTES:] if entry[1] == Origin.PULSAR else translate(entry)
    headers = [(PREFIX + "Message-ID", ids.render(position))]
    try:
        head, at = split_body(body, 0)
        metadata = parse_metadata(head)
    except PayloadError:
        return headers, body
    payload = body[at:]
    if not metadata.encryption_keys:
        with suppress(PayloadError):  # then it is shown compressed
            payload = decompress(payload, metadata.compression, metadata.uncompressed_size)
    shown = _of_metadata(metadata)
    if metadata.HasField("num_messages_in_batch"):
        shown.append(("num-batch-message", str(metadata.num_messages_in_batch)))
        shown.append(("batch-size", str(len(body) - len(head))))
    headers += [(PREFIX + name, quote(value, safe=SAFE)) for name, value in shown]
    return headers, payload


def of_the_broker(entry: bytes, offset: int) -> list[Header]:
    """Return the broker's metadata of an entry: when it was stored, and the index in its topic of
    its last message."""
    number = offset + messages_in(entry) - 1
    return [(STORED, _time(read_header(entry).publish_time_ms)), (NUMBER, str(number))]


def _of_metadata(metadata: MessageMetadata) -> list[Header]:
    """Return the headers for the metadata, without the common prefix of the names."""

    def there(fields: Sequence[str], form: Callable[[Any], str], kind: str = "") -> list[Header]:
        present = [each for each in fields if metadata.HasField(each)]
        return [(kind + each.replace("_", "-"), form(getattr(metadata, each))) for each in present]

    properties = {each.key: each.value for each in metadata.properties}
    found = [("PROPERTY", json.dumps(properties, separators=(",", ":")))]
    found += there(TIMES, _time) + there(AS_THEY_ARE, _plain) + there(BYTES, _base64, "Base64-")
    found += there(("compression",), CompressionType.Name)
    if metadata.HasField("txnid_most_bits"):
        found.append(("txn-aborted", "false"))  # aborted messages are not stored
    if metadata.HasField("num_chunks_from_msg"):
        found.append(("PROPERTY-TOTAL-CHUNKS", str(metadata.num_chunks_from_msg)))
        found.append(("PROPERTY-CHUNK-ID", str(metadata.chunk_id)))
    keys = [_base64(each.SerializeToString()) for each in metadata.encryption_keys]
    found.append(("Is-Encrypted", _plain(bool(keys))))
    found += [("Base64-encryption-keys", each) for each in keys]
    return found + [("replicated-to", each) for each in metadata.replicate_to]


def _base64(value: bytes) -> str:
    return b64encode(value).decode()


def _plain(value: str | int) -> str:
    """Render a value as Java does, which has no unsigned 64-bit numbers."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) and value >> 63 == 1:
        return str(value - (1 << 64))
    return str(value)


def _time(ms: int) -> str:
    try:
        when = datetime.fromtimestamp(ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return str(ms)
    return when.isoformat(timespec="milliseconds").replace("+00:00", "Z")
