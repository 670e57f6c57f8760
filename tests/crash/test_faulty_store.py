"""A disk that fails, hangs or is full: nothing is confirmed, consumers go on, and the broker
recovers."""

import asyncio
import errno
import queue
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pulsar
import pytest
from conformance.brokers.arneb import Arneb, run_arneb
from conformance.wire.amqp import AmqpClient, Delivery
from conformance.wire.pulsar import Entry, PulsarClient, PulsarClosed
from conformance.wire.running import run
from pamqp import commands
from tests.crash.failing_disk import (
    FailingDisk,
    Field,
    SmallDisk,
    compile_shim,
    limit_file_size,
)
from tests.crash.workload import pulsar_client, topic_of

QUEUE = "orders"
WITHIN_S = 10.0
ACKS_DURABLE_AFTER_S = 0.4
DISK_MIB = 40
"""Well over what a store sets aside for acks on a full disk."""
NO_ALARM = "[alarms]\ndisk_free_min_bytes = 0\n"
"""Without this, an alarm would block publishers long before the disk is full."""


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = compile_shim(tmp_path_factory.mktemp("shim"))
    if found is None:
        pytest.skip("needs a C compiler")
    return found


@pytest.fixture
def disk(shim: Path, tmp_path: Path) -> Iterator[FailingDisk]:
    disk = FailingDisk(shim, tmp_path / "control", tmp_path / "broker" / "data")
    yield disk
    disk.close()


@pytest.fixture
def broker(disk: FailingDisk, tmp_path: Path) -> Iterator[Arneb]:
    """A broker on the failing disk; at the end the disk works again and the store is checked."""
    broker = Arneb(
        tmp_path / "broker", listeners=("amqp", "pulsar"), extra=disk.environment
    ).start()
    yield broker
    disk.heal()
    broker.kill()
    assert_clean(broker)


def assert_clean(broker: Arneb) -> None:
    done = run_arneb("check", str(broker.data))
    assert done.returncode == 0, done.stdout + done.stderr


class Publisher:
    """Publishes numbered messages and records the broker's answer to each."""

    def __init__(self, client: AmqpClient) -> None:
        self.client = client
        self.answers: dict[bytes, bool] = {}
        self._bodies: dict[int, bytes] = {}
        self._news = asyncio.Event()

    @classmethod
    async def open(cls, broker: Arneb) -> "Publisher":
        client = await AmqpClient.open(broker.address)
        publisher = cls(client)
        client.handlers.confirmed = publisher._confirmed
        await client.declare_queue(QUEUE)
        await client.confirm_select()
        return publisher

    async def publish(self, *bodies: bytes, exchange: str = "", key: str = QUEUE) -> list[bool]:
        """Publish and wait for every answer; True means confirmed."""
        self.send(*bodies, exchange=exchange, key=key)
        return await asyncio.wait_for(self.answered(*bodies), WITHIN_S)

    def send(self, *bodies: bytes, exchange: str = "", key: str = QUEUE) -> None:
        for body in bodies:
            self._bodies[self.client.published + 1] = body
            self.client.publish(exchange, key, body)

    async def answered(self, *bodies: bytes) -> list[bool]:
        while not all(body in self.answers for body in bodies):
            self._news.clear()
            await self._news.wait()
        return [self.answers[body] for body in bodies]

    async def publish_until_confirmed(self, name: str) -> list[bytes]:
        """Publish new messages until one is confirmed; the others are answered too."""
        for attempt in range(100):
            body = f"{name}-{attempt}".encode()
            if (await self.publish(body))[0]:
                return [body]
            await asyncio.sleep(0.1)
        raise AssertionError("expected the broker to take messages again within 10 s")

    def _confirmed(self, tags: list[int], acked: bool) -> None:
        for tag in tags:
            self.answers[self._bodies[tag]] = acked
        self._news.set()


