"""A metadata pattern: recognises a producer's plain messages by a regular expression, without
parsing their metadata.

The rule: metadata is recognised only if protobuf would read the same from it. Matching costs a
third of parsing.
"""

import re
from collections.abc import Callable, Sequence
from typing import Final

from arneb_pulsar.wire.checksum import split_body

FIELD_PRODUCER_NAME: Final = b"\x0a"

_VARINT: Final = rb"[\x80-\xff]{0,%d}[\x00-\x7f]"

_END: Final = rb"(?:\x48" + _VARINT % 4 + rb")?(?:\x98\x01([\x80-\xff]{5}[\x01-\x7f]))?"

COMMON_FIELDS: Final = (
    rb"\x10" + _VARINT % 9
    + rb"\x18" + _VARINT % 9
    + rb"(?:" + _END + rb"|\x32([\x00-\x7f])(.*?)" + _END + rb")"
)  # fmt: skip
"""What follows the producer's name in plain metadata: sequence id, publish time, perhaps a short
partition key, perhaps the uncompressed size, perhaps a time of delivery in this century, and
nothing else: no batch. The groups are the time of a message without a key; for one with a key, the
length that the key claims and the key, which are valid if they agree, and the time."""

TIME_GROUP: Final = 1
KEY_BYTES_GROUP: Final = 2
KEY_GROUP: Final = 3
"""Groups of :data:`COMMON_FIELDS`; a message with a key and a time has a fourth."""

OWN_PATTERN_MESSAGES: Final = 4_096
"""The first messages of a producer, up to this number, are recognised in two steps: by its name,
and by a pattern that all producers share. Only then is a pattern with the name in it compiled,
which takes some 300 us and saves .1 us per message: compiled at the first message, it would cost a
thousand producers with one message each 300 us per message."""

_SHARED: Final = re.compile(COMMON_FIELDS, re.DOTALL).fullmatch
_NOTHING: Final = re.compile(rb"(?!)").fullmatch


class MetadataPattern:
    """The pattern of one producer's plain metadata. Invariant: ``fullmatch``, applied ``skipped``
    bytes after its start, recognises it if those bytes are the producer's name."""

    __slots__ = ("_messages", "fullmatch", "name_field", "skipped")

    name_field: bytes
    """The producer's name as its messages have it; empty while it is not known."""
    skipped: int
    fullmatch: Callable[[bytes, int, int], "re.Match[bytes] | None"]

    def __init__(self, name_field: bytes = b"") -> None:
        self._messages = 0
        self._know(name_field)

    def __repr__(self) -> str:
        own = ", own pattern" if self.name_field and not self.skipped else ""
        return f"<MetadataPattern of {self.name_field[2:]!r}{own}>"

    def learn(self, bodies: Sequence[bytes]) -> None:
        """Learn from valid messages of the producer, of which at least the first is its own."""
        if not self.name_field:
            self._know(name_field_of(bodies[0]))
        self._messages += len(bodies)
        if self.skipped and self._messages >= OWN_PATTERN_MESSAGES:
            own = re.compile(re.escape(self.name_field) + COMMON_FIELDS, re.DOTALL)
            self.fullmatch, self.skipped = own.fullmatch, 0

    def _know(self, name_field: bytes) -> None:
        self.name_field = name_field
        self.skipped = len(name_field)
        self.fullmatch = _SHARED if name_field else _NOTHING


def name_field_of(body: bytes) -> bytes:
    """Return the field with the producer's name from the beginning of valid metadata; empty if it
    is not there, or not short."""
    metadata, _ = split_body(body)
    if metadata[:1] != FIELD_PRODUCER_NAME or metadata[1] >= 0x80:
        return b""
    return metadata[: 2 + metadata[1]]
