"""Large messages in chunks, on subscriptions with several consumers."""

import pulsar
import pytest
from conformance.pulsar.conftest import Connect


def chunking(client: pulsar.Client, topic: str) -> pulsar.Producer:
    return client.create_producer(
        topic, chunking_enabled=True, batching_enabled=False, max_pending_messages=10_000
    )


def large(number: int) -> bytes:
    """A message that has three chunks at the maximum size that the broker announces."""
    return b"%06d" % number * (2_200_000)


@pytest.mark.parametrize(
    "kind", [pulsar.ConsumerType.Shared, pulsar.ConsumerType.KeyShared], ids=["shared", "keyed"]
)
def test_the_chunks_of_a_message_go_to_one_consumer(
    connect: Connect, topic: str, kind: pulsar.ConsumerType
) -> None:
    """Two producers send at the same time, so that the chunks of their messages are interleaved."""
    consumers = [connect().subscribe(topic, "s", kind, receiver_queue_size=3) for _ in range(3)]
    producers = [chunking(connect(), topic) for _ in range(2)]
    sent = []
    for number in range(6):
        producer = producers[number % 2]
        options = {"partition_key": f"{number}"} if number % 3 else {}
        sent.append(large(number))
        producer.send_async(sent[-1], lambda *_: None, **options)
        producers[0].send_async(b"%d" % number, lambda *_: None)
        sent.append(b"%d" % number)
    for producer in producers:
        producer.flush()
    found: list[bytes] = []
    silent = 0
    while silent < 3:
        silent += 1
        for consumer in consumers:
            try:
                message = consumer.receive(500)
            except pulsar.Timeout:
                continue
            silent = 0
            found.append(message.data())
            consumer.acknowledge(message)
    assert sorted(map(hash, found)) == sorted(map(hash, sent))
