"""Queues whose topic is deleted by somebody who does not use AMQP, and what AMQP clients see of
that."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import trio.testing
from pika.exceptions import UnroutableError
from tests.amqp_frontend.opening import entered, open_topology
from tests.amqp_frontend.server.conftest import wait
from tests.amqp_frontend.topology.conftest import ME

from arneb_amqp.errors import AmqpError
from arneb_amqp.server.operations.publishes import Publishes
from arneb_amqp.session.deliveries import ConsumerId
from arneb_amqp.session.effects import Append, Token
from arneb_amqp.topology.queues.declaration import Declaration
from arneb_core.api.subscriptions.deliveries import Deliveries
from arneb_core.engine.engine import open_engine
from arneb_core.testing.engine_kit import make_entry

PREFIX = "persistent://public/default/"


def test_consumers_are_cancelled_and_publishers_get_an_answer(broker: Any, channel: Any) -> None:
    """At once: nobody has to name the queue first."""
    channel.queue_declare("gone", durable=True)
    channel.queue_declare("other", durable=True)
    channel.queue_bind("gone", "amq.topic", "gone.*")
    cancelled: list[str] = []
    channel.add_on_cancel_callback(lambda frame: cancelled.append(frame.method.consumer_tag))
    tag = channel.basic_consume("gone", lambda *_: None)
    broker.call(broker.engine.delete_topic, PREFIX + "gone")
    wait(channel, lambda: cancelled == [tag])
    channel.confirm_delivery()
    for exchange, key in (("", "gone"), ("amq.topic", "gone.x")):
        with pytest.raises(UnroutableError):
            channel.basic_publish(exchange, key, b"x", mandatory=True)
    channel.basic_publish("", "other", b"x", mandatory=True)
    assert channel.queue_declare("gone", durable=True).method.message_count == 0
    channel.basic_publish("", "gone", b"x", mandatory=True)
    assert channel.queue_declare("gone", durable=True).method.message_count == 1
    with pytest.raises(UnroutableError):
        channel.basic_publish("amq.topic", "gone.x", b"x", mandatory=True)


def test_a_purge_and_an_unbinding_do_not_count_as_use_of_a_queue(broker: Any, channel: Any) -> None:
    """The queue expires as if nobody had touched it."""
    channel.queue_declare("expires", arguments={"x-expires": 3_600_000})
    channel.queue_bind("expires", "amq.fanout")
    queue = broker.topology.vhost("/").queues.get("expires")
    queue.used_at_ms = 0
    channel.queue_purge("expires")
    channel.queue_unbind("expires", "amq.fanout")
    assert queue.used_at_ms == 0
    for use in (channel.basic_get, lambda name: channel.queue_declare(name, passive=True)):
        use("expires")
        assert queue.used_at_ms > 0
        queue.used_at_ms = 0


@dataclass
class FakeConnection:
    """A connection that remembers how its publishes ended."""

    ends: list[tuple[AmqpError | None, bool]] = field(default_factory=list)

    def committed(self, token: Token, failure: AmqpError | None, *, refused: bool = False) -> None:
        self.ends.append((failure, refused))

    def delivered(self, consumer: ConsumerId, run: Deliveries) -> None:
        raise AssertionError("nobody consumes")

    def answer_follows(self) -> None:
        """The tests never ask."""

    async def deliveries_made(self, *, to_anybody: bool = False) -> None:
        """The tests never ask."""

    def consumer_closed(self, consumer: ConsumerId, reason: str) -> None:
        raise AssertionError("nobody consumes")


@pytest.mark.real_time
@pytest.mark.parametrize("declared", [True, False])
@pytest.mark.parametrize("queues", [("q",), ("other", "q")])
async def test_a_message_that_waited_while_its_queue_was_deleted_is_not_confirmed(
    tmp_path: Path, queues: tuple[str, ...], *, declared: bool
) -> None:
    """It was routed before the deletion and is passed to the core afterwards; nobody deleted
    anything over AMQP."""
    async with open_engine(tmp_path / "data") as engine:
        topology, outcomes = await open_topology(engine), FakeConnection()
        context = await entered(engine, topology, ME, outcomes)
        vhost, publishes = context.vhost, Publishes(context)

        async def declare(name: str) -> None:
            async with topology.changing():
                await vhost.queues.declare(Declaration(ME, name, durable=True))

        async def publish() -> tuple[AmqpError | None, bool]:
            publishes.append(Append(queues, [make_entry(b"x")], Token(1)))
            await trio.testing.wait_all_tasks_blocked()
            while not outcomes.ends:
                await engine.create_topic("a commit more")
                await engine.delete_topic("a commit more")
            return outcomes.ends.pop()

        await declare("other")
        if declared:
            await declare("q")
        else:
            await engine.create_topic(PREFIX + "q")
        await engine.delete_topic(PREFIX + "q")
        assert await publish() == (None, True)
        assert engine.topic(PREFIX + "other").messages == 0
        await declare("q")
        async with topology.changing():
            await vhost.queues.delete_by_name("q", ME, if_unused=False, if_empty=False)
        assert await publish() == (None, False), (
            "the queue was deleted over AMQP, so its messages went with it and are confirmed"
        )
