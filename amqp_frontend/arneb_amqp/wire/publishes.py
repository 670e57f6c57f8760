"""Reading publishes: many messages that hardly differ, at a few operations each.

The rule: a method frame is looked up, not parsed, and a frame equal to the previous one is not even
looked up. Messages that have enough in common form one run: on one route a
:class:`~arneb_amqp.wire.items.PublishRun`, on several a :class:`~arneb_amqp.wire.items.VariedRun`.
At any unexpected frame the reader stops before it. Part of the hot path: see
:mod:`arneb_amqp.wire.fast`.
"""

from collections.abc import Collection
from itertools import repeat
from struct import error
from typing import Final

from arneb_amqp.errors import AmqpError
from arneb_amqp.wire.constants import (
    CONTENT_START_BYTES,
    FRAME_END,
    FRAME_OVERHEAD_BYTES,
    FRAME_START_BYTES,
    ChannelId,
)
from arneb_amqp.wire.items import Item, Publish, PublishRun, VariedRun
from arneb_amqp.wire.property_judge import (
    PERSISTENT,
    SINGLE,
    PropertyJudge,
    expiration_in,
    priority_in,
)
from arneb_amqp.wire.rows import (
    ROWS_FIRST,
    ROWS_PAUSE,
    KnownPublish,
    Layout,
    check_publish,
    missing_bytes,
    take_rows,
)

PUBLISH_METHOD: Final = b"\x00\x3c\x00\x28"
_HEADER_BYTES_MIN: Final = CONTENT_START_BYTES + 2

ITEMS_MAX: Final = 200
"""Items, and frames taken one by one, after which the reader ends the turn: some 2 ms. A run is one
item, and one receive holds fewer."""

LOOKUPS_MAX: Final = 1000
"""Method frames looked up before the turn ends: some 2 ms."""

_KNOWN_MAX: Final = 1024
"""Method frames remembered: more than a sane client has, and few enough that a client which makes
them up costs time but not memory."""


