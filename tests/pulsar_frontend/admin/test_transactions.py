"""Transactions as operators see them, over a real core."""

from typing import Any

import pytest
from tests.pulsar_frontend.admin_client import PERSISTENT, Admin
from tests.pulsar_frontend.conftest import OpenBroker
from tests.pulsar_frontend.raw_client import RawClient, body_of, connected
from tests.pulsar_frontend.server.transacting import Refused, acknowledge, add, begin, end, send
from tests.pulsar_frontend.session.playbook import received

from arneb_pulsar.admin.api import answer
from arneb_pulsar.wire.proto import pulsar_pb2 as pb

pytestmark = pytest.mark.real_time

ROOT = "/admin/v3/transactions"
TOPIC = "public/default/t"
FULL = f"persistent://{TOPIC}"


async def working(client: RawClient) -> list[Any]:
    """Messages of a topic, which somebody consumes, and who can send more."""
    await client.producer()
    await client.publish(b"|1", b"|2", b"|3")
    await client.take(3)
    kinds = pb.CommandSubscribe
    await client.subscribe(initialPosition=kinds.Earliest, subType=kinds.Exclusive)
    await client.flow(3)
    return [command.message_id for command, _ in await client.take(3)]


def id_of(transaction: Any) -> str:
    return f"{transaction.txnid_most_bits}/{transaction.txnid_least_bits}"


async def test_an_idle_coordinator(open_broker: OpenBroker) -> None:
    async with open_broker() as running:
        admin = Admin(running)
        assert (await admin("GET", f"{ROOT}/coordinators"))[1][0]["id"] == 0
        status, found = await admin("GET", f"{ROOT}/coordinatorStats")
        assert (status, found["0"]["state"], found["0"]["ongoingTxnSize"]) == (200, "Ready", 0)
        assert (await admin("GET", f"{ROOT}/coordinatorStats", coordinatorId="1"))[0] == 404
        assert (await admin("GET", f"{ROOT}/coordinatorInternalStats/1"))[0] == 404
        assert (await admin("GET", f"{ROOT}/slowTransactions/0")) == (200, {})
        assert (await admin("GET", f"{ROOT}/transactionMetadata/0/1"))[0] == 404
        assert (await admin("POST", f"{ROOT}/abortTransaction/0/1"))[0] == 404
        statuses = [
            (await admin("POST", f"{ROOT}/transactionCoordinator/replicas", each))[0]
            for each in (1, 2, "x")
        ]
        assert statuses == [406, 501, 400]


async def test_what_an_open_one_has_done(open_broker: OpenBroker) -> None:
    async with open_broker() as running, connected(running.context) as (client,):
        admin = Admin(running)
        ids = await working(client)
        transaction = await begin(client, 60_000)
        await add(client, transaction, FULL)
        (receipt,) = await send(client, transaction, b"|4", first=3)
        await acknowledge(client, transaction, ids[1], cumulative=True)
        start = f"{receipt.message_id.ledgerId}:{receipt.message_id.entryId}"
        end_of_acks = f"{ids[1].ledgerId}:{ids[1].entryId}"
        status, found = await admin("GET", f"{ROOT}/transactionMetadata/{id_of(transaction)}")
        _, stats = await admin("GET", f"/admin/v2/persistent/{TOPIC}/stats")
        assert stats["ongoingTxnCount"] == 1
        assert (status, found["status"], found["timeoutAt"]) == (200, "OPEN", 60_000)
        assert found["txnId"] == f"({id_of(transaction)})".replace("/", ",")
        in_buffer = {"startPosition": start, "aborted": False}
        in_acks = {"cumulativeAckPosition": end_of_acks}
        assert found["producedPartitions"] == {FULL: in_buffer}
        assert found["ackedPartitions"] == {FULL: {"s": in_acks}}
        _, slow = await admin("GET", f"{ROOT}/slowTransactions/59999")
        assert slow == {found["txnId"]: found}
        assert await admin("GET", f"{ROOT}/slowTransactions/60000") == (200, {})
        _, stats = await admin("GET", f"{ROOT}/coordinatorStats", coordinatorId="0")
        assert stats["ongoingTxnSize"] == 1
        assert stats["leastSigBits"] == transaction.txnid_least_bits
        assert stats["lowWaterMark"] == transaction.txnid_least_bits - 1
        ours = f"{TOPIC}/s"
        for path, expected in (
            (f"transactionInBufferStats/{TOPIC}/{id_of(transaction)}", in_buffer),
            (f"transactionInPendingAckStats/{ours}/{id_of(transaction)}", in_acks),
        ):
            assert await admin("GET", f"{ROOT}/{path}") == (200, expected)
        for path in (f"transactionBufferStats/{TOPIC}", f"pendingAckStats/{ours}"):
            status, found = await admin("GET", f"{ROOT}/{path}", lowWaterMarks="true")
            assert (status, found["ongoingTxnSize"], found["lowWaterMarks"]) == (200, 1, {})
        states = [
            (await admin("GET", f"{ROOT}/positionStatsInPendingAck/{ours}/{each}"))[1]["state"]
            for each in (f"{ids[0].ledgerId}/{ids[0].entryId}", f"{ids[2].ledgerId}/2", "-1/0")
        ]
        assert states == ["PendingAck", "NotInPendingAck", "InvalidPosition"]
        for path in ("coordinatorInternalStats/0", f"pendingAckInternalStats/{ours}"):
            (log,) = (await admin("GET", f"{ROOT}/{path}"))[1].values()
            assert log["managedLedgerInternalStats"]["numberOfEntries"] == 3
        assert (await admin("GET", f"{ROOT}/transactionBufferInternalStats/{TOPIC}"))[0] == 404
        await end(client, transaction, commit=True)
        _, stats = await admin("GET", f"/admin/v2/persistent/{TOPIC}/stats")
        assert [stats[f"{each}TxnCount"] for each in ("ongoing", "committed", "aborted")] == [
            0,
            1,
            0,
        ]
        path = f"{ROOT}/positionStatsInPendingAck/{ours}/{ids[1].ledgerId}/{ids[1].entryId}"
        assert (await admin("GET", path))[1] == {"state": "MarkDelete"}


