"""The admin API over a real core: what it makes is there, and is there after a restart."""

from datetime import datetime
from typing import Any
from urllib.parse import quote

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from tests.pulsar_frontend.admin_client import Admin
from tests.pulsar_frontend.conftest import OpenBroker
from tests.pulsar_frontend.raw_client import connected

from arneb_core.api.entries.entry import EntryHeader, Origin
from arneb_core.api.entries.ledger_ids import LOW_BITS
from arneb_core.api.entries.position import position_at
from arneb_core.api.subscriptions.subscription import InitialPosition
from arneb_core.api.subscriptions.subscription_types import SubscriptionType
from arneb_core.testing.engine_kit import attach
from arneb_pulsar.admin.documents.messages import message_of
from arneb_pulsar.admin.topics.lookup import as_reached
from arneb_pulsar.wire.checksum import join_body
from arneb_pulsar.wire.proto import pulsar_pb2 as pb
from arneb_pulsar.wire.proto.pulsar_pb2 import (
    CommandCloseConsumer,
    CommandCloseProducer,
    CommandGetTopicsOfNamespace,
    CommandPartitionedTopicMetadata,
    CommandProducerSuccess,
    CommandSubscribe,
    CommandSuccess,
)

pytestmark = pytest.mark.real_time


async def partitions_of(client: Any, topic: str, *, create: bool = True) -> Any:
    await client.send(
        CommandPartitionedTopicMetadata(
            topic=topic, request_id=9, metadata_auto_creation_enabled=create
        )
    )
    return (await client.reply())[0]


OF_WHOLE_TOPICS = (
    ("PUT", "/q-partition-0/partitions"),
    ("PUT", "/q-partition-x/partitions"),
    ("POST", "/p-partition-0/partitions"),
    ("DELETE", "/p-partition-0/partitions"),
    ("DELETE", "/none-partition-0/partitions"),
    ("POST", "/p-partition-0/createMissedPartitions"),
    ("POST", "/q-partition-x/createMissedPartitions"),
    ("GET", "/p-partition-0/partitioned-stats"),
)
"""Calls for partitioned topics, of what is, or looks like, a partition."""


async def test_a_partitioned_topic_is_made_grows_and_goes(open_broker: OpenBroker) -> None:
    async with open_broker() as running:
        admin = Admin(running)
        assert await admin("PUT", "/t/partitions", 3) == (204, b"")
        assert (await admin("PUT", "/t/partitions", 3))[0] == 409
        assert (await admin("PUT", "/t"))[0] == 409
        assert (await admin("GET", "/t/partitions"))[1]["partitions"] == 3
        assert await admin("GET", "/partitioned") == (200, ["persistent://public/default/t"])
        await admin("PUT", "/t/subscription/s", "earliest")
    async with open_broker() as running, connected(running.context) as (client,):
        admin = Admin(running)
        assert (await partitions_of(client, "t")).partitions == 3
        assert (await partitions_of(client, "t-partition-1")).partitions == 0
        assert (await admin("POST", "/t/partitions", 2))[0] == 422
        assert (await admin("POST", "/t/partitions", 5))[0] == 204
        assert (await partitions_of(client, "t")).partitions == 5
        assert sorted(running.core.topics) == [
            f"persistent://public/default/t-partition-{index}" for index in range(5)
        ]
        for topic in running.core.topics.values():
            assert list(topic.subscriptions) == ["s"]
        assert (await client.producer("t-partition-7")).error == pb.TopicNotFound
        assert (await client.producer("t")).error == pb.NotAllowedError
        assert (await admin("DELETE", "/t/partitions"))[0] == 204
        assert not running.core.topics
        assert (await admin("DELETE", "/t/partitions"))[0] == 404
        assert (await partitions_of(client, "t", create=False)).error == pb.TopicNotFound


@pytest.mark.parametrize("count", [0, -1, 10_001, "many", None, True, {"partitions": 0}])
async def test_impossible_partitions_are_refused(open_broker: OpenBroker, count: Any) -> None:
    async with open_broker() as running:
        status, document = await Admin(running)("PUT", "/t/partitions", count)
        assert status in (400, 406)
        assert document["reason"]
        assert not running.core.topics