class Consumer:
    """Consumes over AMQP and acknowledges on request."""

    def __init__(self, client: AmqpClient) -> None:
        self.client = client
        self.got: list[Delivery] = []
        self._news = asyncio.Event()

    @classmethod
    async def open(cls, broker: Arneb, queue: str = QUEUE, *, prefetch: int = 0) -> "Consumer":
        consumer = cls(await AmqpClient.open(broker.address))
        consumer.client.handlers.delivered = consumer._delivered
        await consumer.client.consume(queue, prefetch=prefetch)
        return consumer

    async def wait_for(self, count: int) -> list[bytes]:
        """Wait until there are ``count`` messages; the result is all bodies so far."""
        async with asyncio.timeout(WITHIN_S):
            while len(self.got) < count:
                self._news.clear()
                await self._news.wait()
        return [delivery.body for delivery in self.got]

    def acknowledge_all(self) -> None:
        self.client.acknowledge(self.got[-1].tag, multiple=True)

    def _delivered(self, delivery: Delivery) -> None:
        self.got.append(delivery)
        self._news.set()


def bodies(name: str, count: int) -> list[bytes]:
    return [f"{name}-{number}".encode() for number in range(count)]


async def backlog(broker: Arneb, queue: str = QUEUE) -> list[bytes]:
    """Everything that is ready in the queue, requeued afterwards."""
    client = await AmqpClient.open(broker.address)
    count = (await client.declare_queue(queue, passive=True)).message_count or 0
    await client.abort()
    consumer = await Consumer.open(broker, queue)
    found = await consumer.wait_for(count)
    await consumer.client.abort()
    return found


async def restarted(broker: Arneb) -> list[bytes]:
    """Kill the broker and start it again; the result is what the queue has."""
    broker.kill()
    broker.start()
    return await backlog(broker)


FAULTS = {
    "fsync fails": (Field.SYNC_ERROR, errno.EIO),
    "write fails": (Field.WRITE_ERROR, errno.EIO),
    "disk full": (Field.WRITE_ERROR, errno.ENOSPC),
}


@pytest.fixture(params=FAULTS)
def fault(request: pytest.FixtureRequest) -> tuple[Field, int]:
    return FAULTS[request.param]


def test_no_confirm_while_the_disk_fails_and_confirms_when_it_is_whole(
    broker: Arneb, disk: FailingDisk, fault: tuple[Field, int]
) -> None:
    async def scenario() -> None:
        publisher = await Publisher.open(broker)
        before = bodies("before", 50)
        assert all(await publisher.publish(*before))
        disk[fault[0]] = fault[1]
        during = bodies("during", 20)
        publisher.send(*during)
        await publisher.client.round_trip()  # so that the broker has read all of them
        while not disk[Field.FAILURES]:  # noqa: ASYNC110 - a process of its own counts them
            await asyncio.sleep(0.01)
        assert not any(publisher.answers.get(body) for body in during)
        disk.heal()
        # Messages whose own write failed are refused once it is certain that they are not stored.
        # Those that waited behind it, or behind a failed takeover, are stored now. Whichever answer
        # a message gets is correct, as the restart shows.
        await asyncio.wait_for(publisher.answered(*during), WITHIN_S)
        await publisher.publish_until_confirmed("after")
        assert all(await publisher.publish(*bodies("then", 20)))
        confirmed = [body for body, taken in publisher.answers.items() if taken]
        await publisher.client.abort()
        assert await restarted(broker) == confirmed

    run(scenario())


def test_pulsar_producers_get_send_errors_while_the_disk_fails(
    broker: Arneb, disk: FailingDisk, fault: tuple[Field, int]
) -> None:
    async def scenario() -> None:
        topic = topic_of("sent")
        client = await PulsarClient.open(broker.pulsar_address)
        await client.subscribe(topic, "anchor", consumer=9)
        await client.create_producer(topic)
        await client.send(0, b"before")
        disk[fault[0]] = fault[1]
        with pytest.raises(PulsarClosed, match="send error"):
            await asyncio.wait_for(client.send(1, b"during"), WITHIN_S)
        disk.heal()
        confirmed = await _send_until_taken(broker, topic)
        await client.abort()
        broker.kill()
        broker.start()
        assert await _payloads(broker, topic, 1 + len(confirmed)) == [b"before", *confirmed]

    run(scenario())


