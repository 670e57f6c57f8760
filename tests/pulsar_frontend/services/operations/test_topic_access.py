"""Topics that belong to one connection of another protocol: an AMQP client's exclusive queue."""

from typing import Any

import pytest
from tests.pulsar_frontend.admin_client import Admin
from tests.pulsar_frontend.conftest import OpenBroker, Running
from tests.pulsar_frontend.raw_client import connected

from arneb_core.api.subscriptions.subscription import InitialPosition
from arneb_core.api.topics.settings import EXCLUSIVE, TopicSettings
from arneb_core.api.topics.topic import Topic
from arneb_core.testing.engine_kit import RecordingSink, attach
from arneb_pulsar.wire.proto import pulsar_pb2 as pb
from arneb_pulsar.wire.proto.pulsar_pb2 import (
    CommandError,
    CommandProducerSuccess,
    CommandSubscribe,
    CommandSuccess,
)

pytestmark = pytest.mark.real_time

NAME = "persistent://public/default/theirs"


async def exclusive_queue(running: Running) -> tuple[Topic, RecordingSink]:
    """A queue of a connection that is there, and what its consumer gets."""
    settings = TopicSettings(durable=False, properties={EXCLUSIVE: "amqp"})
    topic = await running.core.create_topic(NAME, settings)
    subscription = await topic.subscribe("amqp", initial=InitialPosition.EARLIEST)
    return topic, attach(subscription, unlimited=True, message_level=True)[1]


def is_refused(answer: Any) -> bool:
    assert isinstance(answer, CommandError), answer
    return answer.error == pb.NotAllowedError and "one AMQP connection" in answer.message


@pytest.mark.parametrize("subscription", ["amqp", "mine"])
async def test_no_other_connection_uses_an_exclusive_queue(
    open_broker: OpenBroker, subscription: str
) -> None:
    """Clients take the error as final: they do not try for half a minute."""
    async with open_broker() as running, connected(running.context) as (client,):
        topic, _ = await exclusive_queue(running)
        assert is_refused(await client.producer("theirs"))
        assert is_refused(await client.subscribe("theirs", subscription=subscription))
        reader = {"durable": False, "subType": CommandSubscribe.Exclusive}
        assert is_refused(await client.subscribe("theirs", consumer_id=2, **reader))
        assert list(topic.subscriptions) == ["amqp"]
        assert len(topic.subscriptions["amqp"].consumers) == 1
        assert isinstance(await client.producer("ours", producer_id=2), CommandProducerSuccess)


async def test_an_exclusive_queue_is_not_removed_over_http(open_broker: OpenBroker) -> None:
    async with open_broker() as running:
        admin = Admin(running)
        topic, sink = await exclusive_queue(running)
        assert (await admin("DELETE", "/theirs", force="true"))[0] == 409
        assert (await admin("PUT", "/theirs/subscription/mine"))[0] == 409
        assert running.core.topics[NAME] is topic and not sink.closed


async def test_the_name_is_free_when_the_queue_has_gone(open_broker: OpenBroker) -> None:
    async with open_broker() as running, connected(running.context) as (client,):
        await exclusive_queue(running)
        await running.core.delete_topic(NAME)
        assert isinstance(await client.subscribe("theirs"), CommandSuccess)