async def test_a_subscription_brings_back_partitions_that_have_gone(
    open_broker: OpenBroker,
) -> None:
    """Nobody used them for a while, and they are the topic's all the same."""
    async with open_broker() as running:
        admin = Admin(running)
        await admin("PUT", "/t/partitions", 2)
        names = [f"persistent://public/default/t-partition-{index}" for index in range(2)]
        for name in names:
            await running.core.delete_topic(name)
        assert (await admin("PUT", "/t/subscription/s"))[0] == 204
        assert all("s" in running.core.topics[name].subscriptions for name in names)
        assert (await admin("PUT", "/t/subscription/s"))[0] == 409


async def test_topics_come_to_be_as_the_nearest_rule_says(open_broker: OpenBroker) -> None:
    async with (
        open_broker(auto_topic_partitions=2) as running,
        connected(running.context) as (client,),
    ):
        assert (await partitions_of(client, "t")).partitions == 2
        assert (await partitions_of(client, "t", create=False)).partitions == 2
        assert isinstance(await client.producer("t-partition-1"), CommandProducerSuccess)
        assert (await partitions_of(client, "p")).partitions == 2
        for letters in ("t-s-DLQ", "t-s-RETRY"):
            assert (await partitions_of(client, letters)).partitions == 0
        assert (await partitions_of(client, "a-DLQ-b")).partitions == 2
    async with (
        open_broker(allow_auto_topic_creation=False) as running,
        connected(running.context) as (client,),
    ):
        assert (await partitions_of(client, "t")).partitions == 2
        assert (await partitions_of(client, "new")).error == pb.TopicNotFound
        assert (await client.producer("new")).error == pb.TopicNotFound
        assert isinstance(await client.producer("t-partition-0", 2), CommandProducerSuccess)
        assert isinstance(await client.producer("__change_events", 3), CommandProducerSuccess)
    async with (
        open_broker(allow_auto_subscription_creation=False) as running,
        connected(running.context) as (client,),
    ):
        assert (await client.subscribe("x")).error == pb.SubscriptionNotFound
        reader = await client.subscribe(
            "x", 2, subscription="r", durable=False, subType=CommandSubscribe.Exclusive
        )
        assert isinstance(reader, CommandSuccess)
        await Admin(running)("PUT", "/x/subscription/s")
        assert isinstance(await client.subscribe("x", 3), CommandSuccess)


async def test_tenants_and_namespaces_are_kept(open_broker: OpenBroker) -> None:
    ours = "/admin/v2/namespaces/acme"
    async with open_broker() as running:
        admin = Admin(running)
        assert await admin("GET", "/admin/v2/tenants") == (200, ["public", "pulsar"])
        assert (await admin("PUT", f"{ours}/shop"))[0] == 404
        info = {"adminRoles": ["root"], "allowedClusters": ["standalone"]}
        assert (await admin("PUT", "/admin/v2/tenants/acme", info))[0] == 204
        assert (await admin("PUT", "/admin/v2/tenants/acme", info))[0] == 409
        assert (await admin("PUT", f"{ours}/shop"))[0] == 204
        assert (await admin("PUT", f"{ours}/shop"))[0] == 409
    async with open_broker() as running, connected(running.context) as (client,):
        admin = Admin(running)
        assert await admin("GET", "/admin/v2/tenants/acme") == (200, info)
        assert await admin("GET", ours) == (200, ["acme/shop"])
        assert "message_ttl_in_seconds" not in (await admin("GET", f"{ours}/shop"))[1]
        assert isinstance(await client.producer("acme/shop/t"), CommandProducerSuccess)
        assert (await client.producer("acme/other/t", 2)).error == pb.TopicNotFound
        names = ["persistent://acme/shop/t"]
        assert await admin("GET", f"{ours}/shop/topics") == (200, names)
        assert await admin("GET", "/admin/v2/persistent/acme/shop") == (200, names)
        assert (await admin("DELETE", f"{ours}/shop"))[0] == 409
        assert (await admin("DELETE", "/admin/v2/tenants/acme"))[0] == 409
        assert (await admin("DELETE", f"{ours}/shop", force="true"))[0] == 204
        await client.expect(CommandCloseProducer)
        assert (await admin("DELETE", "/admin/v2/tenants/acme"))[0] == 204
        assert await admin("GET", "/admin/v2/tenants") == (200, ["public", "pulsar"])


