"""Message ids of a topic that is not the first: calls take and give the ids that clients have."""

from typing import Any

import pytest
from tests.pulsar_frontend.admin_client import Admin
from tests.pulsar_frontend.conftest import OpenBroker, Running
from tests.pulsar_frontend.raw_client import RawClient, body_of, connected
from tests.pulsar_frontend.session.playbook import received

from arneb_core.api.subscriptions.subscription import Subscription
from arneb_pulsar.wire.proto.pulsar_pb2 import CommandSend, CommandSendReceipt

pytestmark = pytest.mark.real_time

FULL = "persistent://public/default/t"


async def later_topic(client: RawClient, admin: Admin) -> list[dict[str, int]]:
    """Have three messages in a topic that is not the first one, and return their ids."""
    await admin("PUT", "/a/subscription/s", "earliest")
    await admin("PUT", "/t/subscription/s", "earliest")
    await client.producer("t")
    ids = []
    for number in range(3):
        send = CommandSend(producer_id=1, sequence_id=number, num_messages=1)
        await client.stream.send_all(received(send, body=body_of(b"%d" % number)).data)
        place = (await client.expect(CommandSendReceipt)).message_id
        ids.append({"ledgerId": place.ledgerId, "entryId": place.entryId})
    assert ids[0]["ledgerId"] > 1 << 16
    return ids


def subscription_of(running: Running, name: str) -> Subscription:
    return running.core.topics[FULL].subscriptions[name]


def written(place: dict[str, int]) -> str:
    return f"{place['ledgerId']}:{place['entryId']}"


async def test_calls_take_them(open_broker: OpenBroker) -> None:
    async with open_broker() as running, connected(running.context) as (client,):
        admin = Admin(running)
        ids = await later_topic(client, admin)
        path = f"/t/ledger/{ids[1]['ledgerId']}/entry/1"
        assert await admin("GET", path) == (200, b"1")
        assert (await admin("GET", "/a" + path[2:]))[0] == 404
        await admin("PUT", "/t/subscription/later", ids[1])
        assert subscription_of(running, "later").statistics().backlog_entries == 2
        assert (await admin("POST", "/t/subscription/s/resetcursor", ids[2]))[0] == 204
        assert subscription_of(running, "s").statistics().backlog_entries == 1
        _, sizes = await admin("PUT", "/t/backlogSize", ids[0])
        _, last = await admin("PUT", "/t/backlogSize", ids[2])
        assert sizes == 3 * last
        _, found = await admin("POST", "/t/subscription/later/analyzeBacklog", ids[2])
        assert (found["entries"], found["firstMessageId"]) == (1, written(ids[2]))
        expire = "/t/subscription/later/expireMessages"
        assert (await admin("POST", expire, ids[1]))[0] == 204
        assert subscription_of(running, "later").statistics().backlog_entries == 1
        state = "/admin/v3/transactions/positionStatsInPendingAck/public/default/t/later/"
        asked = f"{state}{ids[1]['ledgerId']}/1"
        assert await admin("GET", asked) == (200, {"state": "MarkDelete"})


async def test_calls_give_them(open_broker: OpenBroker) -> None:
    async with open_broker() as running, connected(running.context) as (client,):
        admin = Admin(running)
        ids = await later_topic(client, admin)
        found: Any
        _, found = await admin("GET", "/t/lastMessageId")
        assert {name: found[name] for name in ids[2]} == ids[2]
        _, found = await admin("GET", "/t/messageid/0")
        assert {name: found[name] for name in ids[0]} == ids[0]
        await subscription_of(running, "s").skip_through(running.core.topics[FULL].first)
        _, found = await admin("GET", "/t/internalStats")
        assert found["lastConfirmedEntry"] == written(ids[2])
        assert [each["ledgerId"] for each in found["ledgers"]] == [ids[0]["ledgerId"]]
        cursor = found["cursors"]["s"]
        assert cursor["markDeletePosition"] == written(ids[0])
        _, found = await admin("GET", "/t/internal-info")
        assert [each["ledgerId"] for each in found["ledgers"]] == [ids[0]["ledgerId"]]
        assert found["cursors"]["s"]["markDelete"] == ids[0]
