"""The fake broker, as the client itself sees it."""

from contextlib import suppress

import anyio
import anyio.lowlevel
import pytest
from tests.pulsar_frontend.client.in_memory import (
    client_of,
    early,
    produce,
    produce_in_chunks,
    sent_count,
)

from arneb_pulsar.client import (
    AccessMode,
    Batching,
    ClientOptions,
    ConsumerOptions,
    InitialPosition,
    MessageId,
    ProducerOptions,
    SubscriptionType,
    connect,
)
from arneb_pulsar.client.connection.commands import frame_of
from arneb_pulsar.client.connection.dialling import Address
from arneb_pulsar.client.errors import (
    ConnectError,
    ConsumerBusy,
    Disconnected,
    ProducerBusy,
    ProducerFenced,
)
from arneb_pulsar.client.testing import FakeBroker, Faults
from arneb_pulsar.wire.frame import FrameReader
from arneb_pulsar.wire.proto.pulsar_pb2 import CommandConnect, CommandPing

FAKE = Address("fake-1", 6650)
EARLIEST = InitialPosition.EARLIEST


async def test_what_is_produced_is_consumed_and_acknowledged() -> None:
    broker = FakeBroker()
    async with client_of(broker) as client:
        consumer = await client.subscribe("orders", "billing")
        await produce(client, 10)
        for number in range(10):
            message = await consumer.receive()
            assert message.data == b"%d" % number
            consumer.acknowledge(message)
    assert broker.backlog("orders", "billing") == []
    assert broker.open_streams == []


async def test_topics_are_found_at_the_broker_that_has_them() -> None:
    broker = FakeBroker(brokers=3)
    names = [f"orders-{number}" for number in range(12)]
    owners = {broker.owner(name) for name in names}
    assert len(owners) == 3
    async with client_of(broker) as client:
        for name in names:
            producer = await client.create_producer(name)
            await producer.send(b"x")
        before = broker.owner("orders-0")
        broker.unload("orders-0")
        assert broker.owner("orders-0") != before
        producer = await client.create_producer("orders-0")
        found = await producer.send(b"y")
        assert found.entry == (2, 0)


async def test_a_cut_loses_what_is_under_way_and_nothing_that_was_confirmed() -> None:
    broker = FakeBroker(Faults(seed=1, delay_s_max=0.5), deduplication=True)
    async with client_of(broker) as client:
        producer = await client.create_producer("orders", ProducerOptions(name="p", batching=None))
        for number in range(20):
            producer.send_nowait(b"%d" % number)
        await anyio.sleep(0.2)
        broker.cut()
        await producer.flush()
    assert len(broker.topic("orders").entries) == 20
    assert len(broker.sessions) >= 2


async def test_without_deduplication_what_was_resent_is_there_twice() -> None:
    broker = FakeBroker(Faults(seed=1, delay_s_max=0.5))
    async with client_of(broker) as client:
        producer = await client.create_producer("orders", ProducerOptions(name="p", batching=None))
        producer.send_nowait(b"x")
        await anyio.sleep(0.5)  # the receipt takes longer
        assert broker.topic("orders").entries
        broker.cut()
        await producer.flush()
    assert len(broker.topic("orders").entries) == 2


async def test_receipts_that_come_twice_mean_what_they_mean_once() -> None:
    broker = FakeBroker(Faults(doubled=1.0))
    async with client_of(broker) as client:
        producer = await client.create_producer("orders")
        ids = [await producer.send(b"x") for _ in range(5)]
    assert [each.entry for each in ids] == [(1, number) for number in range(5)]
    assert len(broker.sessions) == 1


@pytest.mark.parametrize("cut_bytes", [1, 50, 100, 200, 400, 800])
async def test_a_connection_may_be_cut_at_any_byte(cut_bytes: int) -> None:
    broker = FakeBroker(Faults(seed=cut_bytes, cut_bytes_mean=cut_bytes), deduplication=True)

    async def mend() -> None:
        await anyio.sleep(60)
        broker.faults.stop()
        broker.cut()

    options = ClientOptions(dial=broker.dial, seed=7, operation_timeout_s=600.0)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(mend)
        async with connect(broker.url, options) as client:
            producer = await client.create_producer(
                "orders", ProducerOptions(name="p", send_timeout_s=0)
            )
            for number in range(50):
                await producer.send(b"%d" % number)
    entries = broker.topic("orders").entries
    assert sum(each.messages for each in entries) == 50