async def test_a_topic_in_use_goes_by_force_only(open_broker: OpenBroker) -> None:
    async with open_broker() as running, connected(running.context, 2) as (one, two):
        admin = Admin(running)
        await one.producer("t")
        assert (await admin("DELETE", "/t"))[0] == 412
        assert (await admin("DELETE", "/t", force="true"))[0] == 204
        await one.expect(CommandCloseProducer)
        await two.subscribe("u")
        assert (await admin("DELETE", "/u"))[0] == 412
        assert (await admin("PUT", "/u/unload"))[0] == 204
        await two.expect(CommandCloseConsumer)
        assert (await admin("DELETE", "/u"))[0] == 204
        assert (await admin("DELETE", "/u"))[0] == 404
        await two.send(CommandGetTopicsOfNamespace(request_id=1, namespace="public/default"))
        assert not (await two.reply())[0].topics


async def test_subscriptions_are_moved(open_broker: OpenBroker) -> None:
    async with open_broker() as running, connected(running.context) as (client,):
        admin = Admin(running)
        await client.subscribe("t", subscription="s", subType=CommandSubscribe.Shared)
        await client.producer("t")
        await client.publish(*(b"%d" % number for number in range(10)))
        await client.take(10)
        subscription = running.core.topics["persistent://public/default/t"].subscriptions["s"]

        def backlog() -> int:
            return subscription.statistics().backlog_entries

        assert await admin("GET", "/t/subscriptions") == (200, ["s"])
        assert await admin("GET", "/t/subscription/s/position/3") == (200, b"2")
        assert (await admin("GET", "/t/subscription/s/position/11"))[0] == 404
        assert await admin("GET", "/t/ledger/1/entry/4") == (200, b"4")
        assert (await admin("GET", "/t/ledger/1/entry/40"))[0] == 404
        await client.flow(4)
        await client.take(4)
        assert (await admin("POST", "/t/subscription/s/skip/2"))[0] == 204
        assert backlog() == 8
        assert subscription.statistics().in_flight_messages == 2
        assert (await admin("POST", "/t/subscription/s/skip_all"))[0] == 204
        assert backlog() == 0
        assert subscription.statistics().in_flight_messages == 0
        place = {"ledgerId": 1, "entryId": 7, "partitionIndex": -1}
        assert (await admin("POST", "/t/subscription/s/resetcursor", place))[0] == 204
        await client.expect(CommandCloseConsumer)
        assert backlog() == 3
        assert (await admin("POST", "/t/subscription/s/resetcursor", place | {"excluded": True}))[
            0
        ] == 204
        assert backlog() == 2
        assert (await admin("POST", "/t/subscription/s/resetcursor/0"))[0] == 204
        assert backlog() == 10
        assert (await admin("POST", "/t/subscription/s/expireMessages/3600"))[0] == 204
        assert backlog() == 10
        assert (await admin("POST", "/t/all_subscription/expireMessages/-10"))[0] == 204
        assert backlog() == 0
        assert (await admin("PUT", "/t/subscription/late"))[0] == 204
        assert (await admin("PUT", "/t/subscription/late"))[0] == 409
        assert (await admin("PUT", "/t/subscription/mid", {"ledgerId": 1, "entryId": 6}))[0] == 204
        assert (await admin("GET", "/t/subscription/mid/position/1"))[1] == b"6"
        assert (await admin("DELETE", "/t/subscription/mid"))[0] == 204
        assert (await admin("DELETE", "/t/subscription/mid"))[0] == 404
        assert (await admin("POST", "/t/subscription/none/skip_all"))[0] == 404


