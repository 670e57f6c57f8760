"""Runs of AMQP entries as columns, without an object for each message.

The rule: this is a short cut and never a second opinion. :func:`amqp_run` accepts a run only if
every entry has, byte for byte, the shape that the AMQP frontend writes; with a single exception the
whole run goes to the origin's codec. Tests prove on random entries that both give the same columns.

Why it is here: a codec makes some ten Python objects a message, which is several times the cost of
everything else in a row (docs/internals/spark.md has the measurements). So nothing in
:class:`UniformRun` is done once per entry in Python: the entries become one Arrow column, their
equally long heads one stretch of bytes with ``width`` bytes a row, and ``heads[i::width]`` is then
byte *i* of every row. :class:`MixedRun` is for entries whose fields are in different places, and
does look at each.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Protocol, cast

import pyarrow as pa
import pyarrow.compute as pc

from arneb_core.api.entries.entry import ENTRY_FORMAT, HEADER, HEADER_BYTES, Origin
from pyspark_arneb.decode.amqp_layout import (
    BODY_FRAME,
    BODY_HEAD,
    BODY_OFFSET,
    CLASS_AND_WEIGHT,
    FLAGS_OFFSET,
    FRAME,
    FRAME_END,
    HEADER_END_OFFSET,
    HEADER_FRAME,
    HINT,
    NULL_VALUE,
    TIMESTAMP,
    ZERO,
    Route,
    read_route,
    timestamp_path,
)
from pyspark_arneb.decode.heads import columns_of_numbers, is_zero
from pyspark_arneb.decode.times import TYPE, times_of_column, times_of_ms

FLAGS: Final = 3
PUBLISHED: Final = 8
"""Offsets in the entry header."""

SINGLE_AMQP: Final = (
    (0, ENTRY_FORMAT), (1, Origin.AMQP), (4, 0), (5, 0), (6, 0), (7, 1), (38, 0), (39, 0)
)  # fmt: skip
"""The fixed bytes in the header of every AMQP entry: one message, and its format."""


Kind = tuple[bytes, bool, bytes]
"""An exchange, whether there is a routing key, and a property list: messages that agree in these
have the same properties."""


class AmqpRun(Protocol):
    """A run of well-formed AMQP entries, one message each."""

    def keys(self) -> "pa.Array":
        """The routing keys; null where it is empty."""
        ...

    def values(self) -> "pa.Array":
        """The bodies."""
        ...

    def publish_times(self) -> "pa.Array":
        """When the broker received each."""
        ...

    def event_times(self) -> "pa.Array":
        """The publishers' timestamps."""
        ...

    def flags(self) -> "pa.Array":
        """The entry flags."""
        ...

    def exchanges(self) -> "pa.Array":
        """The exchanges to which they were published."""
        ...

    def kinds(self) -> tuple["pa.Array", list[Kind]]:
        """The distinct kinds, and each entry's index among them."""
        ...


def amqp_run(entries: Sequence[bytes]) -> AmqpRun | None:
    """Return the run, or None if one of ``entries`` is not an AMQP entry of the expected form."""
    first = entries[0]
    if len(first) < HEADER_BYTES or any(first[place] != byte for place, byte in SINGLE_AMQP):
        return None  # the usual case of other origins, distinguished before any work
    return UniformRun.of(entries) or MixedRun.of(entries)


def _are_null(entries: Sequence[bytes]) -> bool:
    """Return whether one of ``entries``, whose bodies are empty, may stand for a null value."""
    return any(NULL_VALUE in entry for entry in entries)


