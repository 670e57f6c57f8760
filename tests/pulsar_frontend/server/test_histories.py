"""A Pulsar subscription that asks for a history has one, in a topic that Pulsar clients read."""

import json

import pytest
import trio
from tests.pulsar_frontend.conftest import OpenBroker
from tests.pulsar_frontend.raw_client import connected

from arneb_core.api.topics.history import HISTORY_PROPERTY, history_topic
from arneb_pulsar.wire.proto.pulsar_pb2 import CommandSubscribe

pytestmark = pytest.mark.real_time

TOPIC = "persistent://public/default/t"
ASKED = [{"key": HISTORY_PROPERTY, "value": "true"}]


async def test_a_history_has_what_its_subscription_did(
    open_broker: OpenBroker,
) -> None:
    async with open_broker() as running, connected(running.context) as (client,):
        await client.producer("t")
        await client.subscribe("t", subscription_properties=ASKED)
        await client.flow(10)
        await client.publish(b"x")
        message = (await client.take(2))[-1][0]
        await client.acknowledge(message.message_id)
        state = running.core.topics[TOPIC].subscriptions["s"].machine.state  # type: ignore[attr-defined]
        topic = running.core.topics[history_topic(TOPIC, "s")]
        while state.acks.backlog or state.history:
            await trio.lowlevel.checkpoint()
        earliest = CommandSubscribe.InitialPosition.Earliest
        await client.subscribe(
            topic.name, consumer_id=2, subscription="reader", initialPosition=earliest
        )
        await client.flow(10, consumer_id=2)
        lines: list[dict[str, object]] = []
        while len(lines) < 2:
            (_, payload) = (await client.take(1))[0]
            _, found = payload.split(b'{"', 1)  # a brace alone may stand in the metadata
            lines += [json.loads(line) for line in (b'{"' + found).splitlines()][1:]
        assert [line["event"] for line in lines] == ["delivered", "acknowledged"]


async def test_a_history_is_never_idle(open_broker: OpenBroker) -> None:
    async with open_broker() as running, connected(running.context) as (client,):
        await client.subscribe("t", subscription_properties=ASKED)
        await running.policy_enforcer.check_idle(0)
        await running.policy_enforcer.check_idle(1_000_000)
        assert history_topic(TOPIC, "s") in running.core.topics


async def test_no_history_is_kept_unless_requested(open_broker: OpenBroker) -> None:
    async with open_broker() as running, connected(running.context) as (client,):
        await client.subscribe(
            "t", subscription_properties=[{"key": HISTORY_PROPERTY, "value": "no"}]
        )
        await client.subscribe("t", consumer_id=2, subscription="u")
        assert [name for name in running.core.topics if name.endswith("HISTORY")] == []