async def test_messages_are_looked_at_and_cleared(open_broker: OpenBroker) -> None:
    async with open_broker() as running, connected(running.context) as (client,):
        admin = Admin(running)
        await admin("PUT", "/t/subscription/s", "earliest")
        await admin("PUT", "/t/subscription/other", "earliest")
        topic = running.core.topics["persistent://public/default/t"]
        await topic.subscribe("amqp", initial=InitialPosition.EARLIEST)
        await client.producer("t")
        await client.publish(*(b"%d" % number for number in range(10)))
        await client.take(10)

        def backlogs() -> list[int]:
            return [
                topic.subscriptions[name].statistics().backlog_entries
                for name in ("s", "other", "amqp")
            ]

        for number, end, expected in (("1", "earliest", b"0"), ("4", "earliest", b"3"),
                                        ("1", "latest", b"9"), ("40", "latest", b"0")):  # fmt: skip
            query = {"messagePosition": number, "initialPosition": end}
            assert await admin("GET", "/t/examinemessage", **query) == (200, expected)
        assert (await admin("GET", "/t/examinemessage", initialPosition="middle"))[0] == 412
        whole = (await admin("PUT", "/t/backlogSize", {"ledgerId": 1, "entryId": 0}))[1]
        half = (await admin("PUT", "/t/backlogSize", {"ledgerId": 1, "entryId": 5}))[1]
        assert whole == 2 * half == sum(each.bytes for each in topic.ledgers())
        place = {"ledgerId": 1, "entryId": 2}
        await admin("POST", "/t/subscription/s/expireMessages", place)
        assert backlogs() == [7, 10, 10]
        await admin("POST", "/t/subscription/s/expireMessages", place | {"excluded": True})
        assert backlogs() == [7, 10, 10]
        namespace = "/admin/v2/namespaces/public/default"
        assert (await admin("POST", f"{namespace}/clearBacklog/other"))[0] == 204
        assert backlogs() == [7, 0, 10]
        assert (await admin("DELETE", "/t/truncate"))[0] == 204
        assert backlogs() == [0, 0, 10]
        await client.publish(b"x", first=10)
        await client.take(1)
        assert (await admin("POST", f"{namespace}/clearBacklog"))[0] == 204
        assert backlogs() == [0, 0, 11]


async def test_statistics_name_producers_and_consumers(open_broker: OpenBroker) -> None:
    async with open_broker() as running, connected(running.context) as (client,):
        admin = Admin(running)
        await admin("PUT", "/p/partitions", 2)
        for index in range(2):
            says = [pb.KeyValue(key="shop", value=f"Oslo {index}")]
            await client.producer(
                f"p-partition-{index}", index, producer_name=f"me-{index}", metadata=says
            )
            await client.subscribe(f"p-partition-{index}", index, metadata=says)
            await client.publish(b"x", b"y", producer_id=index)
            await client.take(2)
        status, document = await admin("GET", "/p-partition-1/stats")
        assert status == 200
        assert [each["producerName"] for each in document["publishers"]] == ["me-1"]
        consumers = document["subscriptions"]["s"]["consumers"]
        for group in (document["publishers"], consumers):
            assert [each["metadata"] for each in group] == [{"shop": "Oslo 1"}]
        assert document["subscriptions"]["s"]["msgBacklog"] == 2
        assert document["subscriptions"]["s"]["type"] == "Shared"
        assert document["msgInCounter"] == 2
        document = (await admin("GET", "/p/partitioned-stats"))[1]
        assert document["metadata"]["partitions"] == 2
        assert document["msgInCounter"] == 4
        assert document["subscriptions"]["s"]["msgBacklog"] == 4
        assert (len(document["publishers"]), len(document["partitions"])) == (1, 2)
        document = (await admin("GET", "/p-partition-0/internalStats"))[1]
        assert document["numberOfEntries"] == 2
        # Partitions are created together, and either may be the store's first topic.
        (ledger,) = [each["ledgerId"] for each in document["ledgers"]]
        assert ledger in {1, 1 + (1 << LOW_BITS)}
        assert document["lastConfirmedEntry"] == f"{ledger}:1"
        assert document["cursors"]["s"]["markDeletePosition"] == f"{ledger}:-1"
        assert len((await admin("GET", "/p/partitioned-internalStats"))[1]["partitions"]) == 2
        assert (await admin("GET", "/p/stats"))[0] == 404
        assert (await admin("DELETE", "/p"))[0] == 409
        for method, path in OF_WHOLE_TOPICS:
            assert (await admin(method, path, 3))[0] == 412
        assert (await admin("GET", "/none/stats"))[0] == 404
        for path, reason in (
            ("/p-partition-2/stats", "Topic partitions were not yet created"),
            ("/none-partition-0/stats", "has zero partitions"),
            ("/none/partitioned-stats", "Partitioned Topic persistent://public/default/none"),
        ):
            status, answer = await admin("GET", path)
            assert (status, reason in answer["reason"]) == (404, True)
        assert await admin("GET", "/p-partition-0/lastMessageId") == (
            200,
            {
                "ledgerId": ledger,
                "entryId": 1,
                "partitionIndex": 0,
                "batchIndex": -1,
                "batchSize": 0,
            },
        )


