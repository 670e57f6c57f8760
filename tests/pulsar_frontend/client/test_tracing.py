"""Spans: one trace from the send to the acknowledgement, and none that never ends."""

from typing import Any

import anyio
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from tests.pulsar_frontend.client.in_memory import client_of, early

from arneb_pulsar.client import Batching, ProducerOptions, SubscriptionType, tracing
from arneb_pulsar.client.errors import MessageTooLarge, QueueFull
from arneb_pulsar.client.testing import FakeBroker
from arneb_pulsar.client.tracing import Tracing

TOPIC = "persistent://public/default/orders"
SINGLE = ProducerOptions(batching=None)


class Spans:
    """What was traced."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracing = Tracing(self.provider)

    def ended(self, name: str) -> list[ReadableSpan]:
        return [each for each in self._exporter.get_finished_spans() if each.name.startswith(name)]


def attributes_of(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


async def test_a_trace_goes_from_the_send_to_what_the_consumer_does() -> None:
    spans = Spans()
    tracer = spans.provider.get_tracer("application")
    async with client_of(FakeBroker()) as client:
        producer = await client.create_producer("orders", SINGLE, interceptors=[spans.tracing])
        consumer = await client.subscribe("orders", "s", early(), interceptors=[spans.tracing])
        with tracer.start_as_current_span("order") as ordering:
            sent = await producer.send(b"hare", properties={"a": "b"})
        (sending,) = spans.ended("send")
        message = await consumer.receive()
        assert message.properties["a"] == "b"
        assert f"{ordering.get_span_context().trace_id:032x}" in message.properties["traceparent"]
        span = spans.tracing.span_of(message)
        assert span is not None
        with trace.use_span(span), tracer.start_as_current_span("ship"):
            pass
        assert spans.ended("process") == []
        consumer.acknowledge(message)
        (processing,) = spans.ended("process")
        (shipping,) = spans.ended("ship")
    assert sending.parent is not None
    assert sending.parent.span_id == ordering.get_span_context().span_id
    assert processing.parent is not None
    assert sending.context is not None
    assert processing.parent.span_id == sending.context.span_id
    assert shipping.parent is not None
    assert processing.context is not None
    assert shipping.parent.span_id == processing.context.span_id
    assert (sending.kind, processing.kind) == (SpanKind.PRODUCER, SpanKind.CONSUMER)
    expected = {
        "messaging.system": "pulsar",
        "messaging.destination.name": TOPIC,
        "messaging.message.id": str(sent),
        "messaging.message.body.size": 4,
    }
    assert attributes_of(sending) == expected | {"messaging.operation.type": "send"}
    assert attributes_of(processing) == expected | {
        "messaging.operation.type": "process",
        "messaging.pulsar.acknowledged": True,
    }


async def test_what_was_refused_or_withdrawn_has_ended_with_its_reason() -> None:
    spans, broker = Spans(), FakeBroker()
    options = ProducerOptions(pending_max=2, batching=Batching(delay_s=3_600.0))
    async with client_of(broker) as client:
        producer = await client.create_producer("orders", options, interceptors=[spans.tracing])
        for too_large in (producer.send, producer.send_nowait):
            with pytest.raises(MessageTooLarge):
                found = too_large(bytes(6 << 20))
                assert not isinstance(found, trace.Span)
                await found  # type: ignore[misc]
        with pytest.raises(MessageTooLarge):
            await producer.send_batch([b"x", bytes(6 << 20)])
        with anyio.CancelScope() as scope:
            scope.cancel()
            await producer.send(b"withdrawn")
        await producer.flush()
        for _ in range(2):
            producer.send_nowait(b"x")
        with pytest.raises(QueueFull):
            producer.send_nowait(b"x")
        with anyio.move_on_after(1):
            await producer.send_batch([b"x"])
        await producer.flush()
        await producer.send_batch([b"y", b"z"])
    ended = spans.ended("send")
    assert sum(each.status.status_code is StatusCode.ERROR for each in ended) == 7
    assert len(ended) == 11
    assert repr(spans.tracing) == "<Tracing 0 sends, 0 messages>"


@pytest.mark.parametrize("how", ["each", "cumulative", "negative"])
async def test_a_message_s_span_ends_when_the_application_is_done(how: str) -> None:
    spans = Spans()
    options = early(SubscriptionType.EXCLUSIVE, negative_ack_delay_s=1.0)
    async with client_of(FakeBroker()) as client:
        producer = await client.create_producer("orders")
        for _ in range(3):
            await producer.send(b"x")
        consumer = await client.subscribe("orders", "s", options, interceptors=[spans.tracing])
        messages = [await consumer.receive() for _ in range(3)]
        match how:
            case "each":
                for message in messages:
                    consumer.acknowledge(message)
            case "cumulative":
                consumer.acknowledge_cumulative(messages[-1])
            case "negative":
                for message in messages:
                    consumer.negative_acknowledge(message.id)
        ended = spans.ended("process")
        done = [attributes_of(each)["messaging.pulsar.acknowledged"] for each in ended]
        assert done == [how != "negative"] * 3


async def test_a_consumer_that_never_acknowledges_holds_no_more_spans_than_the_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tracing, "SPANS_MAX", 2)
    spans = Spans()
    async with client_of(FakeBroker()) as client:
        producer = await client.create_producer("orders", SINGLE)
        consumer = await client.subscribe("orders", "s", early(), interceptors=[spans.tracing])
        for _ in range(5):
            await producer.send(b"x")
            await consumer.receive()
    assert len(spans.ended("process")) == 3