class PublishReader:
    """Reads publishes from a connection's bytes.

    ``payload_bytes_max`` is the limit of a frame's payload. ``waiting`` has the channels with an
    incomplete message, as the assembler keeps them.
    """

    __slots__ = (
        "_judge",
        "_judged",
        "_judgement",
        "_message_bytes_max",
        "_methods",
        "_waiting",
        "is_full",
        "need_bytes",
        "payload_bytes_max",
    )

    def __init__(
        self, judge: PropertyJudge, waiting: Collection[int], message_bytes_max: int
    ) -> None:
        self._judge = judge
        self._waiting = waiting
        self._message_bytes_max = message_bytes_max
        self._methods: dict[bytes, KnownPublish] = {}
        self._judged = b""
        self._judgement = 0
        self.payload_bytes_max = 0
        self.need_bytes = 0
        """Bytes needed by the publish at which the last call ended, cut off; 0: none is cut off."""
        self.is_full = False
        """Whether the last call ended because its turn did."""

    def __repr__(self) -> str:
        return f"<PublishReader {len(self._methods)} methods known>"

    def take(self, raw: bytes, at: int, items: list[Item]) -> int:
        """Take publishes from ``at`` on, up to one that is cut off or must be taken frame by frame;
        return their end.

        Nothing is taken for a channel in ``waiting``, which has an incomplete message.

        The outer loop looks up a method frame and a layout, the inner one takes the messages that
        have both. All of it is one function, because a call for each message would cost as much as
        reading it.
        """
        self.need_bytes, self.is_full = 0, False
        judged, judgement = self._judged, self._judgement
        methods, waiting, judge = self._methods, self._waiting, self._judge.judge
        raw_bytes, payload_bytes_max = len(raw), self.payload_bytes_max
        size_max = min(payload_bytes_max, self._message_bytes_max)
        # The open run, its method frame and its judgement; -1: no run is open.
        routes: list[bytes] | None = None
        bodies: list[bytes] = []
        run_known: KnownPublish | None = None
        run_judgement, run_channel, run_mandatory = -1, 0, False
        last_size, rows_from = -1, at
        last_known: KnownPublish | None = None
        guessing = True  # the next message has the same method frame
        lookups_left = LOOKUPS_MAX
        layout: Layout | None = None
        try:
            while True:
                layout = None
                lookups_left -= 1
                if not lookups_left:
                    self.is_full = True
                    return at
                header_at = at + (raw[at + 5] << 8 | raw[at + 6]) + FRAME_OVERHEAD_BYTES
                method = raw[at:header_at]
                known = methods.get(method) or self._learn(method)
                if known is None or known.channel in waiting:
                    return at
                if raw_bytes < header_at + FRAME_START_BYTES:
                    self.need_bytes = header_at + FRAME_START_BYTES - at
                    return at
                # A size of more than two octets does not match the layout's start.
                header_bytes = raw[header_at + 5] << 8 | raw[header_at + 6]
                if not _HEADER_BYTES_MIN <= header_bytes <= payload_bytes_max:
                    return at
                layout = known.layouts.get(header_bytes) or known.layout(header_bytes)
                unpack, row_bytes, right_start = layout
                right_link, body_at = known.link, len(method) - 1
                guessing = guessing or known is last_known
                last_known, looked_up_at = known, at
                while True:
                    start, size, properties, link, frame_size = unpack(raw, at)
                    end = at + row_bytes + size
                    if (
                        start != right_start
                        or link != right_link
                        or size != frame_size
                        or not 0 < size <= size_max
                        or raw[end] != FRAME_END
                    ):
                        if start != right_start and at != looked_up_at:
                            # Another method frame, or a content header of another size.
                            guessing = False
                            break
                        if size or start != right_start or link[0] != FRAME_END:
                            return at
                        # An empty message has no body frame: another frame follows its header.
                        end = at + row_bytes - FRAME_OVERHEAD_BYTES
                    if properties != judged:
                        judgement = judge(properties)
                        judged = properties
                        last_size = -1
                    body = raw[at + body_at : end + 1]
                    if judgement & SINGLE or known.immediate:
                        items.append(_single(known, judgement, properties, body))
                        run_judgement = -1
                        at = end + 1
                        if len(items) >= ITEMS_MAX:
                            return at
                        continue
                    if judgement != run_judgement or known is not run_known:
                        if (
                            routes is None
                            or judgement != run_judgement
                            or known.channel != run_channel
                            or known.mandatory != run_mandatory
                        ):
                            run_judgement, run_channel = judgement, known.channel
                            run_mandatory = known.mandatory
                            routes, bodies = open_publishes(
                                items,
                                run_channel,
                                known.route,
                                bool(judgement & PERSISTENT),
                                run_mandatory,
                                priority_in(judgement),
                                expiration_in(judgement),
                            )
                        run_known = known
                        last_size = -1
                    if routes is not None:
                        routes.append(known.route)
                    bodies.append(body)
                    at = end + 1
                    if at == raw_bytes:
                        return at
                    if not guessing:
                        break
                    if size != last_size:
                        last_size = size or -1
                    elif at >= rows_from:
                        stride = row_bytes + size + 1
                        before, count = at, len(bodies)
                        at = take_rows(raw, at, stride, row_bytes, body_at, bodies)
                        if routes is not None:
                            routes += repeat(known.route, len(bodies) - count)
                        if at - before < ROWS_FIRST * stride:
                            rows_from = at + ROWS_PAUSE * stride
        except AmqpError:
            return at  # Frame by frame, the same properties will be refused with an error text.
        except (error, IndexError):
            if layout is not None:
                self.need_bytes = missing_bytes(raw, at, layout, size_max)
            return at
        finally:
            self._judged, self._judgement = judged, judgement

    def _learn(self, method: bytes) -> KnownPublish | None:
        """Return the frame ``method`` as a known one; None unless it is a valid
        ``basic.publish``."""
        if method[FRAME_START_BYTES : FRAME_START_BYTES + 4] != PUBLISH_METHOD:
            return None
        known = check_publish(method)
        if known is not None:
            if len(self._methods) >= _KNOWN_MAX:
                self._methods.clear()
            self._methods[method] = known
        return known


def _single(known: KnownPublish, judgement: int, properties: bytes, body: bytes) -> Publish:
    persistent = bool(judgement & PERSISTENT)
    channel, route = known.channel, known.route
    return Publish(channel, route, persistent, known.mandatory, known.immediate, properties, body)


def open_publishes(
    items: list[Item],
    channel: ChannelId,
    route: bytes,
    persistent: bool,
    mandatory: bool,
    priority: int,
    expiration_ms: int | None,
) -> tuple[list[bytes] | None, list[bytes]]:
    """Return the routes and the bodies of the run that ends ``items``; begin a run if the last item
    is another one. None in place of routes: all its messages have this route."""
    last = items[-1] if items else None
    if (
        isinstance(last, PublishRun | VariedRun)
        and last.channel == channel
        and last.persistent == persistent
        and last.mandatory == mandatory
        and last.priority == priority
        and last.expiration_ms == expiration_ms
    ):
        bodies = last.bodies
        if isinstance(last, VariedRun):
            return last.routes, bodies
        if last.route == route:
            return None, bodies
        if len(bodies) == 1:
            routes = [last.route]
            items[-1] = VariedRun(
                channel, persistent, mandatory, routes, bodies, priority, expiration_ms
            )
            return routes, bodies
    run = PublishRun(channel, route, persistent, mandatory, [], priority, expiration_ms)
    items.append(run)
    return None, run.bodies
