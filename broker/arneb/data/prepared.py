"""Prepared rows: entries made of rows, each with its destination, as one value that is stored.

The rule: nothing in it depends on when, or whether, it is committed but the publish times, which
are 0 until then. It is made and taken apart in threads.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from io import BytesIO
from itertools import accumulate
from struct import Struct, pack, unpack_from
from typing import Final

from arneb_core.api.entry import MESSAGES, MESSAGES_OFFSET, TIMES, TIMES_OFFSET

STAMP: Final = Struct(">Q")
"""The publish time, with which the times of an entry begin."""

HEAD: Final = Struct(">III")
"""Bytes of the document in front, entries, and rows."""


@dataclass(frozen=True, slots=True)
class Destination:
    """Where entries go: into a topic, or by an exchange. ``headers``: in hexadecimal."""

    topic: str | None = None
    vhost: str = ""
    exchange: str = ""
    routing_key: str = ""
    copies: tuple[str, ...] = ()
    headers: str = ""


@dataclass(slots=True)
class Prepared:
    """Entries in their order; ``going[i]`` is the index of where the i-th goes."""

    rows: int = 0
    entries: list[bytes] = field(default_factory=list)
    going: list[int] = field(default_factory=list)
    destinations: list[Destination] = field(default_factory=list)
    expires: bool = False
    """Some entry has an expiry."""
    delays: bool = False
    """Some entry is to be delivered later."""

    def __repr__(self) -> str:
        return f"<Prepared: {self.rows} rows to {len(self.destinations)} destinations>"

    def pack(self) -> bytes:
        """As it is stored."""
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
    """What was packed, which begins at ``start``, as published at ``publish_ms``."""
    size, count, rows = HEAD.unpack_from(value, start)
    at = start + HEAD.size + size
    document = json.loads(value[start + HEAD.size : at].decode("utf-8", "surrogatepass"))
    going = unpack_from(f">{count}I", value, at)
    lengths = unpack_from(f">{count}I", value, at + 4 * count)
    body = at + 8 * count
    stamped = bytearray(value[body:])
    places = accumulate(lengths[:-1], initial=TIMES_OFFSET) if count else ()
    if document["expires"]:
        for place in places:
            _, deliver_ms, expires_ms = TIMES.unpack_from(stamped, place)
            expires_ms = expires_ms and expires_ms + publish_ms
            TIMES.pack_into(stamped, place, publish_ms, deliver_ms, expires_ms)
    else:
        stamp = STAMP.pack(publish_ms)
        if len(set(lengths)) == 1:  # as rows often are: then it is in every so many bytes
            for index, byte in enumerate(stamp, TIMES_OFFSET):
                stamped[index :: lengths[0]] = bytes([byte]) * count
        else:
            for place in places:
                stamped[place : place + len(stamp)] = stamp
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
    """The same as published at ``publish_ms``."""
    return unpack(prepared.pack(), 0, publish_ms)


def messages_of(entries: Sequence[bytes]) -> int:
    """How many messages entries hold."""
    return sum(_messages(entries))


def _messages(entries: Sequence[bytes]) -> Iterator[int]:
    for entry in entries:
        yield MESSAGES.unpack_from(entry, MESSAGES_OFFSET)[0]


def _brief(destination: Destination) -> dict[str, object]:
    return {name: value for name, value in asdict(destination).items() if value}


def _destination(said: dict[str, object]) -> Destination:
    copies = said.get("copies", ())
    assert isinstance(copies, list | tuple), "it was packed here"
    return Destination(**{**said, "copies": tuple(copies)})  # type: ignore[arg-type]
