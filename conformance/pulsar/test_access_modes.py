"""Producers that claim a topic for themselves."""

import queue
import threading

import pulsar
import pytest
from conformance.pulsar.admin import Admin
from conformance.pulsar.conftest import Connect, Mortal, Named
from conformance.pulsar.helpers import WITHIN_MS

SHARED = pulsar.ProducerAccessMode.Shared
EXCLUSIVE = pulsar.ProducerAccessMode.Exclusive
WAIT = pulsar.ProducerAccessMode.WaitForExclusive
FENCE = pulsar.ProducerAccessMode.ExclusiveWithFencing

WITHIN_S = 30.0
SILENCE_S = 0.5


class Waiting:
    """A request for a producer, made in a thread because it may have to wait."""

    def __init__(self, client: pulsar.Client, topic: str) -> None:
        self._found: queue.Queue[pulsar.Producer | Exception] = queue.Queue()
        self._thread = threading.Thread(target=self._ask, args=(client, topic), daemon=True)
        self._thread.start()

    def _ask(self, client: pulsar.Client, topic: str) -> None:
        try:
            self._found.put(client.create_producer(topic, access_mode=WAIT))
        except Exception as error:
            self._found.put(error)

    def assert_waits(self) -> None:
        with pytest.raises(queue.Empty):
            self._found.get(timeout=SILENCE_S)

    def result(self) -> pulsar.Producer | Exception:
        return self._found.get(timeout=WITHIN_S)


def test_an_exclusive_producer_is_alone(connect: Connect, topic: str) -> None:
    mine = connect().create_producer(topic, access_mode=EXCLUSIVE)
    with pytest.raises(pulsar.ProducerBusy):
        connect().create_producer(topic)
    with pytest.raises(pulsar.ProducerFenced):
        connect().create_producer(topic, access_mode=EXCLUSIVE)
    mine.send(b"mine")
    mine.close()
    shared = connect().create_producer(topic)
    with pytest.raises(pulsar.ProducerFenced):
        connect().create_producer(topic, access_mode=EXCLUSIVE)
    shared.close()
    connect().create_producer(topic, access_mode=EXCLUSIVE)


@pytest.mark.parametrize("kind", ["persistent", "non-persistent"])
def test_statistics_show_the_epoch_of_exclusive_producers(
    connect: Connect, admin: Admin, name: Named, kind: str
) -> None:
    topic = f"{kind}://public/default/{name('topic')}"
    stats = f"/admin/v2/{topic.replace('://', '/')}/stats"
    connect().create_producer(topic).close()
    assert "topicEpoch" not in admin.get(stats)
    for epoch in range(2):
        connect().create_producer(topic, access_mode=EXCLUSIVE).close()
        assert admin.get(stats)["topicEpoch"] == epoch


def test_sums_of_partitions_show_no_epoch(connect: Connect, admin: Admin, name: Named) -> None:
    partitioned = name("topic")
    admin.put(f"{partitioned}/partitions", 2)
    connect().create_producer(partitioned, access_mode=EXCLUSIVE)
    found = admin.get(f"{partitioned}/partitioned-stats")
    assert "topicEpoch" not in found
    assert [each["topicEpoch"] for each in found["partitions"].values()] == [0, 0]


def test_names_are_unique_on_a_topic(connect: Connect, topic: str) -> None:
    first = connect().create_producer(topic, producer_name="me")
    with pytest.raises(pulsar.ProducerBusy):
        connect().create_producer(topic, producer_name="me")
    names = {connect().create_producer(topic).producer_name() for _ in range(3)}
    assert len(names) == 3
    first.close()
    assert connect().create_producer(topic, producer_name="me").producer_name() == "me"


def test_one_that_waits_gets_its_turn(connect: Connect, topic: str) -> None:
    owner = connect().create_producer(topic, access_mode=EXCLUSIVE)
    first = Waiting(connect(), topic)
    first.assert_waits()
    second = Waiting(connect(), topic)
    second.assert_waits()
    owner.send(b"owner")
    owner.close()
    producer = first.result()
    assert isinstance(producer, pulsar.Producer)
    producer.send(b"first")
    second.assert_waits()
    producer.close()
    producer = second.result()
    assert isinstance(producer, pulsar.Producer)
    producer.send(b"second")


def test_fencing_puts_everybody_else_out(connect: Connect, topic: str) -> None:
    owner = connect().create_producer(topic, access_mode=EXCLUSIVE)
    owner.send(b"before")
    waiting = Waiting(connect(), topic)
    waiting.assert_waits()
    fencing = connect().create_producer(topic, access_mode=FENCE)
    assert isinstance(waiting.result(), pulsar.ProducerFenced)
    with pytest.raises((pulsar.ProducerFenced, pulsar.AlreadyClosed)):
        owner.send(b"too late")
    fencing.send(b"after")
    consumer = connect().subscribe(topic, "s", initial_position=pulsar.InitialPosition.Earliest)
    assert [consumer.receive(WITHIN_MS).data() for _ in range(2)] == [b"before", b"after"]


def test_one_that_was_fenced_out_stays_out_after_a_kill(mortal: Mortal) -> None:
    broker = mortal()
    quiet = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    first, second = (pulsar.Client(broker.pulsar_url, logger=quiet) for _ in range(2))
    try:
        fenced = first.create_producer("t", access_mode=EXCLUSIVE)
        owner = second.create_producer("t", access_mode=FENCE)
        owner.send(b"before")
        broker.kill()
        broker.start()
        with pytest.raises((pulsar.ProducerFenced, pulsar.AlreadyClosed)):
            fenced.send(b"too late")
        owner.send(b"after")
    finally:
        first.close()
        second.close()
