"""Non-persistent topics: nothing is kept, and what nobody can take is gone."""

from typing import Any

import pytest
from tests.pulsar_frontend.admin_client import Admin
from tests.pulsar_frontend.conftest import OpenBroker, Running
from tests.pulsar_frontend.raw_client import RawClient, connected

from arneb_pulsar.wire.proto import pulsar_pb2 as pb
from arneb_pulsar.wire.proto.pulsar_pb2 import (
    CommandGetTopicsOfNamespace,
    CommandMessage,
    CommandSendReceipt,
    CommandSubscribe,
    CommandSuccess,
)

pytestmark = pytest.mark.real_time

NAME = "non-persistent://public/default/t"


async def publish(client: RawClient, *payloads: bytes, first: int = 0) -> None:
    """Send, and wait for the receipts, which come whether anybody is there or not."""
    await client.publish(*payloads, first=first)
    for index in range(len(payloads)):
        assert (await client.expect(CommandSendReceipt)).sequence_id == first + index


def kept(running: Running) -> int:
    """Entries that are in memory."""
    return len(running.core.topics[NAME].log.tail)


async def payloads(client: RawClient, count: int) -> list[bytes]:
    got: list[bytes] = []
    for command, body in await client.take(count):
        assert isinstance(command, CommandMessage)
        got.append(body[-1:])
    return got


@pytest.mark.parametrize("kind", [CommandSubscribe.Exclusive, CommandSubscribe.Shared])
async def test_only_consumers_with_permits_get_messages(open_broker: OpenBroker, kind: Any) -> None:
    async with open_broker() as running, connected(running.context, 2) as (sender, taker):
        await sender.producer(NAME)
        await publish(sender, b"0")
        earliest = CommandSubscribe.Earliest
        await taker.subscribe(NAME, subType=kind, initialPosition=earliest)
        await publish(sender, b"1", first=1)
        await taker.flow(2)
        assert await taker.silent()
        await publish(sender, b"2", first=2)
        await publish(sender, b"3", b"4", b"5", first=3)
        assert await payloads(taker, 2) == [b"2", b"3"]
        await taker.flow(1)
        assert await taker.silent()
        await publish(sender, b"6", first=6)
        assert await payloads(taker, 1) == [b"6"]
        figures = running.core.topics[NAME].subscriptions["s"].statistics()
        assert (figures.backlog_entries, figures.in_flight_messages) == (0, 0)
        assert kept(running) == 0


async def test_a_large_burst_reaches_consumers_with_permits(open_broker: OpenBroker) -> None:
    async with open_broker() as running, connected(running.context, 2) as (sender, taker):
        await sender.producer(NAME)
        await taker.subscribe(NAME)
        await taker.flow(10_000)
        await sender.publish(*(b"x" for _ in range(6_000)))
        assert len(await taker.take(6_000)) == 6_000
        assert kept(running) == 0


async def test_a_burst_is_shared_entry_by_entry(open_broker: OpenBroker) -> None:
    async with open_broker() as running, connected(running.context, 3) as (sender, one, two):
        await sender.producer(NAME)
        for taker in (one, two):
            await taker.subscribe(NAME, subType=CommandSubscribe.Shared)
            await taker.flow(10)
        await sender.publish(*(b"%d" % number for number in range(6)))
        assert await payloads(one, 3) == [b"0", b"2", b"4"]
        assert await payloads(two, 3) == [b"1", b"3", b"5"]


async def test_what_no_consumer_could_take_is_counted_as_dropped(open_broker: OpenBroker) -> None:
    async with open_broker() as running, connected(running.context, 2) as (sender, taker):
        admin, path = Admin(running), "/admin/v2/non-persistent/public/default/t/stats"
        await sender.producer(NAME)
        await taker.subscribe(NAME)
        await publish(sender, b"1", b"2", b"3")
        await running.context.rates.sample()
        document = (await admin("GET", path))[1]
        shown = document["subscriptions"]["s"]
        assert shown["msgDropRate"] > 0
        known = running.context.rates.known(
            running.core.topics[NAME], running.core.topics[NAME].subscriptions["s"]
        )
        assert known is not None
        assert known.meter.rates[-2:] == (0, shown["msgDropRate"])
        assert (shown["msgRateExpired"], shown["totalMsgExpired"]) == (0, 0)
        assert shown["lastExpireTimestamp"] == 0
        assert (document["msgDropRate"], document["publishers"][0]["msgDropRate"]) == (0, 0)
        await running.context.rates.sample()
        document = (await admin("GET", path))[1]
        assert document["subscriptions"]["s"]["msgDropRate"] == 0