async def test_no_connection_is_accepted_while_it_is_down() -> None:
    broker = FakeBroker()
    with pytest.raises(ConnectError, match="nobody is there"):
        await broker.dial(Address("elsewhere", 6650))
    broker.is_down = True
    with pytest.raises(ConnectError, match="fake-1"):
        await broker.dial(Address("fake-1", 6650))


async def test_subscriptions_let_in_whom_pulsar_lets_in() -> None:
    broker = FakeBroker()
    shared = ConsumerOptions(type=SubscriptionType.SHARED)
    async with client_of(broker) as client:
        await client.subscribe("orders", "one")
        with pytest.raises(ConsumerBusy):
            await client.subscribe("orders", "one")
        await client.subscribe("orders", "many", shared)
        await client.subscribe("orders", "many", shared)
        with pytest.raises(ConsumerBusy):
            await client.subscribe("orders", "many")


async def test_exclusive_producers_are_let_in_as_pulsar_lets_them_in() -> None:
    broker = FakeBroker()
    exclusive = ProducerOptions(access=AccessMode.EXCLUSIVE)
    fencing = ProducerOptions(access=AccessMode.EXCLUSIVE_WITH_FENCING)
    async with client_of(broker) as client:
        first = await client.create_producer("orders", exclusive)
        assert first.topic_epoch == 0
        with pytest.raises(ProducerBusy):
            await client.create_producer("orders")
        with pytest.raises(ProducerFenced):
            await client.create_producer("orders", exclusive)
        second = await client.create_producer("orders", fencing)
        assert second.topic_epoch == 1
        with pytest.raises(ProducerFenced):
            await first.send(b"x")
        await second.send(b"y")
    assert len(broker.topic("orders").entries) == 1


async def test_a_producer_that_waits_for_exclusive_access_gets_it_in_the_end() -> None:
    broker = FakeBroker()
    waiting = ProducerOptions(access=AccessMode.WAIT_FOR_EXCLUSIVE)
    async with client_of(broker) as client:
        first = await client.create_producer("orders")

        async def leave() -> None:
            await anyio.sleep(100)
            await first.close()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(leave)
            second = await client.create_producer("orders", waiting)
        assert anyio.current_time() >= 100
        await second.send(b"x")


async def test_keys_keep_to_one_consumer_and_in_order() -> None:
    broker = FakeBroker()
    options = ConsumerOptions(
        type=SubscriptionType.KEY_SHARED, queue_size=3, initial_position=EARLIEST
    )
    async with client_of(broker) as client:
        consumers = [await client.subscribe("orders", "billing", options) for _ in range(3)]
        producer = await client.create_producer("orders", ProducerOptions(batching=None))
        for number in range(60):
            producer.send_nowait(b"%d" % number, key=f"key-{number % 7}")
        given: dict[str, list[tuple[int, int]]] = {}
        for _ in range(60):
            for who, consumer in enumerate(consumers):
                if (message := consumer.receive_nowait()) is not None:
                    key, number = f"{int(message.data) % 7}", int(message.data)
                    given.setdefault(key, []).append((who, number))
                    consumer.acknowledge(message)
            await anyio.sleep(0.2)
    assert sum(map(len, given.values())) == 60
    for each in given.values():
        assert len({who for who, _ in each}) == 1
        numbers = [number for _, number in each]
        assert numbers == sorted(numbers)


async def test_a_batch_comes_again_without_its_acknowledged_messages() -> None:
    broker = FakeBroker()
    options = ConsumerOptions(
        type=SubscriptionType.SHARED, batch_index_acks=True, initial_position=EARLIEST
    )
    async with client_of(broker) as client:
        await produce(client, 4, Batching(delay_s=1.0))
        consumer = await client.subscribe("orders", "billing", options)
        messages = [await consumer.receive() for _ in range(4)]
        await consumer.acknowledge_stored(messages[1])
        broker.cut()
        again = [(await consumer.receive()).data for _ in range(3)]
        assert again == [b"0", b"2", b"3"]
    assert broker.backlog("orders", "billing") == [(1, 0)]


