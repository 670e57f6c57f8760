"""Message ids of several topics, as the official client has them."""

from collections import defaultdict

import pulsar
import pytest
from tests.pulsar_frontend.conftest import OpenBroker
from tests.pulsar_frontend.server.test_wheel import WITHIN_MS, play, sent

pytestmark = pytest.mark.real_time

TOPICS = ("a", "b", "c")
DURABLE = "persistent://public/default/"


async def test_ids_are_of_one_topic_each_whatever_becomes_of_it(open_broker: OpenBroker) -> None:
    found: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)

    async def send_to_all() -> None:
        made: dict[str, list[pulsar.MessageId]] = {}

        def scenario(client: pulsar.Client) -> None:
            for topic in TOPICS:
                made[topic] = sent(client.create_producer(topic), 3)

        await play(open_broker, scenario)  # which begins new ledgers
        async with open_broker() as running:
            for topic, ids in made.items():
                places = [(each.ledger_id(), each.entry_id()) for each in ids]
                found[running.core.topic(DURABLE + topic).id] += places
            await running.core.delete_topic(f"{DURABLE}b")

    for _ in range(3):
        await send_to_all()
    assert sorted(map(len, found.values())) == [3, 3, 3, 9, 9]
    assert len({each for ids in found.values() for each in ids}) == 27
    assert all(ids == sorted(ids) for ids in found.values())


async def test_ids_of_a_later_topic_name_its_messages(open_broker: OpenBroker) -> None:
    def scenario(client: pulsar.Client) -> None:
        sent(client.create_producer("a"), 2)
        consumer = client.subscribe(
            "b", "s", pulsar.ConsumerType.Shared, negative_ack_redelivery_delay_ms=100
        )
        receipts = sent(client.create_producer("b"), 20)
        messages = [consumer.receive(WITHIN_MS) for _ in range(20)]
        assert [each.message_id() for each in messages] == receipts
        last = consumer.get_last_message_id()
        assert (last.ledger_id(), last.entry_id()) == (
            receipts[-1].ledger_id(), receipts[-1].entry_id(),
        )  # fmt: skip
        consumer.negative_acknowledge(messages[7])
        again = consumer.receive(WITHIN_MS)
        assert (again.message_id(), again.redelivery_count()) == (receipts[7], 1)
        for message in messages:
            if message is not messages[3]:
                consumer.acknowledge(message)
        consumer.close()
        consumer = client.subscribe("b", "s", pulsar.ConsumerType.Shared)
        assert consumer.receive(WITHIN_MS).message_id() == receipts[3]
        consumer.seek(receipts[15])
        seen = [consumer.receive(WITHIN_MS).data() for _ in range(4)]
        assert seen == [b"16", b"17", b"18", b"19"]
        reader = client.create_reader("b", receipts[17])
        assert [reader.read_next(WITHIN_MS).data() for _ in range(2)] == [b"18", b"19"]
        assert not reader.has_message_available()

    await play(open_broker, scenario)


async def test_an_id_without_a_topics_number_is_still_a_place(open_broker: OpenBroker) -> None:
    def scenario(client: pulsar.Client) -> None:
        sent(client.create_producer("a"), 2)
        sent(client.create_producer("b"), 5)
        reader = client.create_reader("b", pulsar.MessageId(-1, 1, 2, -1))
        # The client itself leaves out the message of that id, which has another one now.
        assert [reader.read_next(WITHIN_MS).data() for _ in range(2)] == [b"2", b"3"]

    await play(open_broker, scenario)


async def test_a_cumulative_acknowledgement_in_a_later_topic(open_broker: OpenBroker) -> None:
    def scenario(client: pulsar.Client) -> None:
        sent(client.create_producer("a"), 1)
        consumer = client.subscribe("b", "s")
        sent(client.create_producer("b"), 6)
        messages = [consumer.receive(WITHIN_MS) for _ in range(6)]
        consumer.acknowledge_cumulative(messages[3])
        consumer.close()
        consumer = client.subscribe("b", "s")
        assert [consumer.receive(WITHIN_MS).data() for _ in range(2)] == [b"4", b"5"]

    await play(open_broker, scenario)