async def test_nothing_comes_back(open_broker: OpenBroker) -> None:
    async with open_broker() as running, connected(running.context, 2) as (sender, taker):
        await sender.producer(NAME)
        await taker.subscribe(NAME)
        await taker.flow(10)
        await publish(sender, b"1")
        await payloads(taker, 1)
        await taker.send(pb.CommandRedeliverUnacknowledgedMessages(consumer_id=1))
        assert await taker.silent()
    async with open_broker() as running:
        assert not running.core.topics


async def test_they_are_listed_by_themselves(open_broker: OpenBroker) -> None:
    async with open_broker() as running, connected(running.context) as (client,):
        admin = Admin(running)
        await client.producer(NAME)
        await client.producer("p", 2)
        persistent, both = (
            ["persistent://public/default/p"],
            [NAME, "persistent://public/default/p"],
        )
        for mode, names in (
            (CommandGetTopicsOfNamespace.PERSISTENT, persistent),
            (CommandGetTopicsOfNamespace.NON_PERSISTENT, [NAME]),
            (CommandGetTopicsOfNamespace.ALL, both),
        ):
            command = CommandGetTopicsOfNamespace(
                request_id=1, namespace="public/default", mode=mode
            )
            await client.send(command)
            assert list((await client.reply())[0].topics) == names
        listing = "/admin/v2/non-persistent/public/default"
        assert await admin("GET", listing) == (200, [NAME])
        assert await admin("GET", "") == (200, persistent)
        assert (await admin("GET", f"{listing}/t/stats"))[1]["publishers"]
        assert (await admin("PUT", f"{listing}/p/partitions", 2))[0] == 204
        assert isinstance(await client.subscribe(NAME), CommandSuccess)
        assert (await admin("GET", f"{listing}/p/partitions"))[1]["partitions"] == 2
        assert (await admin("GET", "/p/partitions"))[1]["partitions"] == 0


async def test_administrators_find_nothing_to_look_at(open_broker: OpenBroker) -> None:
    async with open_broker() as running, connected(running.context, 2) as (sender, taker):
        admin = Admin(running)
        root = "/admin/v2/non-persistent/public/default/t"
        await sender.producer(NAME)
        await taker.subscribe(NAME)
        await taker.flow(2)
        await publish(sender, b"1", b"2", b"3")
        await payloads(taker, 2)
        assert (await admin("GET", f"{root}/internalStats"))[0] == 200
        assert (await admin("GET", f"{root}/stats"))[1]["subscriptions"]["s"]["msgBacklog"] == 0
        for path, status in (
            ("subscription/s/position/1", 405),
            ("examinemessage", 405),
            ("ledger/1/entry/0", 404),
        ):
            assert (await admin("GET", f"{root}/{path}"))[0] == status
        for method, path, status in (
            ("POST", "subscription/s/skip_all", 204),
            ("POST", "subscription/s/skip/5", 204),
            ("POST", "subscription/s/expireMessages/1", 405),
            ("POST", "all_subscription/expireMessages/1", 405),
            ("PUT", "subscription/other", 400),
            ("POST", "subscription/s/resetcursor/0", 204),
            ("DELETE", "truncate", 412),
            ("GET", "subscription/s/replicatedSubscriptionStatus", 405),
        ):
            assert (await admin(method, f"{root}/{path}"))[0] == status
        assert (await admin("PUT", f"{root}/compaction"))[0] == 405
        await taker.reply()
        await taker.subscribe(NAME, 2)
        await taker.flow(5, 2)
        assert await taker.silent()
        await publish(sender, b"4", first=3)
        assert await payloads(taker, 1) == [b"4"]


async def test_an_initial_subscription_is_not_made(open_broker: OpenBroker) -> None:
    """There is no first message that could wait for somebody; nor does it matter whether it may
    be made."""
    settings = {"allow_auto_subscription_creation": False}
    async with open_broker(**settings) as running, connected(running.context) as (client,):
        answer = await client.producer(NAME, initial_subscription_name="keep")
        assert isinstance(answer, pb.CommandProducerSuccess)
        assert not running.core.topics[NAME].subscriptions
