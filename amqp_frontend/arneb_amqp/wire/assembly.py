"""The assembler: frames in, one at a time, items out; it tracks the content due on each channel.

The rule: this is the slow path and the reference. The hot reader passes it every frame that is not
part of a run, and everything the hot reader accepts must equal what this module would have made.
"""

from typing import Final

from pamqp import commands
from pamqp.base import Frame as Command

from arneb_amqp.errors import (
    ChannelException,
    ConnectionException,
    frame_error,
    precondition_failed,
    resource_error,
    unexpected_frame,
)
from arneb_amqp.wire.constants import (
    BASIC_NACK,
    BASIC_REJECT,
    CHANNEL_ZERO,
    CONTENT_START,
    FRAME_BODY,
    FRAME_HEADER,
    FRAME_HEARTBEAT,
    FRAME_METHOD,
    ChannelId,
    DeliveryTag,
)
from arneb_amqp.wire.content import compose
from arneb_amqp.wire.frames import Frame, describe_frame
from arneb_amqp.wire.items import (
    HEARTBEAT,
    Ack,
    AckRun,
    Broken,
    Content,
    Item,
    Method,
    Publish,
    PublishRun,
    RejectRun,
)
from arneb_amqp.wire.methods import decode_method, has_content, method_ids
from arneb_amqp.wire.property_judge import (
    PERSISTENT,
    SINGLE,
    PropertyJudge,
    expiration_in,
    priority_in,
)
from arneb_amqp.wire.route import join_route

METHOD_PAYLOAD_BYTES_MIN: Final = 4


class _Partial:
    """A method whose content is incomplete.

    ``properties`` is None until the content header comes; then ``missing`` octets of body are still
    due. ``refused``: the message is too large, and the rest is discarded.
    """

    __slots__ = ("body", "judgement", "method", "missing", "properties", "refused")

    def __init__(self, method: Command) -> None:
        self.method = method
        self.properties: bytes | None = None
        self.judgement = 0
        self.missing = 0
        self.body = bytearray()
        self.refused = False

    def __repr__(self) -> str:
        return f"<_Partial {len(self.body)} bytes, {self.missing} missing>"

    @property
    def held_bytes(self) -> int:
        return len(self.properties or b"") + len(self.body)