def test_the_official_producer_gets_through_when_the_disk_is_whole_again(
    broker: Arneb, disk: FailingDisk
) -> None:
    """On a send error it closes the connection and sends everything again; each message is stored
    once."""
    topic = topic_of("resent")
    wheel = pulsar_client(broker)
    producer = wheel.create_producer(topic, batching_enabled=False)
    results: queue.Queue[pulsar.Result] = queue.Queue()
    anchor = wheel.subscribe(topic, "anchor", initial_position=pulsar.InitialPosition.Earliest)
    disk[Field.WRITE_ERROR] = errno.EIO
    for number in range(10):
        producer.send_async(b"%d" % number, lambda result, place: results.put(result))
    while not disk[Field.FAILURES]:
        time.sleep(0.01)
    assert results.empty()
    disk.heal()
    assert [results.get(timeout=20) for _ in range(10)] == [pulsar.Result.Ok] * 10
    got = [anchor.receive(int(WITHIN_S * 1000)).data() for _ in range(10)]
    assert got == [b"%d" % number for number in range(10)]
    wheel.close()


async def _send_until_taken(broker: Arneb, topic: str) -> list[bytes]:
    for attempt in range(100):
        client = await PulsarClient.open(broker.pulsar_address)
        body = f"after-{attempt}".encode()
        try:
            await client.create_producer(topic)
            await asyncio.wait_for(client.send(0, body), WITHIN_S)
            return [body]
        except PulsarClosed:
            await asyncio.sleep(0.1)
        finally:
            await client.abort()
    raise AssertionError("expected the broker to take messages again within 10 s")


async def _payloads(broker: Arneb, topic: str, count: int) -> list[bytes]:
    client = await PulsarClient.open(broker.pulsar_address)
    entries: list[Entry] = []
    enough = asyncio.Event()

    def received(_: int, entry: Entry) -> None:
        entries.append(entry)
        if len(entries) >= count:
            enough.set()

    client.received = received
    await client.subscribe(topic, "anchor")
    client.flow(1000)
    await asyncio.wait_for(enough.wait(), WITHIN_S)
    await client.abort()
    return [entry.payload for entry in entries]


def test_consumers_go_on_while_the_disk_fails(
    broker: Arneb, disk: FailingDisk, fault: tuple[Field, int]
) -> None:
    async def scenario() -> None:
        publisher = await Publisher.open(broker)
        before = bodies("before", 300)
        assert all(await publisher.publish(*before))
        consumer = await Consumer.open(broker, prefetch=10)
        await consumer.wait_for(10)
        disk[fault[0]] = fault[1]
        during = bodies("during", 5)
        publisher.send(*during)
        for count in range(10, 301, 10):
            await consumer.wait_for(count)
            consumer.acknowledge_all()
        assert [delivery.body for delivery in consumer.got] == before
        assert not any(delivery.redelivered for delivery in consumer.got)
        disk.heal()
        # Their outcome may have been uncertain until now, as above; and what the broker had not
        # begun to store by then, it stores.
        answers = await asyncio.wait_for(publisher.answered(*during), WITHIN_S)
        assert not answers[0]
        after = [body for body, stored in zip(during, answers, strict=True) if stored]
        after += await publisher.publish_until_confirmed("after")
        assert await consumer.wait_for(300 + len(after)) == before + after
        # Acks from the time of the failure are written soon after it.
        await consumer.client.round_trip()
        await asyncio.sleep(ACKS_DURABLE_AFTER_S)
        assert await restarted(broker) == after

    run(scenario())


def test_a_refused_publish_to_two_queues_is_in_neither(
    broker: Arneb, disk: FailingDisk, fault: tuple[Field, int]
) -> None:
    async def scenario() -> None:
        publisher = await Publisher.open(broker)
        client = publisher.client
        await client.declare_queue("second")
        for name in (QUEUE, "second"):
            bind = commands.Queue.Bind(queue=name, exchange="amq.fanout")
            await client.call(bind, commands.Queue.BindOk)
        disk[fault[0]] = fault[1]
        assert not any(await publisher.publish(*bodies("during", 5), exchange="amq.fanout"))
        disk.heal()
        await publisher.publish_until_confirmed("after")
        both = bodies("both", 5)
        assert all(await publisher.publish(*both, exchange="amq.fanout"))
        assert [body for body in await restarted(broker) if b"after" not in body] == both
        assert await backlog(broker, "second") == both

    run(scenario())


