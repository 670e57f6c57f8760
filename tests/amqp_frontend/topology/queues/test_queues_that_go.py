"""Deleting queues only if they are unused: what happens while the deletion waits for its turn
counts. Also queues whose topic is deleted by somebody else: they go with it in the same commit, or
stay whole."""

import pytest
import trio
import trio.testing
from tests.amqp_frontend.topology.conftest import ME, Box, Opener, RunningVhost

from arneb_amqp.consumption import Consumption
from arneb_amqp.errors import AmqpError
from arneb_amqp.routing.exchange import Binding, Exchange
from arneb_amqp.topology.names import topic_of
from arneb_amqp.topology.queues.maintenance import delete_expired
from arneb_amqp.topology.queues.queue import Queue
from arneb_amqp.wire.tables import long, longstr
from arneb_core.api.core import Unit
from arneb_core.api.errors import StoreFailed, TopicBusy, TopicFenced
from arneb_core.api.subscriptions.consumer import ConsumerSpec
from arneb_core.api.subscriptions.windows import Window
from arneb_core.testing.engine_kit import Outcome, RecordingSink, make_entry, quiet

pytestmark = pytest.mark.real_time

IN_TURN = ConsumerSpec("pulsar")
TOPIC = "persistent://public/default/q"


async def while_it_waits(place: RunningVhost, delete, happens) -> list[AmqpError]:  # type: ignore[no-untyped-def]
    """The error of ``delete`` if ``happens`` is done while the deletion waits for its turn."""
    refused: list[AmqpError] = []

    async def attempt() -> None:
        async with place.topology.changing():
            try:
                await delete()
            except AmqpError as error:
                refused.append(error)

    place.faults.hold()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(
            place.engine.topic(topic_of("public/default", "q")).subscribe, "somebody else's"
        )
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(attempt)
        await trio.testing.wait_all_tasks_blocked()
        happens()
        place.faults.release()
    await quiet(place.engine)
    return refused


def joined(queue: Queue) -> None:
    """A Pulsar client connects and asks nobody."""
    queue.subscription.attach(IN_TURN, RecordingSink())


async def test_a_message_that_arrives_meanwhile_keeps_an_empty_queue(broker: Opener) -> None:
    """Its publisher has the confirm, so it must not be deleted with a queue that was to go because
    it was empty."""
    async with broker() as place:
        queue = await place.declare("q")
        stored = Outcome()

        async def delete() -> None:
            await place.vhost.queues.delete_by_name("q", ME, if_unused=False, if_empty=True)

        def publish() -> None:
            place.engine.append(queue.topic, [make_entry(b"a")], stored, passes_over_gone=True)

        (refused,) = await while_it_waits(place, delete, publish)
        assert "not empty" in str(refused)
        assert await stored.wait() is None
        assert queue.message_count == 1 and place.vhost.queues.has(queue)
        assert place.vhost.router.route("", "q").queues == ("q",)


async def test_a_consumer_that_arrives_meanwhile_keeps_an_unused_queue(broker: Opener) -> None:
    async with broker() as place:
        queue = await place.declare("q")

        async def delete() -> None:
            await place.vhost.queues.delete_by_name("q", ME, if_unused=True, if_empty=False)

        (refused,) = await while_it_waits(place, delete, lambda: joined(queue))
        assert "in use" in str(refused) and place.vhost.queues.has(queue)


async def test_a_consumer_that_arrives_meanwhile_keeps_an_expiring_queue(broker: Opener) -> None:
    async with broker() as place:
        queue = await place.declare("q", arguments={"x-expires": long(1000)})

        async def delete() -> None:
            await delete_expired(place.vhost.queues, queue.used_at_ms + 1000)

        assert not await while_it_waits(place, delete, lambda: joined(queue))
        assert place.vhost.queues.has(queue)


async def test_a_consumer_that_arrives_meanwhile_keeps_an_auto_delete_queue(broker: Opener) -> None:
    async with broker() as place:
        queue = await place.declare("q", auto_delete=True)
        wanted = Consumption("q", "tag", False, False, {}, (Window(), Window()))
        async with place.topology.changing():
            attachment = await place.vhost.attachments.attach(wanted, ME, Box())

        async def detach() -> None:
            await place.vhost.attachments.detach(attachment)

        assert not await while_it_waits(place, detach, lambda: joined(queue))
        assert place.vhost.queues.has(queue) and queue.consumer_count == 1


# Somebody else deletes the topic.


async def bound(place: RunningVhost) -> Queue:
    """A queue that refuses what exceeds its limit, bound to two exchanges. One is deleted with its
    binding, the other has an alternate."""
    arguments = {"x-max-length": long(5), "x-overflow": longstr("reject-publish")}
    queue = await place.declare(arguments=arguments)
    await place.declare("spare")
    async with place.topology.changing():
        exchanges = place.vhost.exchanges
        await exchanges.declare(Exchange("passing", "direct", durable=True, auto_delete=True))
        alternate = {"alternate-exchange": longstr("amq.fanout")}
        await exchanges.declare(Exchange("x", "direct", durable=True, arguments=alternate))
        for source in ("passing", "x"):
            await exchanges.bind(Binding(source, "q", "k"), ME)
        await exchanges.bind(Binding("amq.fanout", "spare", ""), ME)
    return queue


def routes(place: RunningVhost, exchange: str, key: str) -> tuple[str, ...]:
    return place.vhost.router.route(exchange, key).queues