async def test_the_log_of_open_ones_is_in_no_tenant(open_broker: OpenBroker) -> None:
    async with open_broker() as running, connected(running.context) as (client,):
        admin = Admin(running)
        before = await admin("GET", "/admin/v2/tenants")
        await working(client)
        await send(client, await begin(client), b"|4", first=3)
        assert running.context.transactions.held.is_there
        assert await admin("GET", "/admin/v2/tenants") == before


async def test_one_that_was_left_open_can_be_aborted(open_broker: OpenBroker) -> None:
    async with open_broker() as running, connected(running.context) as (client,):
        admin = Admin(running)
        ids = await working(client)
        transaction = await begin(client)
        await acknowledge(client, transaction, ids[0])
        path = f"{ROOT}/abortTransaction/{id_of(transaction)}"
        assert await admin("POST", path) == (204, b"")
        assert await admin("POST", path) == (204, b"")
        with pytest.raises(Refused):
            await end(client, transaction, commit=True)
        found = await admin("GET", f"{ROOT}/transactionInBufferStats/{TOPIC}/{id_of(transaction)}")
        assert found == (200, {"startPosition": None, "aborted": True})


async def test_peeking_shows_uncommitted_messages_marked_as_such(open_broker: OpenBroker) -> None:
    async with open_broker() as running, connected(running.context) as (client,):
        await working(client)
        one, two = await begin(client), await begin(client)
        await send(client, one, b"|one", first=3)
        await send(client, two, b"|two", first=4)
        await send(client, one, b"|three", first=5)

        async def peek(count: int) -> tuple[int, bytes, str, str]:
            path = f"{PERSISTENT}/t/subscription/s/position/{count}"
            reply = await answer(running.context, "GET", path, {}, b"", "here")
            headers = dict(reply.headers)
            marks = [
                headers.get(f"X-Pulsar-txn{each}", "") for each in ("-uncommitted", "id-least-bits")
            ]
            return (reply.status, reply.body[-4:], *marks)

        assert await peek(3) == (200, b"|3", "false", "")
        first, second = (str(each.txnid_least_bits) for each in (one, two))
        assert await peek(4) == (200, b"|one", "true", first)
        assert await peek(5) == (200, b"|two", "true", second)
        assert (await peek(6))[1:] == (b"hree", "true", first)
        assert (await peek(7))[0] == 404
        await end(client, one, commit=False)
        assert await peek(4) == (200, b"|two", "true", second)
        await end(client, two, commit=True)
        assert await peek(4) == (200, b"|two", "false", "")
        assert (await peek(5))[0] == 404


async def test_how_far_one_has_acknowledged_within_a_batch(open_broker: OpenBroker) -> None:
    async with open_broker() as running, connected(running.context) as (client,):
        admin = Admin(running)
        await client.producer()
        batch = pb.CommandSend(producer_id=1, sequence_id=0, num_messages=4)
        body = body_of(b"|batch", num_messages_in_batch=4)
        await client.stream.send_all(received(batch, body=body).data)
        await client.expect(pb.CommandSendReceipt)
        kinds = pb.CommandSubscribe
        await client.subscribe(initialPosition=kinds.Earliest, subType=kinds.Exclusive)
        await client.flow(4)
        ((command, _),) = await client.take(1)
        place, transaction = command.message_id, await begin(client)
        until = pb.MessageIdData(
            ledgerId=place.ledgerId, entryId=place.entryId, ack_set=[0b1000], batch_size=4
        )
        await acknowledge(client, transaction, until, cumulative=True)
        path = f"{ROOT}/transactionInPendingAckStats/{TOPIC}/s/{id_of(transaction)}"
        end_of_acks = f"{place.ledgerId}:{place.entryId}:2"
        assert await admin("GET", path) == (200, {"cumulativeAckPosition": end_of_acks})
