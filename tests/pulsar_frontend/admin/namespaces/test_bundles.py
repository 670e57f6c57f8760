"""Bundles and backlogs over a real core: what is done to a piece of a namespace stays in it."""

from itertools import pairwise

import pytest
from tests.pulsar_frontend.admin_client import Admin
from tests.pulsar_frontend.conftest import OpenBroker
from tests.pulsar_frontend.raw_client import connected

from arneb_pulsar.namespaces.bundles import bundle_of, evenly, named

pytestmark = pytest.mark.real_time

NAMESPACE = "/admin/v2/namespaces/public/default"
TOPIC = "persistent://public/default/{}"


def other_than(topic: str) -> str:
    """A topic in another bundle."""
    here = bundle_of(evenly(4), TOPIC.format(topic))
    return next(
        name
        for name in map("u{}".format, range(100))
        if bundle_of(evenly(4), TOPIC.format(name)) != here
    )


async def test_a_bundle_has_its_topics_and_no_others(open_broker: OpenBroker) -> None:
    other = other_than("t")
    bundle = named(*bundle_of(evenly(4), TOPIC.format("t")))
    async with open_broker() as running, connected(running.context) as (client,):
        admin = Admin(running)
        for name in ("t", other):
            await admin("PUT", f"/{name}")
            for subscription in ("s", "amqp"):
                await admin("PUT", f"/{name}/subscription/{subscription}", "earliest")
            await client.producer(name, len(name))
            await client.publish(b"x", producer_id=len(name))
            await client.reply()

        async def backlogs(subscription: str) -> list[int]:
            documents = [(await admin("GET", f"/{name}/stats"))[1] for name in ("t", other)]
            return [each["subscriptions"][subscription]["msgBacklog"] for each in documents]

        assert await admin("POST", f"{NAMESPACE}/{bundle}/clearBacklog") == (204, b"")
        assert (await backlogs("s"), await backlogs("amqp")) == ([0, 1], [1, 1])
        assert await admin("POST", f"{NAMESPACE}/clearBacklog/s") == (204, b"")
        assert await backlogs("s") == [0, 0]
        assert await admin("POST", f"{NAMESPACE}/{bundle}/unsubscribe/s") == (204, b"")
        assert (await admin("GET", "/t/subscriptions"))[1] == ["amqp"]
        assert (await admin("GET", f"/{other}/subscriptions"))[1] == ["amqp", "s"]
        assert (await admin("POST", f"{NAMESPACE}/unsubscribe/amqp"))[0] == 412
        await client.subscribe(other, 1)
        assert (await admin("POST", f"{NAMESPACE}/unsubscribe/s"))[0] == 412
        assert (await admin("DELETE", f"{NAMESPACE}/{bundle}"))[0] == 409
        positions = await admin("GET", f"{NAMESPACE}/{bundle}/topicHashPositions")
        assert list(positions[1]["topicHashPositions"]) == [TOPIC.format("t")]


async def test_splits_are_kept(open_broker: OpenBroker) -> None:
    path = f"{NAMESPACE}/0x00000000_0x40000000/split"
    async with open_broker() as running:
        admin = Admin(running)
        assert (await admin("PUT", path, None, splitAlgorithmName="x"))[0] == 412
        assert (await admin("PUT", path, None, splitAlgorithmName="topic_count_equally_divide"))[
            0
        ] == 501
        assert await admin("PUT", path) == (204, b"")
        assert (await admin("PUT", path))[0] == 412
        assert await admin("PUT", f"{NAMESPACE}/LARGEST/split") == (204, b"")
    async with open_broker() as running:
        found = (await Admin(running)("GET", f"{NAMESPACE}/bundles"))[1]
        assert found["numBundles"] == 6
        assert "0x20000000" in found["boundaries"]
        shown = (await Admin(running)("GET", NAMESPACE))[1]
        assert shown["bundles"] == found


async def test_a_backlog_is_counted_entry_by_entry(open_broker: OpenBroker) -> None:
    async with open_broker() as running, connected(running.context, 2) as (client, reader):
        admin = Admin(running)
        await client.producer("t")
        await reader.subscribe("t")
        await reader.flow(3)
        await client.publish(*[b"x"] * 50)
        got = await reader.take(3)
        await reader.acknowledge(*[message.message_id for message, _ in got[1:]])
        await reader.silent()
        path = "/t/subscription/s/analyzeBacklog"
        status, found = await admin("POST", path)
        assert (status, found["entries"], found["messages"], found["aborted"]) == (
            200,
            48,
            48,
            False,
        )
        last = (await admin("GET", "/t/lastMessageId"))[1]
        assert (await admin("POST", path, last))[1]["entries"] == 1
        assert (await admin("POST", "/t/subscription/none/analyzeBacklog"))[0] == 404
        assert (await admin("POST", "/t/trim"))[0] == 200
        assert (await admin("POST", "/none/trim"))[0] == 404


async def test_properties_of_subscriptions_outlive_a_restart(open_broker: OpenBroker) -> None:
    path = "/t/subscription/s/properties"
    async with open_broker() as running:
        admin = Admin(running)
        await admin("PUT", "/t")
        await admin("PUT", "/t/subscription/s", "earliest")
        assert await admin("GET", path) == (200, {})
        assert await admin("PUT", path, {"a": "b"}) == (204, b"")
        assert await admin("PUT", path, {"c": "d"}) == (204, b"")
        assert (await admin("PUT", path, ["x"]))[0] == 400
        assert (await admin("PUT", "/t/subscription/none/properties", {}))[0] == 404
    async with open_broker() as running:
        assert await Admin(running)("GET", path) == (200, {"c": "d"})


async def test_peeking_by_an_unknown_subscription_shows_the_beginning(
    open_broker: OpenBroker,
) -> None:
    path = "/t/subscription/none/position/{}"
    async with open_broker() as running, connected(running.context) as (client,):
        admin = Admin(running)
        await client.producer("t")
        await client.publish(b"first", b"second")
        await client.reply()
        assert (await admin("GET", path.format(1)))[1].endswith(b"first")
        assert (await admin("GET", path.format(2)))[1].endswith(b"second")
        assert (await admin("GET", path.format(3)))[0] == 404
        assert (await admin("GET", path.format(0)))[0] == 404
        assert await admin("GET", "/t/subscriptions") == (200, [])


async def test_a_topic_stands_for_its_partitions_where_hashes_are_asked_for(
    open_broker: OpenBroker,
) -> None:
    async with open_broker() as running:
        admin = Admin(running)
        await admin("PUT", "/t/partitions", 2)
        for other in ("t-partition", "u", "t2"):
            await admin("PUT", f"/{other}")
        parts = [TOPIC.format(f"t-partition-{index}") for index in (0, 1)]

        async def chosen(*topics: str) -> list[str]:
            found: list[str] = []
            for low, high in pairwise(evenly(4)):
                path = f"{NAMESPACE}/{named(low, high)}/topicHashPositions"
                positions = (await admin("GET", path, topics=topics))[1]
                found += positions["topicHashPositions"]
            return sorted(found)

        assert await chosen("t") == await chosen(TOPIC.format("t")) == parts
        assert await chosen("t-partition-1", "u") == [parts[1], TOPIC.format("u")]
        assert await chosen("t-partition") == [TOPIC.format("t-partition")]
        assert await chosen("nothing") == []
