"""Spans of OpenTelemetry over a real broker: one trace from a send to what becomes of it."""

import pytest
from opentelemetry.trace import SpanKind
from tests.pulsar_client.conftest import Broker
from tests.pulsar_frontend.client.test_tracing import Spans, attributes_of

from arneb_pulsar.client import (
    Batching,
    ConsumerOptions,
    InitialPosition,
    ProducerOptions,
    SubscriptionType,
    connect,
)

OPTIONS = ConsumerOptions(
    type=SubscriptionType.SHARED,
    initial_position=InitialPosition.EARLIEST,
    negative_ack_delay_s=0.1,
)


@pytest.mark.in_peace("counts what comes")
async def test_each_message_of_a_batch_has_a_trace_of_its_own(broker: Broker, topic: str) -> None:
    spans = Spans()
    batches = ProducerOptions(batching=Batching(messages_max=3, delay_s=3_600))
    async with connect(broker.pulsar_url) as client:
        producer = await client.create_producer(topic, batches, interceptors=[spans.tracing])
        consumer = await client.subscribe(topic, "s", OPTIONS, interceptors=[spans.tracing])
        for number in range(3):
            producer.send_nowait(b"%d" % number)
        messages = [await consumer.receive(20) for _ in range(3)]
        consumer.negative_acknowledge(messages[0])
        for message in messages[1:]:
            consumer.acknowledge(message)
        again = await consumer.receive(20)
        assert again.data == b"0"
        consumer.acknowledge(again)
        await producer.flush()
    sent, processed = spans.ended("send"), spans.ended("process")
    ids = {each.id for each in messages}
    assert {attributes_of(each)["messaging.message.id"] for each in sent} == set(map(str, ids))
    assert {each.kind for each in sent} == {SpanKind.PRODUCER}
    traces = {each.context.trace_id for each in sent if each.context}
    assert len(traces) == 3
    for each in processed:
        assert each.context is not None
        assert each.context.trace_id in traces
    done = [attributes_of(each)["messaging.pulsar.acknowledged"] for each in processed]
    assert sorted(done) == [False, True, True, True]