async def test_a_new_partition_has_subscriptions_with_their_properties(
    open_broker: OpenBroker,
) -> None:
    async with open_broker() as running, connected(running.context) as (client,):
        admin = Admin(running)
        await admin("PUT", "/p/partitions", 1)
        properties = [{"key": "e", "value": "f"}]
        await client.subscribe("p-partition-0", subscription_properties=properties)
        assert (await admin("POST", "/p/partitions", 2))[0] == 204
        document = (await admin("GET", "/p-partition-1/stats"))[1]
        assert document["subscriptions"]["s"]["subscriptionProperties"] == {"e": "f"}


async def test_what_a_reader_has_before_it_is_no_backlog_of_its_topic(
    open_broker: OpenBroker,
) -> None:
    async with open_broker() as running, connected(running.context) as (client,):
        admin = Admin(running)
        await client.producer("t")
        await client.subscribe("t", durable=False)
        await client.publish(b"x")
        await client.take(1)
        document = (await admin("GET", "/t/stats"))[1]
        (reader,) = document["subscriptions"].values()
        assert (reader["msgBacklog"], reader["backlogSize"] > 0) == (1, True)
        assert document["backlogSize"] == 0
        await admin("PUT", "/t/subscription/kept", "earliest")
        document = (await admin("GET", "/t/stats"))[1]
        assert document["backlogSize"] == reader["backlogSize"]


async def test_statistics_say_what_clients_say_of_themselves(open_broker: OpenBroker) -> None:
    async with open_broker() as running, connected(running.context, name="Lib 1") as (client,):
        await client.producer("t", 7, metadata=[{"key": "a", "value": "b"}])
        await client.subscribe(
            "t",
            consumer_name="me",
            metadata=[{"key": "c", "value": "d"}],
            subscription_properties=[{"key": "e", "value": "f"}],
        )
        await client.publish(b"x", producer_id=7)
        await client.publish(b"y", producer_id=7, first=1)
        await client.take(2)
        foreign = running.core.topics["persistent://public/default/t"].subscriptions["s"]
        attach(foreign, type=SubscriptionType.SHARED, name="by another context")
        document = (await Admin(running)("GET", "/t/stats"))[1]
        (publisher,) = document["publishers"]
        assert publisher["metadata"] == {"a": "b"}
        assert (publisher["producerId"], publisher["clientVersion"]) == (7, "Lib 1")
        subscription = document["subscriptions"]["s"]
        assert subscription["subscriptionProperties"] == {"e": "f"}
        assert (subscription["msgBacklog"], subscription["msgDelayed"]) == (2, 0)
        mine, other = subscription["consumers"]
        assert (mine["address"], mine["metadata"]) == ("/connection 0", {"c": "d"})
        assert other["consumerName"] == "by another context"
        assert "address" not in other
        datetime.fromisoformat(mine["connectedSince"])
        datetime.fromisoformat(publisher["connectedSince"])