class UniformRun:
    """Entries whose fields are in the same places, as those of one publisher mostly are."""

    __slots__ = (
        "_at", "_column", "_heads", "_route_indices", "_routes", "_rows", "_values", "_width"
    )  # fmt: skip

    def __init__(self, column: "pa.Array", heads: bytes, width: int, at: int) -> None:
        self._rows = len(column)
        self._column = column
        self._heads = heads
        self._width = width
        self._at = at
        found = pc.binary_slice(column, HEADER_BYTES, at).dictionary_encode()
        self._route_indices = found.indices
        self._routes = list(map(read_route, found.dictionary.to_pylist()))
        self._values = pc.binary_slice(column, width, -1)

    def __repr__(self) -> str:
        return f"<UniformRun of {self._rows} rows, {len(self._routes)} routes>"

    @classmethod
    def of(cls, entries: Sequence[bytes]) -> "UniformRun | None":
        """Return the run, if all entries have their fields where the first has them."""
        first = entries[0]
        at = HEADER_BYTES + int.from_bytes(first[HINT], "big")
        if len(first) < at + FRAME.size:
            return None
        frame = FRAME.unpack_from(first, at)
        size = frame[3]
        width = at + BODY_OFFSET + size
        if not _is_header_frame(frame) or len(first) <= width:
            return None
        column = pa.array(entries, pa.binary())
        heads = _bytes_of(pc.binary_slice(column, 0, width))
        # An entry shorter than its head would leave the stretch shorter.
        if len(heads) != width * len(entries):
            return None
        run = cls(column, heads, width, at)
        return run if run._is_well_formed(first, size) else None

    def _is_well_formed(self, first: bytes, size: int) -> bool:
        at, rows = self._at, self._rows
        close = at + HEADER_END_OFFSET + size
        fixed = (
            *(place for place, _ in SINGLE_AMQP), 36, 37,
            at, at + 1, *range(at + 4, at + 12), close, close + 1,
        )  # fmt: skip
        return (
            all(map(self._is_constant, fixed))
            and (first[close], first[close + 1]) == (FRAME_END, BODY_FRAME)
            and _bytes_of(pc.binary_slice(self._column, -1)) == bytes([FRAME_END]) * rows
            and self._bytes(at + 2) == self._bytes(close + 2)
            and self._bytes(at + 3) == self._bytes(close + 3)
            and all(map(is_zero, map(self._bytes, range(at + 12, at + 16))))
            and self._numbers(at + 16, 4).equals(self._numbers(close + 4, 4))
            and self._numbers(at + 16, 4).equals(pc.binary_length(self._values).view(pa.uint32()))
            and None not in self._routes
        )

    def keys(self) -> "pa.Array":
        keys = [route.key for route in self._known_routes]
        if len(keys) == 1:
            return pa.repeat(pa.scalar(keys[0], pa.binary()), self._rows)
        return pa.array(keys, pa.binary()).take(self._route_indices)

    def values(self) -> "pa.Array":
        return self._values

    def publish_times(self) -> "pa.Array":
        return times_of_column(self._numbers(PUBLISHED, 8))

    def event_times(self) -> "pa.Array":
        low = self._at + FLAGS_OFFSET + 1
        if not any(flags & TIMESTAMP for flags in set(self._bytes(low))):
            return pa.nulls(self._rows, TYPE)
        path = timestamp_path(self._column[0].as_py(), self._at)
        if path and all(map(self._is_constant, (low - 1, low, *path[:-1]))):
            return times_of_column(self._numbers(path[-1], 8), 1000)
        return times_of_ms([_timestamp_ms(e, self._at) for e in self._column.to_pylist()])

    def flags(self) -> "pa.Array":
        return self._numbers(FLAGS, 1).cast(pa.int32())

    def exchanges(self) -> "pa.Array":
        names = [route.exchange for route in self._known_routes]
        if len(set(names)) == 1:
            return pa.repeat(pa.scalar(names[0], pa.string()), self._rows)
        return pa.array(names, pa.string()).take(self._route_indices)

    def kinds(self) -> tuple["pa.Array", list[Kind]]:
        close = self._width - BODY_OFFSET + HEADER_END_OFFSET
        lists = pc.binary_slice(self._column, self._at + FLAGS_OFFSET, close).dictionary_encode()
        routes = [route.kind for route in self._known_routes]
        if len(set(routes)) == 1:
            return lists.indices, [(*routes[0], each) for each in lists.dictionary.to_pylist()]
        pairs = zip(self._route_indices.to_pylist(), lists.indices.to_pylist(), strict=True)
        texts = lists.dictionary.to_pylist()
        return _numbered((*routes[route], texts[index]) for route, index in pairs)

    @property
    def _known_routes(self) -> list[Route]:
        """The distinct routes; in a well-formed run all are valid."""
        return cast("list[Route]", self._routes)

    def _bytes(self, place: int) -> bytes:
        """Return one byte of every row."""
        return self._heads[place :: self._width]

    def _is_constant(self, place: int) -> bool:
        return self._bytes(place) == self._heads[place : place + 1] * self._rows

    def _numbers(self, place: int, size: int) -> "pa.Array":
        """Return a big-endian field of every row."""
        return columns_of_numbers(self._heads, self._width, place, size, self._rows)