def test_while_the_disk_hangs_nothing_is_confirmed_or_delivered(
    broker: Arneb, disk: FailingDisk
) -> None:
    """No consumer sees a message that a crash could still undo."""

    async def scenario() -> None:
        publisher = await Publisher.open(broker)
        consumer = await Consumer.open(broker)
        assert all(await publisher.publish(b"first"))
        await consumer.wait_for(1)
        disk[Field.STALL] = 1
        publisher.send(*bodies("held", 10))
        other = await AmqpClient.open(broker.address)
        for _ in range(10):
            # The broker stays responsive all the time, on the same connection too.
            await other.round_trip()
            await publisher.client.round_trip()
            await asyncio.sleep(0.05)
        assert len(publisher.answers) == 1
        assert len(consumer.got) == 1
        disk.heal()
        assert all(await asyncio.wait_for(publisher.answered(*bodies("held", 10)), WITHIN_S))
        assert await consumer.wait_for(11) == [b"first", *bodies("held", 10)]

    run(scenario())


def test_a_kill_while_the_disk_hangs_loses_nothing_confirmed(
    broker: Arneb, disk: FailingDisk
) -> None:
    async def scenario() -> None:
        publisher = await Publisher.open(broker)
        before = bodies("before", 30)
        assert all(await publisher.publish(*before))
        disk[Field.STALL] = 1
        publisher.send(*bodies("held", 10))
        await publisher.client.round_trip()
        broker.kill()
        disk.heal()
        broker.start()
        found = await backlog(broker)
        assert found[:30] == before
        assert found[30:] in ([], bodies("held", 10))

    run(scenario())


def test_every_confirm_has_a_sync_before_it(broker: Arneb, disk: FailingDisk) -> None:
    """With a window of one, no two confirms share a sync."""

    async def scenario() -> None:
        publisher = await Publisher.open(broker)
        before = disk[Field.SYNCS]
        for number in range(50):
            syncs = disk[Field.SYNCS]
            assert await publisher.publish(b"%d" % number) == [True]
            assert disk[Field.SYNCS] > syncs
        assert disk[Field.SYNCS] - before >= 50

    run(scenario())


async def _fill(publisher: Publisher) -> int:
    """Publish until the first refusal; the result is how many were confirmed."""
    taken = 0
    for number in range(200):
        run = [b"%d-%d-" % (number, index) + bytes(20_000) for index in range(20)]
        answers = await publisher.publish(*run)
        taken += sum(answers)
        if not all(answers):
            return taken
    raise AssertionError("expected the disk to be full")


async def _full_and_free_again(broker: Arneb, give_room: Callable[[], None]) -> None:
    publisher = await Publisher.open(broker)
    taken = await _fill(publisher)
    assert taken > 100
    large = [b"refused-%d-" % number + bytes(100_000) for number in range(20)]
    assert not all(await publisher.publish(*large))
    consumer = await Consumer.open(broker, prefetch=10)
    for count in range(10, taken - 10, 10):
        await consumer.wait_for(count)
        consumer.acknowledge_all()
    give_room()
    await publisher.publish_until_confirmed("after")
    assert all(await publisher.publish(*[b"x%d" % i + bytes(20_000) for i in range(100)]))
    confirmed = [body for body, ok in publisher.answers.items() if ok]
    await publisher.client.abort()
    await consumer.client.abort()
    found = await restarted(broker)
    assert found == confirmed[len(confirmed) - len(found) :]
    assert len(found) >= 101


def test_a_full_disk_refuses_publishes_until_there_is_room(tmp_path: Path) -> None:
    with SmallDisk.mounted(tmp_path / "small", DISK_MIB) as small:
        if small is None:
            pytest.skip("needs the right to mount a tmpfs")
        broker = Arneb(small.place, listeners=("amqp",), settings=NO_ALARM).start()
        try:
            run(_full_and_free_again(broker, lambda: small.resize(4 * DISK_MIB)))
        finally:
            broker.kill()
        assert_clean(broker)


def test_a_file_that_may_not_grow_refuses_publishes_until_it_may(tmp_path: Path) -> None:
    """The same with RLIMIT_FSIZE, for machines on which nothing can be mounted."""
    broker = Arneb(tmp_path, listeners=("amqp",), settings=NO_ALARM).start()
    try:
        limit_file_size(broker.pid, DISK_MIB << 20)
        run(_full_and_free_again(broker, lambda: limit_file_size(broker.pid, None)))
    finally:
        broker.kill()
    assert_clean(broker)