async def test_of_two_creators_of_a_topic_one_succeeds(open_broker: OpenBroker) -> None:
    async with open_broker() as running, trio.open_nursery() as nursery:
        admin = Admin(running)
        got: list[int] = []

        async def make(count: int) -> None:
            got.append((await admin("PUT", "/t/partitions", count))[0])

        for count in (3, 4, 5):
            nursery.start_soon(make, count)
        while len(got) < 3:
            await trio.lowlevel.checkpoint()
        assert sorted(got) == [204, 409, 409]
        count = (await admin("GET", "/t/partitions"))[1]["partitions"]
        assert len(running.core.topics) == count


async def test_names_may_hold_what_paths_may_not(open_broker: OpenBroker) -> None:
    async with open_broker() as running:
        admin = Admin(running)
        name = "a%2Fb c?ü"
        assert (await admin("PUT", "/" + quote(name, safe="")))[0] == 204
        assert await admin("GET", "") == (200, [f"persistent://public/default/{name}"])


async def test_what_is_unknown_says_so_as_json(open_broker: OpenBroker) -> None:
    async with open_broker() as running:
        admin = Admin(running)
        for path, status in (("/admin/v2/nothing", 404), ("/x/stats/y", 404), ("/x/stats", 405)):
            got, document = await admin("PATCH", path)
            assert (got, bool(document["reason"])) == (status, True)
        assert (await admin("GET", "/admin/v2/brokers/health")) == (200, b"ok")
        assert (await admin("GET", "/admin/v2/clusters")) == (200, ["standalone"])
        assert (await admin("GET", "/admin/v2/clusters/other"))[0] == 404
        lookup = "/lookup/v2/topic/persistent/public/default/t"
        assert (await admin("GET", lookup))[0] == 503
        running.context.urls.plain = "pulsar://there:6650"
        assert (await admin("GET", lookup))[1]["brokerUrl"] == "pulsar://there:6650"
        assert (await admin("GET", lookup, listenerName="x"))[0] == 404


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("", ""),
        ("pulsar://there:6650", "pulsar://there:6650"),
        ("pulsar://0.0.0.0:6650", "pulsar://here:6650"),
        ("pulsar+ssl://[::]:6651", "pulsar+ssl://here:6651"),
    ],
)
async def test_a_lookup_over_http_is_answered_with_a_host(
    open_broker: OpenBroker, url: str, expected: str
) -> None:
    """That of the call, where a broker listens on every address that it has."""
    async with open_broker() as running:
        running.context.urls.plain = "pulsar://first:1"
        running.context.urls.tls = url
        path = "/lookup/v2/topic/persistent/public/default/t"
        status, document = await Admin(running)("GET", path)
        assert (status, document["brokerUrl"]) == (200, "pulsar://first:1")
        assert (document.get("brokerUrlTls", ""), document["brokerUrlSsl"]) == (expected, expected)
        _, cluster = await Admin(running)("GET", "/admin/v2/clusters/standalone")
        assert cluster.get("brokerServiceUrlTls", "") == expected


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("", "pulsar://localhost:6650"),
        ("broker", "pulsar://broker:6650"),
        ("[::1]:8080", "pulsar://[::1]:6650"),
    ],
)
def test_a_host_may_have_any_form(host: str, url: str) -> None:
    assert as_reached("pulsar://0.0.0.0:6650", host) == url


@pytest.mark.parametrize("address", ["127.0.0.1", "[::1]"])
@pytest.mark.parametrize(
    ("host", "named"),
    [("localhost:8443", True), ("LOCALHOST", True), ("127.0.0.1:8443", False), ("here", False)],
)
def test_a_caller_by_host_name_gets_the_host_name(address: str, host: str, named: bool) -> None:
    """A certificate for ``localhost`` is not one for its addresses."""
    url = f"pulsar+ssl://{address}:6651"
    assert as_reached(url, host) == ("pulsar+ssl://localhost:6651" if named else url)


async def test_only_a_partitioned_topic_can_lack_partitions(open_broker: OpenBroker) -> None:
    async with open_broker() as running:
        admin = Admin(running)
        await admin("PUT", "/whole")
        for path in ("/whole", "/nowhere"):
            status, document = await admin("POST", f"{path}/createMissedPartitions")
            assert status == 404
            assert document["reason"] == f"Topic persistent://public/default{path} does not exist"
        await admin("PUT", "/t/partitions", 2)
        await admin("DELETE", "/t-partition-1")
        assert (await admin("POST", "/t/createMissedPartitions"))[0] == 204
        assert (await admin("GET", "/t-partition-1/stats"))[0] == 200