class MixedRun:
    """Entries that are each well-formed, with fields in different places."""

    __slots__ = ("_entries", "_places", "_routes", "_values")

    def __init__(
        self,
        entries: Sequence[bytes],
        places: list[int],
        routes: list[bytes],
        values: list[bytes],
    ) -> None:
        self._entries = entries
        self._places = places
        self._routes = routes
        self._values = values

    def __repr__(self) -> str:
        return f"<MixedRun of {len(self._places)} of {len(self._entries)} entries>"

    @classmethod
    def of(cls, entries: Sequence[bytes]) -> "MixedRun | None":
        """Return the run, if every entry is well-formed."""
        places: list[int] = []
        routes: list[bytes] = []
        values: list[bytes] = []
        for entry in entries:
            at = HEADER_BYTES + int.from_bytes(entry[HINT], "big")
            if len(entry) < at + FRAME.size or not _is_single_amqp(entry):
                return None
            frame = FRAME.unpack_from(entry, at)
            _, _, channel, size, _, body_size, _ = frame
            body_head = (BODY_FRAME, channel, body_size)
            close = at + HEADER_END_OFFSET + size
            start = close + 8 if body_size else close
            well_formed = (
                _is_header_frame(frame)
                and len(entry) == start + body_size + 1
                and entry[close] == FRAME_END == entry[-1]
                and (not body_size or BODY_HEAD.unpack_from(entry, close + 1) == body_head)
            )
            if not well_formed:
                return None
            places.append(at)
            routes.append(entry[HEADER_BYTES:at])
            values.append(entry[start:-1])
        if None in map(read_route, set(routes)):
            return None
        empty = [entry for entry, value in zip(entries, values, strict=True) if not value]
        if _are_null(empty):
            return None
        return cls(entries, places, routes, values)

    def keys(self) -> "pa.Array":
        return pa.array([route.key for route in self._read], pa.binary())

    def values(self) -> "pa.Array":
        return pa.array(self._values, pa.binary())

    def publish_times(self) -> "pa.Array":
        return times_of_ms([entry[4] for entry in self._headers()])

    def event_times(self) -> "pa.Array":
        return times_of_ms(list(map(_timestamp_ms, self._entries, self._places)))

    def flags(self) -> "pa.Array":
        return pa.array([entry[FLAGS] for entry in self._entries], pa.int32())

    def exchanges(self) -> "pa.Array":
        return pa.array([route.exchange for route in self._read], pa.string())

    def kinds(self) -> tuple["pa.Array", list[Kind]]:
        return _numbered(
            (*route.kind, entry[at + FLAGS_OFFSET : at + HEADER_END_OFFSET + size])
            for entry, at, route in zip(self._entries, self._places, self._read, strict=True)
            for size in (FRAME.unpack_from(entry, at)[3],)
        )

    @property
    def _read(self) -> Iterator[Route]:
        """Yield the route of each entry."""
        return (route for route in map(read_route, self._routes) if route is not None)

    def _headers(self) -> Iterable[tuple[int, ...]]:
        return map(HEADER.unpack_from, self._entries)


def _numbered(kinds: Iterable[Kind]) -> tuple["pa.Array", list[Kind]]:
    numbers: dict[Kind, int] = {}
    indices = [numbers.setdefault(kind, len(numbers)) for kind in kinds]
    return pa.array(indices, pa.int32()), list(numbers)


def _bytes_of(column: "pa.Array") -> bytes:
    """Return the values of a newly made binary column, concatenated."""
    data = column.buffers()[2]
    return b"" if data is None else data.to_pybytes()


def _is_single_amqp(entry: bytes) -> bool:
    return entry[:2] == b"\x01\x01" and entry[4:8] == b"\0\0\0\1" and not any(entry[ZERO])


def _is_header_frame(frame: tuple[int, ...]) -> bool:
    end, kind, _, size, class_and_weight, *_ = frame
    # 14 = class, weight, body size and flags.
    return (end, kind, class_and_weight, size >= 14) == (
        FRAME_END, HEADER_FRAME, CLASS_AND_WEIGHT, True
    )  # fmt: skip


def _timestamp_ms(entry: bytes, at: int) -> int:
    """Return the timestamp; 0 = not set."""
    if not entry[at + FLAGS_OFFSET + 1] & TIMESTAMP:
        return 0
    path = timestamp_path(entry, at)
    return int.from_bytes(entry[path[-1] : path[-1] + 8], "big") * 1000 if path else 0
