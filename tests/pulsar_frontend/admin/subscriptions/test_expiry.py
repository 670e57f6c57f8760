"""Expiry on request: what is old enough goes, and a subscription without any is refused."""

import json
from typing import Any

import pytest
from tests.pulsar_frontend.admin_client import Admin
from tests.pulsar_frontend.conftest import OpenBroker, Running
from tests.pulsar_frontend.raw_client import RawClient, connected

from arneb_core.api.entries.position import position_at
from arneb_pulsar.admin.subscriptions.expiry import ALMOST_CAUGHT_UP

pytestmark = pytest.mark.real_time

PATH = "/t/subscription/{}/expireMessages"
LONG_AGO = "/-10"
"""Whatever was published before ten seconds from now."""


def backlog(running: Running, subscription: str) -> int:
    topic = running.core.topics["persistent://public/default/t"]
    return topic.subscriptions[subscription].statistics().backlog_entries


async def topic_with(client: RawClient, admin: Admin, count: int, *subscriptions: str) -> None:
    """The topic, with so many entries before each subscription."""
    await admin("PUT", "/t")
    for each in subscriptions:
        await admin("PUT", f"/t/subscription/{each}", "earliest")
    await client.producer("t")
    await client.publish(*(b"%d" % number for number in range(count)))
    await client.take(count)


async def test_a_subscription_with_nothing_to_expire_is_a_conflict_and_the_others_expire(
    open_broker: OpenBroker,
) -> None:
    async with open_broker() as running, connected(running.context) as (client,):
        admin = Admin(running)
        await topic_with(client, admin, 10, "s", "amqp")
        await admin("PUT", "/t/subscription/late")
        assert (await admin("POST", PATH.format("s") + "/3600"))[0] == 204
        assert (await admin("POST", PATH.format("late") + LONG_AGO))[0] == 409
        assert backlog(running, "s") == 10
        assert (await admin("POST", "/t/all_subscription/expireMessages" + LONG_AGO))[0] == 409
        assert (backlog(running, "s"), backlog(running, "amqp")) == (0, 10)
        figures = (await admin("GET", "/t/stats"))[1]["subscriptions"]["s"]
        assert (figures["totalMsgExpired"], figures["lastExpireTimestamp"] > 0) == (10, True)
        assert (await admin("POST", PATH.format("none") + LONG_AGO))[0] == 404


async def test_to_live_for_no_time_is_to_live_for_ever(open_broker: OpenBroker) -> None:
    async with open_broker() as running, connected(running.context) as (client,):
        admin = Admin(running)
        await topic_with(client, admin, 3, "s")
        assert (await admin("POST", PATH.format("s") + "/0"))[0] == 204
        assert backlog(running, "s") == 3


@pytest.mark.parametrize(
    ("count", "seconds", "status", "left"),
    [
        (3, 3600, 409, 3),
        (3, -10, 204, 0),
        (3, 0, 409, 3),
        (ALMOST_CAUGHT_UP, 3600, 204, ALMOST_CAUGHT_UP),
    ],
)
async def test_consumers_that_are_about_to_read_the_rest_are_a_conflict(
    open_broker: OpenBroker, count: int, seconds: int, status: int, left: int
) -> None:
    async with open_broker() as running, connected(running.context) as (client,):
        admin = Admin(running)
        await topic_with(client, admin, count, "s")
        await client.subscribe("t", subscription="s")
        assert (await admin("POST", f"{PATH.format('s')}/{seconds}"))[0] == status
        assert backlog(running, "s") == left


async def test_every_partition_is_expired_before_one_is_complained_of(
    open_broker: OpenBroker,
) -> None:
    async with open_broker() as running, connected(running.context) as (client,):
        admin = Admin(running)
        await admin("PUT", "/p/partitions", 2)
        await admin("PUT", "/p/subscription/s", "earliest")
        await client.producer("p-partition-1")
        await client.publish(b"x")
        await client.take(1)
        status, found = await admin("POST", "/p/subscription/s/expireMessages" + LONG_AGO)
        assert (status, "p-partition-0" in str(found)) == (409, True)
        topic = running.core.topics["persistent://public/default/p-partition-1"]
        assert topic.subscriptions["s"].statistics().backlog_entries == 0
        place = {"ledgerId": 1, "entryId": 0}
        assert (await admin("POST", "/p/subscription/s/expireMessages", place))[0] == 405


@pytest.mark.parametrize(
    ("place", "status", "left"),
    [
        ({"ledgerId": 1, "entryId": 1}, 204, 1),
        ({"ledgerId": 1, "entryId": 1, "excluded": True}, 204, 2),
        ({"ledgerId": 1, "entryId": 2, "partitionIndex": -1}, 204, 0),
        ({"ledgerId": 1, "entryId": 3}, 409, 3),
        ({"ledgerId": -1, "entryId": -1}, 204, 3),
        ({"ledgerId": 1, "entryId": 1, "partitionIndex": 4}, 412, 3),
        ({"ledgerId": 1, "entryId": 1, "partitionIndex": "x"}, 400, 3),
        ({"ledgerId": "x"}, 400, 3),
        ([], 400, 3),
    ],
)
async def test_up_to_a_message_that_is_there(
    open_broker: OpenBroker, place: Any, status: int, left: int
) -> None:
    async with open_broker() as running, connected(running.context) as (client,):
        admin = Admin(running)
        await topic_with(client, admin, 3, "s")
        assert (await admin("POST", PATH.format("s"), place))[0] == status, json.dumps(place)
        assert backlog(running, "s") == left


async def test_of_a_topic_without_messages_there_is_none_to_name(open_broker: OpenBroker) -> None:
    async with open_broker() as running:
        admin = Admin(running)
        await admin("PUT", "/t")
        await admin("PUT", "/t/subscription/s")
        place = {"ledgerId": 1, "entryId": 0}
        assert running.core.topics["persistent://public/default/t"].last in (
            None,
            position_at(1, -1),
        )
        assert (await admin("POST", PATH.format("s"), place))[0] == 409
        assert (await admin("POST", PATH.format("s") + "/" + "9" * 19))[0] == 409