def assert_gone(place: RunningVhost) -> None:
    assert routes(place, "", "q") == ()
    assert routes(place, "x", "k") == ("spare",), "the alternate exchange must get it"
    assert "passing" not in place.vhost.router.exchanges
    assert not place.vhost.queues.refusing
    kept = "".join(place.engine.metadata("amqp/"))
    assert "%2F/q" not in kept and "passing" not in kept
    assert len(place.engine.metadata("amqp/binding/")) == 1


async def test_a_queue_goes_with_its_topic_in_one_commit(broker: Opener) -> None:
    """Without anybody having to name it first."""
    async with broker() as place:
        await bound(place)
        wanted = Consumption("q", "tag", False, False, {}, (Window(), Window()))
        box = Box()
        async with place.topology.changing():
            await place.vhost.attachments.attach(wanted, ME, box)
        before = place.engine.statistics().commits_total
        await place.engine.delete_topic(TOPIC)
        assert place.engine.statistics().commits_total == before + 1
        assert box.closed == ["removed"]
        assert_gone(place)
    async with broker() as place:
        assert_gone(place)
        await place.declare()
        assert routes(place, "x", "k") == ("spare",)


@pytest.mark.parametrize("refusal", ["condition", "store"])
async def test_a_queue_whose_topic_stays_after_all_stays_whole(
    broker: Opener, refusal: str
) -> None:
    async with broker() as place:
        queue = await bound(place)

        async def delete() -> None:
            if refusal == "store":
                place.faults.fail_next()
                with pytest.raises(StoreFailed):
                    await place.engine.delete_topic(TOPIC)
            else:
                with pytest.raises(TopicBusy):
                    await place.engine.delete_topic(TOPIC, only_if=lambda topic: False)

        await delete()
        assert routes(place, "", "q") == routes(place, "x", "k") == ("q",)
        assert routes(place, "passing", "k") == ("q",)
        assert place.vhost.queues.has(queue) and "q" in place.vhost.queues.refusing
        assert len(place.engine.metadata("amqp/binding/")) == 3


async def test_a_publish_is_not_confirmed_if_somebody_else_deletes_the_queues_topic(
    broker: Opener,
) -> None:
    """Before the fence, in the commit that removes the topic, and behind the fence."""
    async with broker() as place:
        queue = await place.declare()
        outcomes = [Outcome(), Outcome()]

        def publish(outcomes: Outcome) -> None:
            place.engine.append(queue.topic, [make_entry(b"a")], outcomes, passes_over_gone=True)

        place.faults.hold()
        async with trio.open_nursery() as nursery:
            place.engine.commit(Unit(metadata=[("other", b"x")]), Outcome())
            await trio.testing.wait_all_tasks_blocked()
            publish(outcomes[0])
            nursery.start_soon(place.engine.delete_topic, TOPIC)
            await trio.testing.wait_all_tasks_blocked()
            publish(outcomes[1])
            place.faults.release()
        for each in outcomes:
            assert isinstance(await each.wait(), TopicFenced)
        assert place.vhost.queues.lost("q")
        await place.declare()
        assert not place.vhost.queues.lost("q")
        async with place.topology.changing():
            await place.vhost.queues.delete_by_name("q", ME, if_unused=False, if_empty=False)
        assert not place.vhost.queues.lost("q"), "this time it was deleted over AMQP"


async def test_a_queue_that_is_being_declared_goes_with_its_topic(broker: Opener) -> None:
    """Its topic is deleted before the declaration is durable."""
    async with broker() as place:
        await place.engine.create_topic(TOPIC)
        place.faults.hold()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(place.declare)
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(place.engine.delete_topic, TOPIC)
            await trio.testing.wait_all_tasks_blocked()
            place.faults.release()
        assert not place.engine.topics and not place.engine.metadata("amqp/")
        assert routes(place, "", "q") == ()


async def test_another_topic_with_a_queues_name_is_not_deleted_with_the_queue(
    broker: Opener,
) -> None:
    """If a queue is ever left without its topic, its name may belong to somebody else."""
    async with broker() as place:
        queue = await place.declare()
        await place.engine.delete_topic(TOPIC, as_owner=True)
        made = await place.engine.create_topic(TOPIC)
        async with place.topology.changing():
            found = await place.vhost.queues.find("q")
        assert found is not queue and found.topic is made
        assert place.engine.topics[TOPIC] is made and not made.fenced


async def test_the_remains_of_a_queue_from_an_earlier_version_are_removed_at_the_start(
    broker: Opener,
) -> None:
    """The topic was deleted, and the process died before anybody named the queue."""
    async with broker() as place:
        await bound(place)
        place.engine.catalog.companions.clear()
        await place.engine.delete_topic(TOPIC)
        assert len(place.engine.metadata("amqp/binding/")) == 3
    async with broker() as place:
        assert_gone(place)
    async with broker() as place:
        await place.declare()
        assert routes(place, "x", "k") == ("spare",), "bindings do not come back"


async def test_a_binding_to_a_topic_that_nobody_declared_goes_with_it(broker: Opener) -> None:
    async with broker() as place:
        await place.engine.create_topic(TOPIC)
        async with place.topology.changing():
            await place.vhost.exchanges.bind(Binding("amq.direct", "q", "k"), ME)
        assert routes(place, "amq.direct", "k") == ("q",)
        await place.engine.delete_topic(TOPIC)
        assert routes(place, "amq.direct", "k") == ()
        assert not place.engine.metadata("amqp/")
