"""What is asked of one log, and what of it is shown: partitioned topics and such that keep nothing
refuse it."""

from typing import Any

import pytest
from tests.pulsar_frontend.admin_client import Admin
from tests.pulsar_frontend.conftest import OpenBroker
from tests.pulsar_frontend.raw_client import connected

from arneb_pulsar.wire.proto import pulsar_pb2 as pb

pytestmark = pytest.mark.real_time

PLACE = {"ledgerId": 1, "entryId": 0, "partitionIndex": -1}

OF_ONE_PARTITION = (
    ("POST", "/subscription/s/skip/1", None, "Skip messages on a partitioned topic"),
    ("POST", "/subscription/s/resetcursor", PLACE, "Reset-cursor at position is not allowed for"),
    ("POST", "/subscription/s/expireMessages", PLACE, "Expire message at position is not supp"),
    ("POST", "/subscription/s/analyzeBacklog", None, "Analyze backlog on a partitioned topic"),
    ("GET", "/subscription/s/position/1", None, "Peek messages on a partitioned topic"),
    ("GET", "/examinemessage", None, "Examine messages on a partitioned topic is not allowed, pl"),
    ("GET", "/ledger/1/entry/0", None, "GetMessageById is not allowed on partitioned-topic"),
    ("GET", "/messageid/0", None, "Get message ID by timestamp on a partitioned topic is not"),
    ("PUT", "/backlogSize", PLACE, "calculate backlog size is not allowed for partitioned-topic"),
    ("POST", "/terminate", None, "Termination of a partitioned topic is not allowed"),
)

OF_A_LOG = (
    ("GET", "/subscription/s/position/1", None, "Peek messages on a non-persistent topic"),
    ("GET", "/examinemessage", None, "Examine messages on a non-persistent topic"),
    ("GET", "/messageid/0", None, "Get message ID by timestamp on a non-persistent topic"),
    ("GET", "/lastMessageId", None, "GetLastMessageId on a non-persistent topic"),
)


@pytest.mark.parametrize(("method", "path", "body", "reason"), OF_ONE_PARTITION)
async def test_all_partitions_together_are_refused(
    open_broker: OpenBroker, method: str, path: str, body: Any, reason: str
) -> None:
    async with open_broker() as running:
        admin = Admin(running)
        await admin("PUT", "/p/partitions", 2)
        await admin("PUT", "/p/subscription/s", "earliest")
        status, answer = await admin(method, "/p" + path, body)
        assert (status, answer["reason"][: len(reason)]) == (405, reason)


async def test_cursors_have_the_names_of_subscriptions_as_java_encodes_them(
    open_broker: OpenBroker,
) -> None:
    async with open_broker() as running:
        admin = Admin(running)
        await admin("PUT", "/t/subscription/a%20b%2F%26*~", "earliest")
        for path in ("/t/internalStats", "/t/internal-info"):
            status, found = await admin("GET", path)
            assert (status, list(found["cursors"])) == (200, ["a+b%2F%26*%7E"])


async def test_where_an_empty_topic_ends_is_where_its_subscriptions_begin(
    open_broker: OpenBroker,
) -> None:
    async with open_broker() as running:
        admin = Admin(running)
        await admin("PUT", "/t/subscription/s", "earliest")
        status, found = await admin("GET", "/t/internalStats")
        assert status == 200
        assert found["lastConfirmedEntry"] == found["cursors"]["s"]["markDeletePosition"] == "1:-1"
        path = "/admin/v3/transactions/transactionBufferStats/public/default/t"
        status, found = await admin("GET", path)
        assert (status, found["maxReadPosition"]) == (200, "1:-1")


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/properties", None),
        ("PUT", "/properties", {"k": "v"}),
        ("DELETE", "/properties", None),
        ("POST", "/terminate", None),
        ("POST", "/terminate/partitions", None),
    ],
)
async def test_calls_for_persistent_topics_accept_no_other(
    open_broker: OpenBroker, method: str, path: str, body: Any
) -> None:
    root = "/admin/v2/non-persistent/public/default"
    async with open_broker() as running:
        admin = Admin(running)
        await admin("PUT", f"{root}/t")
        await admin("PUT", f"{root}/p/partitions", 2)
        for name in ("t", "p", "not-there"):
            refused = (406, {"reason": "Need to provide a persistent topic name"})
            assert await admin(method, f"{root}/{name}{path}", body) == refused


async def test_a_topic_that_keeps_nothing_has_policies_while_it_is_used(
    open_broker: OpenBroker,
) -> None:
    root, name = "/admin/v2/non-persistent/public/default", "non-persistent://public/default/t"
    async with open_broker() as running, connected(running.context) as (client,):
        admin = Admin(running)
        await admin("PUT", f"{root}/t")
        await admin("PUT", f"{root}/p/partitions", 2)
        assert (await admin("POST", f"{root}/p/maxProducers", 3))[0] == 204
        missing = (404, {"reason": f"Topic {name} not found"})
        assert await admin("POST", f"{root}/t/maxProducers", 3) == missing
        assert await admin("GET", f"{root}/t/backlogQuotaMap") == missing
        await client.subscribe(name)
        assert (await admin("POST", f"{root}/t/maxProducers", 3))[0] == 204
        await client.send(pb.CommandCloseConsumer(consumer_id=1, request_id=8))
        await client.reply()
        assert await admin("GET", f"{root}/t/maxProducers") == missing
        await client.producer(name)
        assert await admin("GET", f"{root}/t/maxProducers") == (200, 3)


@pytest.mark.parametrize(("method", "path", "body", "reason"), OF_A_LOG)
async def test_what_keeps_nothing_is_refused(
    open_broker: OpenBroker, method: str, path: str, body: Any, reason: str
) -> None:
    topic = "/admin/v2/non-persistent/public/default/t"
    async with open_broker() as running, connected(running.context) as (client,):
        admin = Admin(running)
        assert (await admin(method, topic + path, body))[0] == 404
        await client.producer("non-persistent://public/default/t")
        status, answer = await admin(method, topic + path, body)
        assert (status, answer["reason"][: len(reason)]) == (405, reason)