async def test_a_seek_starts_again_at_the_place_asked_for() -> None:
    broker = FakeBroker()
    async with client_of(broker) as client:
        await produce(client, 5)
        consumer = await client.subscribe(
            "orders", "billing", ConsumerOptions(initial_position=EARLIEST)
        )
        messages = [await consumer.receive() for _ in range(5)]
        await consumer.seek(messages[2].id)
        following = [(await consumer.receive()).data for _ in range(2)]
        assert following == [b"3", b"4"]
        await consumer.seek(0)
        assert (await consumer.receive()).data == b"0"


@pytest.mark.parametrize("how", ["cut", "unload"])
@pytest.mark.parametrize("after_s", [0.0, 0.01, 0.05, 0.1])
async def test_a_seek_whose_broker_is_lost_is_asked_for_again(how: str, after_s: float) -> None:
    broker = FakeBroker(Faults(delay_s_max=0.1), brokers=2)
    async with client_of(broker) as client:
        await produce(client, 5)
        consumer = await client.subscribe(
            "orders", "billing", ConsumerOptions(initial_position=EARLIEST)
        )
        messages = [await consumer.receive() for _ in range(5)]
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(consumer.seek, messages[2].id)
            await anyio.sleep(after_s)
            broker.cut() if how == "cut" else broker.unload("orders")
        assert [(await consumer.receive()).data for _ in range(2)] == [b"3", b"4"]


async def test_failover_consumers_learn_which_one_is_active() -> None:
    broker = FakeBroker()
    calls: list[tuple[str, bool]] = []

    def options(name: str) -> ConsumerOptions:
        return ConsumerOptions(
            type=SubscriptionType.FAILOVER,
            name=name,
            on_active=lambda _, is_active: calls.append((name, is_active)),
        )

    async with client_of(broker) as client:
        await client.subscribe("orders", "billing", options("b"))
        first = await client.subscribe("orders", "billing", options("a"))
        await anyio.sleep(1)
        await first.close()
        await anyio.sleep(1)
    assert calls == [("b", True), ("b", False), ("a", True), ("b", True)] or calls == [
        ("b", True), ("a", True), ("b", False), ("b", True)
    ]  # fmt: skip


async def test_a_reader_on_a_non_persistent_topic_misses_what_came_before() -> None:
    broker = FakeBroker()
    name = "non-persistent://public/default/ticks"
    async with client_of(broker) as client:
        producer = await client.create_producer(name)
        await producer.send(b"missed")
        consumer = await client.subscribe(name, "board")
        await producer.send(b"seen")
        assert (await consumer.receive()).data == b"seen"


async def test_what_was_under_way_when_all_was_asked_for_again_costs_no_permit() -> None:
    faults = Faults(seed=3)
    broker = FakeBroker(faults)
    options = ConsumerOptions(queue_size=1, initial_position=EARLIEST)
    async with client_of(broker) as client:
        await produce(client, 4)
        consumer = await client.subscribe("orders", "billing", options)
        faults.delay_s_max = 5.0
        given = []
        with anyio.move_on_after(600):
            while len(given) < 5:
                message = await consumer.receive()
                given.append(message.data)
                if len(given) == 2:
                    consumer.redeliver_unacknowledged()
                else:
                    await consumer.acknowledge_stored(message)
        assert given == [b"0", b"1", b"1", b"2", b"3"]


async def test_a_connection_breaks_at_any_byte_and_what_came_before_has_arrived() -> None:
    """Half a frame too: whoever reads it must wait for the rest, and be told that there is none."""
    halves = 0
    for seed in range(20):
        stream = await FakeBroker(Faults(seed=seed, cut_bytes_mean=30)).dial(FAKE)
        with suppress(anyio.BrokenResourceError):
            await stream.send(frame_of(CommandConnect(client_version="x")))
            for _ in range(20):
                await stream.send(frame_of(CommandPing()))
        arrived = b""
        with suppress(anyio.EndOfStream):
            while True:
                arrived += await stream.receive()
        reader = FrameReader(1 << 20)
        reader.receive(arrived)
        halves += " 0 bytes" not in repr(reader)
    assert halves > 5


