"""Messages: one entry as the admin API shows it, a body with headers.

The rule: the payload is uncompressed, a batch is shown whole with its number of messages, and
what a header cannot hold is percent-encoded.
"""

import json
from datetime import UTC, datetime
from typing import Final
from urllib.parse import quote

from arneb_core.api.entry import HEADER_BYTES, Origin
from arneb_core.api.position import Position, render
from arneb_pulsar.session.translation import translate
from arneb_pulsar.wire.checksum import split_body
from arneb_pulsar.wire.compression import decompress
from arneb_pulsar.wire.errors import PayloadError
from arneb_pulsar.wire.metadata import parse_metadata
from arneb_pulsar.wire.proto.pulsar_pb2 import MessageMetadata

PREFIX: Final = "X-Pulsar-"
SAFE: Final = " !#$&'()*+,/:;=?@[]<>{}|^`\"\\"
"""Characters of ASCII that a header holds as they are, besides letters and digits."""


def message_of(place: Position, entry: bytes) -> tuple[dict[str, str], bytes]:
    """Headers and payload of the message or batch in ``entry``."""
    body = entry[HEADER_BYTES:] if entry[1] == Origin.PULSAR else translate(entry)
    headers = {PREFIX + "Message-ID": render(place)}
    try:
        head, at = split_body(body, 0)
        metadata = parse_metadata(head)
    except PayloadError:
        return headers, body
    payload = body[at:]
    if not metadata.encryption_keys:
        try:
            payload = decompress(payload, metadata.compression, metadata.uncompressed_size)
        except PayloadError:
            headers[PREFIX + "Compression"] = str(metadata.compression)
    return headers | _headers(metadata), payload


def _headers(metadata: MessageMetadata) -> dict[str, str]:
    found = {
        "publish-time": _time(metadata.publish_time),
        "producer-name": metadata.producer_name,
        "sequence-id": str(metadata.sequence_id),
    }
    if metadata.HasField("event_time") and metadata.event_time:
        found["event-time"] = _time(metadata.event_time)
    if metadata.HasField("partition_key"):
        found["partition-key"] = metadata.partition_key
    if metadata.HasField("num_messages_in_batch"):
        found["num-batch-message"] = str(metadata.num_messages_in_batch)
    if metadata.properties:
        found["PROPERTY"] = json.dumps({each.key: each.value for each in metadata.properties})
    return {PREFIX + key: quote(value, safe=SAFE) for key, value in found.items()}


def _time(ms: int) -> str:
    try:
        when = datetime.fromtimestamp(ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return str(ms)
    return when.isoformat(timespec="milliseconds").replace("+00:00", "Z")