async def test_a_failing_disk_is_said_and_nothing_is_made(open_broker: OpenBroker) -> None:
    async with open_broker() as running:
        admin = Admin(running)
        running.store.fail_until_healed()
        status, document = await admin("PUT", "/t/partitions", 2)
        assert (status, bool(document["reason"])) == (500, True)
        running.store.heal()
        assert (await admin("GET", "/t/partitions"))[0] == 404
        assert (await admin("PUT", "/t/partitions", 2))[0] == 204


def test_a_message_is_shown_with_what_is_known_of_it() -> None:
    metadata = pb.MessageMetadata(
        producer_name="p",
        sequence_id=7,
        publish_time=1_700_000_000_123,
        event_time=1,
        partition_key="k é",
        properties=[pb.KeyValue(key="ü", value="\n")],
    )
    body = join_body(metadata.SerializeToString(), b"payload")
    headers, payload = message_of(position_at(3, 4), EntryHeader(Origin.PULSAR).pack() + body)
    assert payload == b"payload"
    assert dict(headers) == {
        "X-Pulsar-Message-ID": "3:4",
        "X-Pulsar-publish-time": "2023-11-14T22:13:20.123Z",
        "X-Pulsar-event-time": "1970-01-01T00:00:00.001Z",
        "X-Pulsar-producer-name": "p",
        "X-Pulsar-sequence-id": "7",
        "X-Pulsar-partition-key": "k %C3%A9",
        "X-Pulsar-PROPERTY": '{"\\u00fc":"\\n"}',
        "X-Pulsar-Is-Encrypted": "false",
    }


@given(st.sampled_from(Origin), st.binary(max_size=60), st.integers(0, 1 << 63))
def test_any_entry_can_be_shown(origin: Origin, body: bytes, time_ms: int) -> None:
    metadata = pb.MessageMetadata(producer_name="p", sequence_id=1, publish_time=time_ms)
    for each in (body, join_body(metadata.SerializeToString(), body)):
        headers, _ = message_of(position_at(1, 1), EntryHeader(origin).pack() + each)
        for name, value in headers:
            assert (name + value).isascii()
            assert "\n" not in value


@pytest.mark.parametrize(
    ("method", "ending", "reason"),
    [
        ("DELETE", "", "Topic {} not found"),
        ("DELETE", "/partitions", "Topic {} not found."),
        ("GET", "/permissions", "Topic {} not found"),
        ("POST", "/permissions/someone", "Topic {} not found"),
        ("DELETE", "/permissions/someone", "Topic {} not found"),
        ("POST", "/trim", "Topic {} not found"),
        ("GET", "/stats", "Namespace not found"),
        ("PUT", "", "Namespace not found"),
    ],
)
async def test_where_no_namespace_is_some_calls_miss_the_topic_only(
    open_broker: OpenBroker, method: str, ending: str, reason: str
) -> None:
    async with open_broker() as running:
        path = f"/admin/v2/persistent/public/none/t{ending}"
        body = ["produce"] if method == "POST" else None
        expected = {"reason": reason.format("persistent://public/none/t")}
        assert await Admin(running)(method, path, body) == (404, expected)


@pytest.mark.parametrize(("domain", "shown"), [("persistent", -1), ("non-persistent", 0)])
async def test_a_topic_that_has_no_backlog_has_no_quota_of_it(
    open_broker: OpenBroker, domain: str, shown: int
) -> None:
    async with open_broker() as running:
        admin, path = Admin(running), f"/admin/v2/{domain}/public/default/t"
        await admin("PUT", path)
        document = (await admin("GET", f"{path}/stats"))[1]
        fields = ("backlogQuotaLimitSize", "backlogQuotaLimitTime")
        assert [document[each] for each in fields] == [shown, shown]
        assert document["oldestBacklogMessageAgeSeconds"] == shown
