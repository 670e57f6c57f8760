"""Subscriptions moved by message ids: to an entry, to a message of a batch, or after it."""

from typing import Any

import pytest
from tests.pulsar_frontend.admin_client import Admin
from tests.pulsar_frontend.conftest import OpenBroker
from tests.pulsar_frontend.raw_client import body_of, connected
from tests.pulsar_frontend.session.playbook import received

from arneb_pulsar.wire.proto import pulsar_pb2 as pb
from arneb_pulsar.wire.proto.pulsar_pb2 import CommandSend, CommandSendReceipt

pytestmark = pytest.mark.real_time


@pytest.mark.parametrize(
    ("beyond", "entry", "left"),
    [
        ({}, 1, None),
        ({"batchIndex": 0}, 1, None),
        ({"batchIndex": 1}, 1, 0b110),
        ({"batchIndex": 1, "excluded": True}, 1, 0b100),
        ({"batchIndex": 2, "excluded": True}, 2, None),
        ({"batchIndex": 9}, 2, None),
        ({"excluded": True}, 2, None),
        ({"excluded": None, "isExcluded": True}, 1, None),
        ({"entryId": 0, "batchIndex": 4}, 0, None),
        ({"entryId": 0, "batchIndex": 4, "excluded": True}, 1, None),
        ({"entryId": 7, "batchIndex": 1, "excluded": True}, 3, None),
        ({"ledgerId": -1, "entryId": -1, "batchIndex": 2, "excluded": True}, 0, None),
    ],
)
async def test_a_subscription_is_moved_to_a_message_of_a_batch_or_after_it(
    open_broker: OpenBroker, beyond: dict[str, Any], entry: int, left: int | None
) -> None:
    async with open_broker() as running, connected(running.context) as (client,):
        admin = Admin(running)
        await admin("PUT", "/t/subscription/s", "earliest")
        await client.producer("t")
        for size in (1, 3, 1):
            send = CommandSend(producer_id=1, sequence_id=0, num_messages=size)
            body = body_of(b"x", num_messages_in_batch=size)
            await client.stream.send_all(received(send, body=body).data)
            await client.expect(CommandSendReceipt)
        place = {"ledgerId": 1, "entryId": 1} | beyond
        assert (await admin("POST", "/t/subscription/s/resetcursor", place))[0] == 204
        topic = running.core.topics["persistent://public/default/t"]
        subscription = topic.subscriptions["s"]
        assert subscription.statistics().backlog_entries == 3 - entry
        assert list(subscription.masks.values()) == ([] if left is None else [left])
        for wrong in ({"batchIndex": "x"}, {"excluded": 2.5}):
            refused = {"ledgerId": 1, "entryId": 1} | wrong
            assert (await admin("POST", "/t/subscription/s/resetcursor", refused))[0] == 400


async def test_a_consumer_that_attaches_during_a_reset_is_refused(open_broker: OpenBroker) -> None:
    async with open_broker() as running, connected(running.context) as (client,):
        admin, fenced = Admin(running), "Failed to fence subscription"
        await client.subscribe("t")
        topic = running.core.topics["persistent://public/default/t"]
        machine = topic.subscriptions["s"].machine  # type: ignore[attr-defined]
        machine.seek_begins()
        for way, body in (("", {"ledgerId": 1, "entryId": 0}), ("/0", None)):
            refused = await admin("POST", f"/t/subscription/s/resetcursor{way}", body)
            assert refused == (412, {"reason": f"Failed for Subscription Busy: {fenced}"})
        for text, place in (
            ("Error when resetting subscription", {"message_id": {"ledgerId": 1, "entryId": 0}}),
            ("Reset subscription to publish time error", {"message_publish_time": 1}),
        ):
            await client.send(pb.CommandSeek(consumer_id=1, request_id=9, **place))
            answer = await client.expect(pb.CommandError)
            assert (answer.error, answer.message) == (pb.UnknownError, f"{text}: {fenced}")
        answer = await client.subscribe("t", consumer_id=2)
        assert (answer.error, answer.message) == (pb.ServiceNotReady, "Subscription is fenced")
        machine.seek_ends()
        assert (await admin("POST", "/t/subscription/s/resetcursor/0"))[0] == 204
