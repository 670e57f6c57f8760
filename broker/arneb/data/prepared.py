"""Prepared rows: entries made of rows, each with its destination, as one stored value.

The rule: only the publish times depend on the commit, and are 0 until then. The value is packed and
unpacked in threads.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from io import BytesIO
from itertools import accumulate
from struct import Struct, pack, unpack_from
from typing import Final

from arneb_core.api.entries.entry import MESSAGES, MESSAGES_OFFSET, TIMES, TIMES_OFFSET

STAMP: Final = Struct(">Q")
"""The publish time, the first of an entry's times."""

HEAD: Final = Struct(">III")
"""The bytes of the leading document, and the numbers of entries and of rows."""


@dataclass(frozen=True, slots=True)
class Destination:
    """Where entries go: to a topic, or through an exchange. ``headers`` are in hexadecimal."""

    topic: str | None = None
    vhost: str = ""
    exchange: str = ""
    routing_key: str = ""
    copies: tuple[str, ...] = ()
    headers: str = ""


@dataclass(slots=True)
class Prepared:
    """Entries in order; ``going[i]`` is the index of the i-th entry's destination."""

    rows: int = 0
    entries: list[bytes] = field(default_factory=list)
    going: list[int] = field(default_factory=list)
    destinations: list[Destination] = field(default_factory=list)
    expires: bool = False
    """Whether any entry has an expiry."""
    delays: bool = False
    """Whether any entry is delayed."""

    def __repr__(self) -> str:
        return f"<Prepared: {self.rows} rows to {len(self.destinations)} destinations>"

    def pack(self) -> bytes:
        """Return the value as stored."""
        document = json.dumps(
            {
                "destinations": [_brief(each) for each in self.destinations],
                "expires": self.expires,
                "delays": self.delays,
            }
        ).encode("utf-8", "surrogatepass")
        count = len(self.entries)
        return b"".join(
            (
                HEAD.pack(len(document), count, self.rows),
                document,
                pack(f">{count}I", *self.going),
                pack(f">{count}I", *map(len, self.entries)),
                *self.entries,
            )
        )


def unpack(value: bytes, start: int, publish_ms: int) -> Prepared:
    """Unpack the value that begins at ``start``, with the publish time ``publish_ms``."""
    size, count, rows = HEAD.unpack_from(value, start)
    at = start + HEAD.size + size
    document = json.loads(value[start + HEAD.size : at].decode("utf-8", "surrogatepass"))
    going = unpack_from(f">{count}I", value, at)
    lengths = unpack_from(f">{count}I", value, at + 4 * count)
    body = at + 8 * count
    stamped = bytearray(value[body:])
    offsets = accumulate(lengths[:-1], initial=TIMES_OFFSET) if count else ()
    if document["expires"]:
        for offset in offsets:
            _, deliver_ms, expires_ms = TIMES.unpack_from(stamped, offset)
            expires_ms = expires_ms and expires_ms + publish_ms
            TIMES.pack_into(stamped, offset, publish_ms, deliver_ms, expires_ms)
    else:
        stamp = STAMP.pack(publish_ms)
        if len(set(lengths)) == 1:  # often so with rows: the times are then at a fixed stride
            for index, byte in enumerate(stamp, TIMES_OFFSET):
                stamped[index :: lengths[0]] = bytes([byte]) * count
        else:
            for offset in offsets:
                stamped[offset : offset + len(stamp)] = stamp
    read = BytesIO(bytes(stamped)).read
    return Prepared(
        rows,
        [read(length) for length in lengths],
        list(going),
        [_destination(each) for each in document["destinations"]],
        document["expires"],
        document["delays"],
    )


def stamped(prepared: Prepared, publish_ms: int) -> Prepared:
    """Return the same with the publish time ``publish_ms``."""
    return unpack(prepared.pack(), 0, publish_ms)


def messages_of(entries: Sequence[bytes]) -> int:
    """Return how many messages the entries hold."""
    return sum(_messages(entries))


def _messages(entries: Sequence[bytes]) -> Iterator[int]:
    for entry in entries:
        yield MESSAGES.unpack_from(entry, MESSAGES_OFFSET)[0]


def _brief(destination: Destination) -> dict[str, object]:
    return {name: value for name, value in asdict(destination).items() if value}


def _destination(fields: dict[str, object]) -> Destination:
    copies = fields.get("copies", ())
    assert isinstance(copies, list | tuple), "it was packed here"
    return Destination(**{**fields, "copies": tuple(copies)})  # type: ignore[arg-type]