async def test_what_is_written_takes_its_time_in_both_directions() -> None:
    broker = FakeBroker(Faults(seed=3, delay_s_max=5.0))
    stream = await broker.dial(FAKE)
    await stream.send(frame_of(CommandConnect(client_version="x")))
    assert broker.sessions[0].commands == []
    began = anyio.current_time()
    await stream.receive()
    assert broker.sessions[0].commands == ["connect"]
    assert 0 < anyio.current_time() - began < 10


async def test_a_silent_connection_is_given_up_and_what_was_sent_is_sent_again() -> None:
    broker = FakeBroker(Faults(seed=2, cut_bytes_mean=2_000, silent=1.0), deduplication=True)
    async with client_of(broker, operation_timeout_s=600) as client:
        options = ProducerOptions(name="p", batching=None, send_timeout_s=0)
        producer = await client.create_producer("orders", options)
        for number in range(100):
            await producer.send(b"%d" % number)
    assert len(broker.topic("orders").entries) == 100
    assert len(broker.sessions) > 3


@pytest.mark.parametrize("checkpoints", range(12))
async def test_a_seek_that_waits_for_a_broker_waits_on_where_that_is_lost_at_once(
    checkpoints: int,
) -> None:
    broker = FakeBroker()

    async def let_in() -> None:
        await anyio.sleep(1)
        broker.is_down = False

    async def cut_soon() -> None:
        for _ in range(checkpoints):
            await anyio.lowlevel.checkpoint()
        broker.cut()

    async with client_of(broker, backoff_cap_s=0.1) as client, anyio.create_task_group() as tasks:
        cuts: list[object] = []

        def came_back(_consumer: object, _is_active: bool) -> None:
            cuts.append(None)
            if len(cuts) == 2:
                tasks.start_soon(cut_soon)

        await produce(client, 3)
        consumer = await client.subscribe(
            "orders", "billing", early(SubscriptionType.FAILOVER, on_active=came_back)
        )
        broker.is_down = True
        broker.cut()
        await anyio.sleep(1)
        tasks.start_soon(let_in)
        with anyio.fail_after(20):
            # Lost before it was asked for, it is waited for; lost after it, whoever asked is told.
            with suppress(Disconnected):
                await consumer.seek(MessageId(1, 1))
            await consumer.seek(MessageId(1, 1))
        assert (await consumer.receive()).data == b"2"


@pytest.mark.parametrize("batching", [None, Batching()])
async def test_a_seek_acknowledges_what_is_before_it_and_other_consumers_returns_come_again(
    batching: Batching | None,
) -> None:
    broker = FakeBroker()
    async with client_of(broker) as client:
        await produce(client, 4, batching)
        consumer = await client.subscribe("orders", "billing", early())
        messages = [await consumer.receive() for _ in range(4)]
        await consumer.seek(messages[1].id)
        for expected in (b"2", b"3"):
            message = await consumer.receive()
            assert message.data == expected
            consumer.acknowledge(message)
        await anyio.sleep(1)
        assert broker.backlog("orders", "billing") == []
        if batching is None:
            broker.topic("orders").subscriptions["billing"].reset(0)
            broker.cut()
            assert (await consumer.receive()).data == b"0"


async def test_chunks_whose_last_never_comes_are_given_up_in_their_time() -> None:
    broker = FakeBroker()
    async with client_of(broker) as client:
        await produce_in_chunks(client, 1)
        topic = broker.topic("orders")
        assert len(topic.entries) == 3
        topic.entries.pop()
        consumer = await client.subscribe("orders", "billing", early(chunk_expire_s=60.0))
        await anyio.sleep(59)
        assert (sent_count(broker, "ack"), len(broker.backlog("orders", "billing"))) == (0, 2)
        await anyio.sleep(3)
        assert (sent_count(broker, "ack"), len(broker.backlog("orders", "billing"))) == (1, 0)
        assert consumer.receive_nowait() is None


async def test_chunks_of_the_oldest_message_make_way_for_others() -> None:
    broker = FakeBroker()
    async with client_of(broker) as client:
        await produce_in_chunks(client, 2)
        # Their last chunks were never sent.
        del broker.topic("orders").entries[5], broker.topic("orders").entries[2]
        wanted = early(chunked_pending_max=1, chunk_ack_oldest=True)
        await client.subscribe("orders", "billing", wanted)
        await anyio.sleep(5)
        assert broker.backlog("orders", "billing") == [(1, 3), (1, 4)]
