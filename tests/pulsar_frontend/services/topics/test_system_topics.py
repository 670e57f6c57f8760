"""Topics that Apache Pulsar makes for itself: lists leave them out unless asked, and those of
transactions nobody uses."""

import pytest
from tests.pulsar_frontend.admin_client import PERSISTENT, Admin
from tests.pulsar_frontend.conftest import OpenBroker
from tests.pulsar_frontend.raw_client import connected

from arneb_pulsar.names import is_system_name, parse_topic
from arneb_pulsar.wire.proto import pulsar_pb2 as pb

pytestmark = pytest.mark.real_time

EVENTS = "persistent://public/default/__change_events"


async def test_a_lookup_finds_a_system_topic_and_no_listing_has_it(
    open_broker: OpenBroker,
) -> None:
    async with (
        open_broker(max_topics_per_namespace=1) as running,
        connected(running.context) as (client,),
    ):
        admin = Admin(running)
        watch = pb.CommandWatchTopicList(
            request_id=7, watcher_id=1, namespace="public/default", topics_pattern=".*"
        )
        await client.send(watch)
        assert not (await client.reply())[0].topic
        await client.producer("__change_events", 1)
        assert isinstance(await client.producer("t", 2), pb.CommandWatchTopicUpdate)
        await client.send(pb.CommandGetTopicsOfNamespace(request_id=8, namespace="public/default"))
        found = [(await client.reply())[0] for _ in range(2)][-1]
        plain = ["persistent://public/default/t"]
        assert list(found.topics) == plain
        namespace = "/admin/v2/namespaces/public/default/topics"
        for path in (PERSISTENT, namespace):
            assert await admin("GET", path) == (200, plain)
            asked = await admin("GET", path, includeSystemTopic="true")
            assert asked == (200, [EVENTS, *plain])


@pytest.mark.parametrize(
    "name",
    [
        "persistent://public/default/t-s__transaction_pending_ack",
        "persistent://public/default/t-s__transaction_pending_ack-partition-3",
        "persistent://pulsar/system/__transaction_log_0",
        "persistent://pulsar/system/transaction_coordinator_assign-partition-0",
    ],
)
async def test_system_topics_of_transactions_are_refused(
    open_broker: OpenBroker, name: str
) -> None:
    async with (
        open_broker(namespaces=("public/default", "pulsar/system")) as running,
        connected(running.context) as (client,),
    ):
        for answer in (await client.producer(name), await client.subscribe(name)):
            assert (type(answer), answer.error) == (pb.CommandError, pb.NotAllowedError)
        path = "/admin/v2/" + name.replace("://", "/")
        assert (await Admin(running)("PUT", path))[0] in (400, 412)
        assert not running.core.topics


def test_names_are_distinguished() -> None:
    for local in ("__change_events", "__transaction_buffer_snapshot_indexes-partition-1"):
        assert is_system_name(f"persistent://public/default/{local}")
    for local in ("t", "__consumer_offsets", "my__change_events", "__change_events_2"):
        name = f"persistent://public/default/{local}"
        assert not is_system_name(name)
        assert not parse_topic(name).is_internal