class Assembler:
    """Puts methods and their contents together.

    Invariants: ``waiting`` holds exactly the channels on which content is due, never channel 0;
    ``held_bytes`` is the size of those contents and never exceeds ``partial_bytes_max``.
    """

    __slots__ = ("_judge", "_message_bytes_max", "_partial_bytes_max", "held_bytes", "waiting")

    def __init__(
        self, judge: PropertyJudge, *, message_bytes_max: int, partial_bytes_max: int
    ) -> None:
        self._judge = judge
        self._message_bytes_max = message_bytes_max
        self._partial_bytes_max = partial_bytes_max
        self.waiting: dict[int, _Partial] = {}
        self.held_bytes = 0

    def __repr__(self) -> str:
        return f"<Assembler {len(self.waiting)} partial messages, {self.held_bytes} bytes>"

    def take(self, frame: Frame) -> Item | None:
        """Return the item that ``frame`` completes, if any.

        Raises :class:`~arneb_amqp.errors.ConnectionException` for a frame that cannot be decoded
        (501, 502, 540) or is out of order (505). A message that is too large yields an item and no
        exception, because the connection continues.
        """
        kind, channel, payload = frame
        if not _is_known(kind, payload):
            raise frame_error(f"{describe_frame(kind, payload)}: unknown_frame")
        if kind == FRAME_HEARTBEAT:
            if channel != CHANNEL_ZERO:
                raise unexpected_frame(describe_frame(kind, payload))
            return HEARTBEAT
        if channel == CHANNEL_ZERO:
            if kind != FRAME_METHOD:
                raise unexpected_frame(describe_frame(kind, payload))
            return Method(channel, decode_method(payload))
        partial = self.waiting.get(channel)
        if partial is None:
            return self._method(kind, channel, payload)
        if partial.properties is None:
            return self._header(kind, channel, payload, partial)
        return self._body(kind, channel, payload, partial)

    def forget(self) -> None:
        """Drop all incomplete content: the connection is closing."""
        self.waiting.clear()
        self.held_bytes = 0

    def _method(self, kind: int, channel: ChannelId, payload: bytes) -> Item | None:
        if kind != FRAME_METHOD:
            raise unexpected_frame("expected method frame, got non method frame instead")
        method = decode_method(payload)
        if has_content(method):
            self.waiting[channel] = _Partial(method)
            return None
        if isinstance(method, commands.Basic.Ack):
            tag = DeliveryTag(method.delivery_tag)
            return Ack(channel, tag) if method.multiple else AckRun(channel, [tag])
        if isinstance(method, commands.Basic.Reject):
            return RejectRun(channel, [method.delivery_tag or 0], method.requeue, BASIC_REJECT)
        if isinstance(method, commands.Basic.Nack) and not method.multiple:
            return RejectRun(channel, [method.delivery_tag], method.requeue, BASIC_NACK)
        return Method(channel, method)

    def _header(
        self, kind: int, channel: ChannelId, payload: bytes, partial: _Partial
    ) -> Item | None:
        ids = method_ids(partial.method)
        expected = f"expected content header for class {ids[0]}"
        if kind != FRAME_HEADER:
            raise unexpected_frame(f"{expected}, got non content header frame instead", ids)
        class_id, weight, size = CONTENT_START.unpack_from(payload)
        if weight:  # RabbitMQ treats such a header as no header at all.
            raise unexpected_frame(f"{expected}, got non content header frame instead", ids)
        if class_id != ids[0]:
            raise unexpected_frame(f"{expected}, got one for class {class_id} instead", ids)
        properties = payload[CONTENT_START.size :]
        try:
            partial.judgement = self._judge.judge(properties)
        except ConnectionException as problem:
            raise problem.caused_by(ids) from None
        partial.properties = properties
        partial.missing = size
        if size > self._message_bytes_max:
            partial.refused = True
            return Broken(channel, self._too_large(size, ids))
        self._hold(len(properties), ids)
        return self._finish(channel, partial) if not size else None

    def _body(
        self, kind: int, channel: ChannelId, payload: bytes, partial: _Partial
    ) -> Item | None:
        ids = method_ids(partial.method)
        if kind != FRAME_BODY or len(payload) > partial.missing:
            raise unexpected_frame("expected content body, got non content body frame instead", ids)
        partial.missing -= len(payload)
        if partial.refused:
            if not partial.missing:
                del self.waiting[channel]
            return None
        self._hold(len(payload), ids)
        partial.body += payload
        return self._finish(channel, partial) if not partial.missing else None

    def _hold(self, size: int, ids: tuple[int, int]) -> None:
        self.held_bytes += size
        if self.held_bytes > self._partial_bytes_max:
            raise resource_error(
                f"expected at most {self._partial_bytes_max} octets of unfinished messages, "
                f"got {self.held_bytes}",
                ids,
            )

    def _finish(self, channel: ChannelId, partial: _Partial) -> Item:
        del self.waiting[channel]
        self.held_bytes -= partial.held_bytes
        method, properties = partial.method, partial.properties
        assert properties is not None, "a message is finished before its header came"
        if not isinstance(method, commands.Basic.Publish):
            return Method(channel, method, Content(properties, bytes(partial.body)))
        route = join_route(method.exchange, method.routing_key)
        persistent = bool(partial.judgement & PERSISTENT)
        body = compose(channel, properties, partial.body)
        mandatory, immediate = method.mandatory, method.immediate
        if immediate or partial.judgement & SINGLE:
            return Publish(channel, route, persistent, mandatory, immediate, properties, body)
        priority, expiration_ms = priority_in(partial.judgement), expiration_in(partial.judgement)
        return PublishRun(channel, route, persistent, mandatory, [body], priority, expiration_ms)

    def _too_large(self, size: int, ids: tuple[int, int]) -> ChannelException:
        return precondition_failed(
            f"message size {size} is larger than configured max size {self._message_bytes_max}", ids
        )


_PAYLOAD_BYTES_MIN: Final = {
    FRAME_METHOD: METHOD_PAYLOAD_BYTES_MIN,
    FRAME_HEADER: CONTENT_START.size,
    FRAME_BODY: 0,
}


def _is_known(kind: int, payload: bytes) -> bool:
    """Whether the frame's type exists and its payload is long enough for that type."""
    if kind == FRAME_HEARTBEAT:
        return not payload
    least = _PAYLOAD_BYTES_MIN.get(kind)
    return least is not None and len(payload) >= least
