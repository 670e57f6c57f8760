"""Rows: publishes that differ only in content, read through precompiled layouts.

The rule: a method frame is checked once and remembered; from then on messages with the same frame
are rows of a table, of which C compares the fixed columns and cuts out the rest. Part of the hot
path: see :mod:`arneb_amqp.wire.fast`.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import chain
from struct import Struct
from typing import Any, Final, NamedTuple, TypeAlias

from arneb_amqp.wire.constants import (
    CONTENT_START_BYTES,
    FRAME_END,
    FRAME_HEADER,
    FRAME_METHOD,
    FRAME_OVERHEAD_BYTES,
    FRAME_START,
    FRAME_START_BYTES,
    ChannelId,
)
from arneb_amqp.wire.route import is_route

ROUTE_AT: Final = FRAME_START_BYTES + 6
"""The offset of the route: after class, method and ticket of a ``basic.publish``."""

_METHOD_KNOWN_BYTES: Final = FRAME_START_BYTES + 4
"""A frame up to class and method, which make it known as a ``basic.publish``."""

_PUBLISH_BYTES_MIN: Final = ROUTE_AT + 4
"""Bytes of the shortest publish: with an empty exchange name and routing key."""

_BODY_SIZE: Final = Struct(">Q")
_BASIC_NO_WEIGHT: Final = b"\x00\x3c\x00\x00"

LAYOUTS_MAX: Final = 16
"""Layouts remembered for each method frame, one per content header size."""

ROWS_FIRST: Final = 8
_ROWS_MAX: Final = 1024
ROWS_PAUSE: Final = 16
"""Rows tried at once, at first and at most, and messages to wait after a try that did not pay."""

_Rows: TypeAlias = Callable[[memoryview], Iterator[tuple[Any, ...]]]


class Layout(NamedTuple):
    """How to read a publish up to its body, given its method frame and header size.

    ``unpack`` returns a row: method frame and start of the content header; body size; properties;
    end of the header frame, type and channel of the body frame; its size.
    """

    unpack: Callable[[bytes, int], tuple[Any, ...]]
    row_bytes: int
    """Bytes that ``unpack`` reads; the body follows."""
    start: bytes
    """The first member of every valid row."""


class KnownPublish:
    """A ``basic.publish`` method frame, checked and parsed."""

    __slots__ = (
        "channel",
        "immediate",
        "layouts",
        "link",
        "mandatory",
        "method",
        "route",
    )

    def __init__(self, method: bytes, channel: ChannelId) -> None:
        self.method = method
        self.channel = channel
        self.route = method[ROUTE_AT:-2]
        self.mandatory = bool(method[-2] & 1)
        self.immediate = bool(method[-2] & 2)
        self.link = b"\xce\x03" + method[1:3]
        """The fourth member of every valid row."""
        self.layouts: dict[int, Layout] = {}

    def __repr__(self) -> str:
        return f"<KnownPublish on channel {self.channel}, {len(self.layouts)} layouts>"

    def layout(self, header_bytes: int) -> Layout:
        """Return the layout for a content header of that size."""
        layout = self.layouts.get(header_bytes)
        if layout is None:
            if len(self.layouts) >= LAYOUTS_MAX:
                self.layouts.clear()
            head = FRAME_START.pack(FRAME_HEADER, self.channel, header_bytes)
            start = self.method + head + _BASIC_NO_WEIGHT
            row = Struct(f">{len(start)}sQ{header_bytes - CONTENT_START_BYTES}s4sI")
            layout = Layout(row.unpack_from, row.size, start)
            self.layouts[header_bytes] = layout
        return layout


def check_publish(method: bytes) -> KnownPublish | None:
    """Return the frame ``method`` as a known one; None unless it is a valid ``basic.publish``.

    The caller has checked class and method id.
    """
    if len(method) < _PUBLISH_BYTES_MIN or method[-1] != FRAME_END:
        return None
    kind, channel, size = FRAME_START.unpack_from(method)
    whole = size == len(method) - FRAME_OVERHEAD_BYTES
    if kind != FRAME_METHOD or not channel or not whole or not is_route(method[ROUTE_AT:-2]):
        return None
    return KnownPublish(method, channel)


def missing_bytes(raw: bytes, at: int, layout: Layout, size_max: int) -> int:
    """Return how many bytes from ``at`` the publish cut off there needs; 0 when it must be taken
    frame by frame.

    Only bytes that the peer is bound to send before it can expect an answer may be waited for: the
    rest of a frame, or the start of the next one when a body must follow. If there is a whole row,
    the caller has found nothing wrong with it.
    """
    there = len(raw) - at
    if there < _METHOD_KNOWN_BYTES or not raw.startswith(layout.start[:there], at):
        # It may still be another, shorter method that expects an answer.
        return 0
    header_known = len(layout.start) - len(_BASIC_NO_WEIGHT)
    if there < header_known:
        # The header's size is the previous message's, which this one need not have.
        return header_known
    if there < len(layout.start) + _BODY_SIZE.size:
        return layout.row_bytes - FRAME_START_BYTES
    (size,) = _BODY_SIZE.unpack_from(raw, at + len(layout.start))
    if not size or size > size_max:
        return 0
    if there < layout.row_bytes:
        return layout.row_bytes
    return layout.row_bytes + int(size) + 1


def take_rows(
    raw: bytes, at: int, stride: int, fixed_bytes: int, body_at: int, bodies: list[bytes]
) -> int:
    """Take messages that equal the one before ``at`` in everything but the body's octets; return
    their end.

    They are rows of ``stride`` octets: C compares their first ``fixed_bytes`` and their last octet
    with that message's, and cuts out everything from ``body_at`` on.
    """
    expected = raw[at - stride : at - stride + fixed_bytes], b"\xce"
    columns, cut = _row_structs(stride, fixed_bytes, body_at)
    view, rows_max = memoryview(raw), ROWS_FIRST
    while rows := min((len(raw) - at) // stride, rows_max):
        table = view[at : at + rows * stride]
        same = list(columns(table))
        right = rows
        if same.count(expected) != rows:
            right = [*map(expected.__eq__, same)].index(False)
        bodies += chain.from_iterable(cut(table[: right * stride]))
        at += right * stride
        if right < rows:
            break
        rows_max = min(rows_max * 4, _ROWS_MAX)
    return at


@lru_cache(1024)
def _row_structs(stride: int, fixed_bytes: int, body_at: int) -> tuple[_Rows, _Rows]:
    """Return the cutters of the columns to compare and of the bodies."""
    columns = Struct(f"{fixed_bytes}s{stride - fixed_bytes - 1}xc")
    return columns.iter_unpack, Struct(f"{body_at}x{stride - body_at}s").iter_unpack
