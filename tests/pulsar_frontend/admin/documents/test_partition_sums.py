"""Sums of partitions: joined by place, as Apache Pulsar's ``TopicStatsImpl.add`` does."""

from typing import Any

import pytest
from tests.pulsar_frontend.admin_client import Admin
from tests.pulsar_frontend.conftest import OpenBroker
from tests.pulsar_frontend.raw_client import connected

from arneb_pulsar.admin.documents.partition_sums import sum_of_topics

pytestmark = pytest.mark.real_time

NEVER = "1970-01-01T00:00:00Z"
PARTS = 3


def of_topic(
    producers: list[dict[str, Any]] | None = None, **consumers: list[dict[str, Any]]
) -> dict[str, Any]:
    return {
        "averageMsgSize": 0.0,
        "publishers": producers or [],
        "subscriptions": {name: {"consumers": each} for name, each in consumers.items()},
    }


async def test_what_partitions_do_not_share_is_left_out_of_their_sum(
    open_broker: OpenBroker,
) -> None:
    async with open_broker() as running, connected(running.context) as (client,):
        admin = Admin(running)
        await admin("PUT", "/p/partitions", PARTS)
        for index in range(PARTS):
            topic = f"p-partition-{index}"
            await client.producer(topic, index, producer_name="me")
            await client.subscribe(topic, index, consumer_name="it", priority_level=1)
            await client.publish(b"x", b"y", producer_id=index)
            await client.take(2)
            await client.flow(5, index)
            await client.take(2)
        found = (await admin("GET", "/p/partitioned-stats"))[1]
        for absent in ("ownerBroker", "deduplicationStatus"):
            assert absent not in found
            assert absent in found["partitions"]["persistent://public/default/p-partition-0"]
        (producer,) = found["publishers"]
        assert producer == {
            "msgRateIn": 0.0,
            "msgThroughputIn": 0.0,
            "averageMsgSize": 0.0,
            "chunkedMessageRate": 0.0,
            "producerId": 0,
            "supportsPartialProducer": False,
        }
        subscription = found["subscriptions"]["s"]
        assert subscription["lastConsumedFlowTimestamp"] == 0
        assert (subscription["type"], subscription["durable"]) == ("Shared", True)
        assert (subscription["msgBacklog"], subscription["msgOutCounter"]) == (6, 6)
        (consumer,) = subscription["consumers"]
        sizes = consumer.pop("bytesOutCounter")
        assert sizes == found["bytesOutCounter"] > 0
        assert consumer == {
            "msgRateOut": 0.0,
            "msgThroughputOut": 0.0,
            "msgOutCounter": 2 * PARTS,
            "msgRateRedeliver": 0.0,
            "messageAckRate": 0.0,
            "availablePermits": 3 * PARTS,
            "unackedMessages": 2 * PARTS,
            "drainingHashesClearedTotal": 0,
            "consumerName": "it",
            "blockedConsumerOnUnackedMsgs": False,
            "drainingHashesCount": 0,
            "drainingHashesUnackedMessages": 0,
            "chunkedMessageRate": 0.0,
            "avgMessagesPerEntry": 0,
            "lastAckedTimestamp": 0,
            "lastConsumedTimestamp": 0,
            "lastConsumedFlowTimestamp": 0,
            "lastAckedTime": NEVER,
            "lastConsumedTime": NEVER,
        }


async def test_failover_consumers_are_shown_by_priority_and_then_by_name(
    open_broker: OpenBroker,
) -> None:
    async with open_broker() as running, connected(running.context) as (client,):
        kinds = {"over": 2, "shared": 1}
        for name, kind in kinds.items():
            for number, (priority, consumer) in enumerate([(1, "c"), (1, "b"), (0, "d"), (1, "a")]):
                await client.subscribe(
                    "t",
                    number + 10 * kind,
                    subscription=name,
                    subType=kind,
                    consumer_name=consumer,
                    priority_level=priority,
                )
        for number, producer in enumerate(["z", "y"]):
            await client.producer("t", number, producer_name=producer)
        found = (await Admin(running)("GET", "/t/stats"))[1]
        shown = {
            name: "".join(
                each["consumerName"] for each in found["subscriptions"][name]["consumers"]
            )
            for name in kinds
        }
        assert shown == {"over": "dabc", "shared": "dcba"}
        assert [each["producerName"] for each in found["publishers"]] == ["y", "z"]


def test_producers_are_joined_by_place_and_sizes_are_means() -> None:
    def producer(size: float) -> dict[str, Any]:
        return {"msgRateIn": 1.0, "msgThroughputIn": size, "averageMsgSize": size}

    found = sum_of_topics(
        [
            of_topic([producer(2.0)]) | {"averageMsgSize": 2.0},
            of_topic([producer(4.0), producer(8.0)]) | {"averageMsgSize": 6.0},
        ]
    )
    assert found["averageMsgSize"] == 4.0
    assert [
        (each["msgRateIn"], each["msgThroughputIn"], each["averageMsgSize"])
        for each in found["publishers"]
    ] == [(2.0, 6.0, 3.0), (1.0, 8.0, 8.0)]


def test_consumers_are_joined_only_where_partitions_have_as_many() -> None:
    def consumers(*names: str) -> list[dict[str, Any]]:
        return [{"consumerName": name, "msgOutCounter": 1} for name in names]

    found = sum_of_topics(
        [
            of_topic(some=consumers("a", "b"), more=consumers("a")),
            of_topic(some=consumers("c", "d"), more=consumers("b", "c")),
            of_topic(some=consumers("e")),
        ]
    )
    shown = {
        name: [(each["consumerName"], each["msgOutCounter"]) for each in document["consumers"]]
        for name, document in found["subscriptions"].items()
    }
    assert shown == {"some": [("c", 2), ("d", 2), ("e", 1)], "more": [("a", 1), ("b", 1), ("c", 1)]}


def test_what_is_true_of_one_partition_is_true_of_the_sum() -> None:
    def of_one(**fields: Any) -> dict[str, Any]:
        return of_topic() | {"subscriptions": {"s": fields | {"consumers": []}}}

    found = sum_of_topics(
        [
            of_one(durable=False, drainingHashes=1, subscriptionProperties={"a": "1"}, type="None"),
            of_one(
                durable=True, drainingHashes=2, subscriptionProperties={"b": "2"}, type="Shared"
            ),
        ]
    )["subscriptions"]["s"]
    assert found["durable"] is True
    assert found["drainingHashes"] == 3
    assert found["subscriptionProperties"] == {"a": "1", "b": "2"}
    assert found["type"] == "Shared"
