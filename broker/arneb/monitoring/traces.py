"""Traces: spans of OpenTelemetry for messages that carry a ``traceparent``.

The rule: the event loop makes spans and puts them in a bounded queue; a thread of the library sends
them to a collector. A full queue or an unreachable collector loses spans and delays nobody. A
message without ``traceparent``, or whose trace nobody records, costs one search for the word. Only
this module imports the library, and it is imported only when traces are on.

Source: the conventions of OpenTelemetry for messaging, and https://www.w3.org/TR/trace-context/.
"""

import logging
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

import trio
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased
from opentelemetry.trace import Span, SpanKind
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from arneb import __version__
from arneb.settings.process import TracesTable
from arneb_amqp.session.rights import DEFAULT_EXCHANGE_NAME
from arneb_amqp.topology.message_observers import Tapped
from arneb_amqp.topology.topology import Topology, Vhost
from arneb_amqp.wire.content import payload_of, properties_of
from arneb_amqp.wire.properties import Properties, decode_properties
from arneb_amqp.wire.route import split_route
from arneb_amqp.wire.tables import lookup_text
from arneb_core.api.entries.entry import HEADER_BYTES, read_header

logger = logging.getLogger(__name__)

MARK: Final = b"traceparent"
PARENT: Final = "traceparent"
STATE: Final = "tracestate"

Parent = tuple[str, str]
"""The two headers that name a span's parent: ``traceparent`` and ``tracestate``."""

FLUSH_S: Final = 1.0
"""The longest time that a stop waits for the last spans to be sent."""

_NS_PER_MS: Final = 1_000_000
_PROPAGATOR: Final = TraceContextTextMapPropagator()


class Spans:
    """Makes spans of messages that name a parent span."""

    def __init__(self, provider: TracerProvider) -> None:
        self._tracer = provider.get_tracer("arneb", __version__)

    def __repr__(self) -> str:
        return "<Spans>"

    def make(
        self, operation: str, destination: str, parent: Parent, began_ms: int | None
    ) -> tuple[Span, int]:
        """Make one span, and return it with its end time. The span of a delivery begins at
        ``began_ms``, when the message was stored; None makes the span of a publish."""
        now_ns = time.time_ns()
        span = self._tracer.start_span(
            f"{operation} {destination}",
            _PROPAGATOR.extract({PARENT: parent[0], STATE: parent[1]}),
            SpanKind.SERVER if began_ms is None else SpanKind.PRODUCER,
            start_time=now_ns if began_ms is None else min(began_ms * _NS_PER_MS, now_ns),
        )
        return span, now_ns


class Traces:
    """Makes spans of what goes through one vhost (:class:`.MessageObserver`)."""

    def __init__(self, spans: Spans, vhost: str) -> None:
        self._spans = spans
        self._vhost = vhost

    def __repr__(self) -> str:
        return f"<Traces of {self._vhost!r}>"

    def published(self, tapped: Tapped, entries: Sequence[bytes], queues: Sequence[str]) -> None:
        """Trace messages that were published to these queues."""
        for entry in entries:
            if MARK in entry:
                self._span("publish", tapped, entry, None)

    def delivered(
        self,
        tapped: Tapped,
        channel: int,
        queue: str,
        entries: Sequence[bytes],
        redelivered: Sequence[bool],
    ) -> None:
        """Trace messages that a queue delivered."""
        for entry in entries:
            if MARK in entry:
                self._span("deliver", tapped, entry, queue)

    def _span(self, operation: str, tapped: Tapped, entry: bytes, queue: str | None) -> None:
        header = read_header(entry)
        start = HEADER_BYTES + header.hint
        properties = decode_properties(properties_of(entry[start:]))
        headers = properties.headers or {}
        parent = lookup_text(headers, PARENT)
        if parent is None:
            return  # the word was somewhere else in the entry
        exchange, key = split_route(entry[HEADER_BYTES:start])
        destination = (exchange or DEFAULT_EXCHANGE_NAME) if queue is None else queue
        span, end_ns = self._spans.make(
            operation,
            destination,
            (parent, lookup_text(headers, STATE) or ""),
            None if queue is None else header.publish_time_ms,
        )
        if span.is_recording():
            span.set_attributes(
                {
                    "messaging.system": "rabbitmq",
                    "messaging.operation.name": operation,
                    "messaging.destination.name": destination,
                    "messaging.rabbitmq.destination.routing_key": key,
                    "messaging.message.body.size": len(payload_of(entry[start:])),
                    "arneb.vhost": self._vhost,
                    "arneb.connection": tapped.connection,
                    "arneb.user": tapped.user,
                    **_identity(properties),
                }
            )
        span.end(end_ns)


def _identity(properties: Properties) -> dict[str, str]:
    found = {
        "messaging.message.id": properties.message_id,
        "messaging.message.conversation_id": properties.correlation_id,
    }
    return {name: value for name, value in found.items() if value is not None}


class Tracing:
    """Traces messages while the broker runs."""

    def __init__(self, spans: Spans) -> None:
        self.spans = spans

    def __repr__(self) -> str:
        return f"<Tracing {self.spans!r}>"

    def see(self, topology: Topology) -> None:
        """Trace all messages of the vhosts, future vhosts included."""

        def observer(vhost: Vhost) -> Traces:
            return Traces(self.spans, vhost.name)

        topology.observe(observer)


@asynccontextmanager
async def traced(table: TracesTable) -> AsyncIterator[Tracing]:
    """Send spans while the block runs, and the remaining ones at its end."""
    resource = Resource.create({"service.name": table.service_name, "service.version": __version__})
    # The trace's origin has decided whether it is recorded.
    provider = TracerProvider(
        sampler=ParentBased(root=ALWAYS_OFF), resource=resource, shutdown_on_exit=False
    )
    processor = BatchSpanProcessor(
        OTLPSpanExporter(endpoint=table.endpoint),
        max_queue_size=table.queued_max,
        max_export_batch_size=min(512, table.queued_max),
        schedule_delay_millis=int(table.delay_s * 1000),
    )
    provider.add_span_processor(processor)
    try:
        yield Tracing(Spans(provider))
    finally:
        with trio.CancelScope(shield=True), trio.move_on_after(FLUSH_S):
            await trio.to_thread.run_sync(provider.shutdown, abandon_on_cancel=True)
