"""Settings of a broker, under their names in Apache Pulsar: the largest message, and how Key_Shared
subscriptions distribute keys."""

from collections.abc import Iterator

import pulsar
import pytest
from conformance.brokers.arneb import Arneb
from conformance.brokers.java_server import MESSAGE_FRAME_BYTES
from conformance.brokers.pulsar_standalone import PulsarStandalone
from conformance.pulsar.conftest import Named
from conformance.pulsar.helpers import WITHIN_MS, gather

MIB = 1024 * 1024
MESSAGE_BYTES_MAX = 8 * MIB
USUAL_BYTES_MAX = 5 * MIB
ARNEB = f"""
[pulsar]
maxMessageSize = {MESSAGE_BYTES_MAX}
subscriptionKeySharedUseConsistentHashing = false
"""


@pytest.fixture(scope="module", params=["arneb", "pulsar"])
def set_url(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """A broker without the default settings."""
    if request.param not in (request.config.getoption("pulsar") or ["arneb", "pulsar"]):
        pytest.skip("not selected by --pulsar")
    place = tmp_path_factory.mktemp(request.param)
    broker: Arneb | PulsarStandalone = Arneb(place, listeners=["pulsar"], settings=ARNEB)
    if request.param == "pulsar":
        broker = PulsarStandalone(
            place,
            maxMessageSize=MESSAGE_BYTES_MAX,
            nettyMaxFrameSizeBytes=MESSAGE_BYTES_MAX + MESSAGE_FRAME_BYTES - USUAL_BYTES_MAX,
            subscriptionKeySharedUseConsistentHashing="false",
        )
    broker.start()
    try:
        yield broker.pulsar_url
    finally:
        broker.stop()


@pytest.fixture
def client(set_url: str) -> Iterator[pulsar.Client]:
    quiet = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    made = pulsar.Client(set_url, operation_timeout_seconds=30, logger=quiet)
    yield made
    made.close()


def test_clients_hear_how_large_a_message_may_be(client: pulsar.Client, name: Named) -> None:
    """The client itself refuses larger messages, because the limit is announced when it
    connects."""
    topic = name("large")
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic, batching_enabled=False)
    usual, most = USUAL_BYTES_MAX + 1, MESSAGE_BYTES_MAX - 1024
    for size in (usual, most):
        producer.send(bytes(size))
        assert len(consumer.receive(WITHIN_MS).data()) == size
    with pytest.raises(pulsar.MessageTooBig):
        producer.send(bytes(MESSAGE_BYTES_MAX + 1))
    producer.send(b"x")
    assert consumer.receive(WITHIN_MS).data() == b"x"


def test_chunks_are_as_large_as_messages_may_be(client: pulsar.Client, name: Named) -> None:
    topic = name("chunks")
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic, batching_enabled=False, chunking_enabled=True)
    large = bytes(range(256)) * (2 * MESSAGE_BYTES_MAX // 256 + 1)
    first = producer.send(large)
    assert consumer.receive(WITHIN_MS).data() == large
    # The id of a chunked message is that of its last chunk.
    assert producer.send(b"x").entry_id() - first.entry_id() == 1
    assert first.entry_id() == 2


def test_few_keys_are_spread_by_ranges_over_few_consumers(
    client: pulsar.Client, name: Named
) -> None:
    """A new consumer takes half of the largest hash range; the range of one that leaves goes to the
    next."""
    topic = name("spread")
    kind = pulsar.ConsumerType.KeyShared
    consumers = [client.subscribe(topic, "s", kind, consumer_name=each) for each in ("a", "b", "c")]
    producer = client.create_producer(topic, batching_enabled=False)

    def owners() -> list[list[int]]:
        for number in range(12):
            producer.send(b"x", partition_key=f"customer-{number}")
        found = gather(consumers, 12, acknowledge=True)
        return [[int(each.partition_key().split("-")[1]) for each in own] for own in found]

    assert owners() == [[3, 6, 7, 8, 11], [0, 1, 10], [2, 4, 5, 9]]
    consumers.pop(1).close()
    assert owners() == [[0, 1, 3, 6, 7, 8, 10, 11], [2, 4, 5, 9]]
