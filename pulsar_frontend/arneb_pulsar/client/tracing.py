"""Tracing: OpenTelemetry spans for sent and consumed messages.

The rule: a send's context travels in the message's properties (``traceparent``), so that a
consumer's work belongs to the sender's trace, whichever clients the two use. A send's span ends
with its receipt, a consumed message's when the application acknowledges it, positively or
negatively.

Source: OpenTelemetry's semantic conventions for messaging systems. Needs ``opentelemetry-api``.
"""

from collections.abc import Iterable
from typing import Any, Final

from opentelemetry import propagate, trace
from opentelemetry.trace import Span, SpanKind, Status, StatusCode

from arneb_pulsar.client.consumer.message import Message
from arneb_pulsar.client.ids import MessageId
from arneb_pulsar.client.interceptors import ConsumerInterceptor, ProducerInterceptor
from arneb_pulsar.client.messages import OutgoingMessage

NAME: Final = "arneb_pulsar.client"
SPANS_MAX: Final = 10_000
"""Open spans of unacknowledged messages of a topic: beyond it the oldest span ends, so that
applications that never acknowledge do not gather spans without bound."""

SYSTEM: Final = "messaging.system"
DESTINATION: Final = "messaging.destination.name"
OPERATION: Final = "messaging.operation.type"
MESSAGE_ID: Final = "messaging.message.id"
SIZE: Final = "messaging.message.body.size"
ACKNOWLEDGED: Final = "messaging.pulsar.acknowledged"

SpanKey = tuple[int, int, int]
"""Ledger id, entry id and batch index."""


class Tracing(ProducerInterceptor, ConsumerInterceptor):
    """An interceptor for tracing; pass one in ``interceptors`` to ``create_producer`` or
    ``subscribe``."""

    def __init__(self, provider: trace.TracerProvider | None = None) -> None:
        """``provider`` makes the spans; None = the process's global provider."""
        self._tracer = trace.get_tracer(NAME, tracer_provider=provider)
        self._sends: dict[int, Span] = {}
        """Spans by the identity of the message, which lives until its outcome is known."""
        self._received: dict[str, dict[SpanKey, Span]] = {}
        """Spans of each topic, in the order of receiving."""

    def __repr__(self) -> str:
        received = sum(map(len, self._received.values()))
        return f"<Tracing {len(self._sends)} sends, {received} messages>"

    def before_send(self, topic: str, message: OutgoingMessage) -> None:
        """See :class:`ProducerInterceptor`."""
        attributes = _attributes(topic, "send", len(message.payload))
        span = self._tracer.start_span(
            f"send {topic}", kind=SpanKind.PRODUCER, attributes=attributes
        )
        carried: dict[str, str] = dict(message.properties or {})
        propagate.inject(carried, context=trace.set_span_in_context(span))
        message.properties = carried
        self._sends[id(message)] = span

    def after_send(
        self,
        topic: str,
        message: OutgoingMessage,
        found: MessageId | None,
        error: Exception | None,
    ) -> None:
        """See :class:`ProducerInterceptor`."""
        span = self._sends.pop(id(message), None)
        if span is None:
            return
        if found is not None:
            span.set_attribute(MESSAGE_ID, str(found))
        if error is not None:
            span.record_exception(error)
            span.set_status(Status(StatusCode.ERROR, str(error)))
        span.end()

    def before_receive(self, topic: str, message: Message[Any]) -> None:
        """See :class:`ConsumerInterceptor`."""
        attributes = _attributes(topic, "process", len(message.data))
        span = self._tracer.start_span(
            f"process {topic}",
            context=propagate.extract(message.properties),
            kind=SpanKind.CONSUMER,
            attributes=attributes | {MESSAGE_ID: str(message.id)},
        )
        received = self._received.setdefault(topic, {})
        self._end(received, [_key_of(message)])  # if it was redelivered
        received[_key_of(message)] = span
        if len(received) > SPANS_MAX:
            self._end(received, [next(iter(received))])

    def on_acknowledge(
        self, topic: str, which: "Message[Any] | MessageId", *, cumulative: bool
    ) -> None:
        """See :class:`ConsumerInterceptor`."""
        received, last = self._received.get(topic, {}), _key_of(which)
        done = [each for each in received if each <= last] if cumulative else [last]
        self._end(received, done, acknowledged=True)

    def on_negative_acknowledge(self, topic: str, which: "Message[Any] | MessageId") -> None:
        """See :class:`ConsumerInterceptor`."""
        self._end(self._received.get(topic, {}), [_key_of(which)], acknowledged=False)

    def span_of(self, message: Message[Any]) -> Span | None:
        """Return the span of an unacknowledged message. Make it current with
        ``opentelemetry.trace.use_span`` so that the work on the message becomes part of it."""
        return self._received.get(message.topic, {}).get(_key_of(message))

    @staticmethod
    def _end(
        received: dict[SpanKey, Span], keys: Iterable[SpanKey], *, acknowledged: bool | None = None
    ) -> None:
        for key in keys:
            if (span := received.pop(key, None)) is not None:
                if acknowledged is not None:
                    span.set_attribute(ACKNOWLEDGED, acknowledged)
                span.end()


def _attributes(topic: str, operation: str, size: int) -> dict[str, str | int]:
    return {SYSTEM: "pulsar", DESTINATION: topic, OPERATION: operation, SIZE: size}


def _key_of(which: "Message[Any] | MessageId") -> SpanKey:
    if isinstance(which, MessageId):
        return which.ledger_id, which.entry_id, which.batch_index
    return *which.entry.id, which.batch_index
