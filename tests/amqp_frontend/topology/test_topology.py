"""Queues, exchanges and bindings over a real engine: declared, stored, restored, deleted."""

import pytest
import trio
from tests.amqp_frontend.topology.conftest import ME, OTHER, Box, Opener, RunningVhost

from arneb_amqp.consumption import Consumption
from arneb_amqp.errors import ChannelException, ConnectionException, ReplyCode
from arneb_amqp.routing.exchange import Binding, DestinationKind, Exchange
from arneb_amqp.topology.names import SUBSCRIPTION, topic_of
from arneb_amqp.topology.queues.attachments import Attachment
from arneb_amqp.topology.queues.queues import Queues
from arneb_amqp.wire.tables import Field, FieldType, longstr, signedint
from arneb_core.api.core import Unit
from arneb_core.api.entries.entry import EntryHeader, Origin
from arneb_core.api.errors import StoreFailed
from arneb_core.api.subscriptions.subscription import InitialPosition
from arneb_core.api.subscriptions.windows import Window
from arneb_core.api.topics.settings import EXCLUSIVE, TopicSettings

pytestmark = pytest.mark.real_time

TOPIC = topic_of("public/default", "q")


async def put(place: RunningVhost, count: int = 1, topic: str = TOPIC) -> None:
    entry = EntryHeader(Origin.AMQP).pack() + b"body"
    await place.engine.committed(Unit([(place.engine.topic(topic), [entry] * count)]))


async def attach(
    place: RunningVhost, sink: Box | None = None, *, exclusive: bool = False, prefetch: int = 0
) -> Attachment:
    windows = (Window(prefetch), Window())
    wanted = Consumption("q", "tag", False, exclusive, {}, windows)
    async with place.topology.changing():
        return await place.vhost.attachments.attach(wanted, ME, sink or Box())


async def detach(place: RunningVhost, attachment: Attachment) -> None:
    async with place.topology.changing():
        await place.vhost.attachments.detach(attachment)


def routes(place: RunningVhost, exchange: str, key: str) -> tuple[str, ...]:
    return place.vhost.router.route(exchange, key).queues


async def test_a_queue_is_a_topic_with_one_subscription(broker: Opener) -> None:
    async with broker() as place:
        queue = await place.declare()
        topic = place.engine.topic(TOPIC)
        assert topic.durable
        assert list(topic.subscriptions) == [SUBSCRIPTION]
        assert (queue.message_count, queue.consumer_count) == (0, 0)
        assert routes(place, "", "q") == ("q",)


async def test_durable_objects_exist_after_a_restart_and_others_do_not(
    broker: Opener,
) -> None:
    async with broker() as place:
        await place.declare("d", arguments={"x-max-length": signedint(5)})
        await place.declare("t", durable=False)
        async with place.topology.changing():
            exchanges = place.vhost.exchanges
            await exchanges.declare(Exchange("dx", "topic", durable=True))
            await exchanges.declare(Exchange("tx", "direct"))
            await exchanges.bind(Binding("dx", "d", "a.*"), ME)
            await exchanges.bind(Binding("dx", "t", "a.*"), ME)
            await exchanges.bind(Binding("tx", "d", "k"), ME)
            await exchanges.bind(Binding("amq.fanout", "d"), ME)
            await exchanges.bind(
                Binding("dx", "amq.fanout", "#", kind=DestinationKind.EXCHANGE), ME
            )
        await put(place, 3, topic_of("public/default", "d"))
    async with broker() as place:
        queue = await place.vhost.queues.find("d")
        assert queue.message_count == 3
        assert queue.arguments == {"x-max-length": signedint(5)}
        assert routes(place, "dx", "a.b") == ("d",)
        assert routes(place, "dx", "other") == ("d",), "through the bound exchange"
        assert "tx" not in place.vhost.router.exchanges
        with pytest.raises(ChannelException, match="no queue 't'"):
            await place.vhost.queues.find("t")


async def test_what_was_deleted_stays_deleted(broker: Opener) -> None:
    async with broker() as place:
        queue = await place.declare()
        async with place.topology.changing():
            await place.vhost.exchanges.declare(Exchange("x", "direct", durable=True))
            await place.vhost.exchanges.bind(Binding("x", "q", "k"), ME)
        await put(place, 2)
        async with place.topology.changing():
            assert await place.vhost.queues.delete(queue) == 2
            await place.vhost.exchanges.delete("x", if_unused=True)
        assert not place.engine.metadata("amqp/")
    async with broker() as place:
        assert "x" not in place.vhost.router.exchanges
        assert not place.engine.topics


async def test_an_unbound_binding_stays_unbound(broker: Opener) -> None:
    async with broker() as place:
        await place.declare()
        async with place.topology.changing():
            await place.vhost.exchanges.bind(Binding("amq.direct", "q", "k"), ME)
            await place.vhost.exchanges.unbind(Binding("amq.direct", "q", "k"), ME)
            await place.vhost.exchanges.unbind(Binding("amq.direct", "q", "never"), ME)
            await place.vhost.exchanges.unbind(Binding("never", "q", "k"), ME)
    async with broker() as place:
        assert routes(place, "amq.direct", "k") == ()


async def test_auto_delete_exchanges_are_deleted_with_their_last_binding(broker: Opener) -> None:
    async with broker() as place:
        await place.declare()
        async with place.topology.changing():
            exchange = Exchange("x", "direct", durable=True, auto_delete=True)
            await place.vhost.exchanges.declare(exchange)
            await place.vhost.exchanges.bind(Binding("x", "q", "k"), ME)
            await place.vhost.exchanges.unbind(Binding("x", "q", "k"), ME)
        assert "x" not in place.vhost.router.exchanges
        assert not place.engine.metadata("amqp/exchange/")


async def test_a_declaration_must_match_what_exists(broker: Opener) -> None:
    async with broker() as place:
        queue = await place.declare()
        assert await place.declare() is queue
        with pytest.raises(ChannelException, match="inequivalent arg 'durable'"):
            await place.declare(durable=False)
        with pytest.raises(ChannelException, match="exclusive access"):
            await place.declare(exclusive=True)


async def test_server_named_queues_have_unique_names(broker: Opener) -> None:
    async with broker() as place:
        names = {(await place.declare("", durable=False)).name for _ in range(5)}
        assert len(names) == 5
        assert all(name.startswith("amq.gen-") for name in names)


async def test_the_queues_of_a_connection_are_deleted_without_visiting_all_others(
    broker: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    def looked(queues: Queues) -> None:
        raise AssertionError(f"looked at all of {queues!r}")

    async with broker() as place:
        for number in range(3):
            await place.declare(f"mine {number}", exclusive=True)
        await place.declare("shared")
        await place.declare("another's", owner=OTHER, exclusive=True)
        monkeypatch.setattr(Queues, "__iter__", looked)
        await place.vhost.queues.delete_exclusive(ME)
        await place.vhost.queues.delete_exclusive(ME)
        monkeypatch.undo()
        assert {queue.name for queue in place.vhost.queues} == {"shared", "another's"}


async def test_exclusive_queues_belong_to_their_connection(broker: Opener) -> None:
    async with broker() as place:
        await place.declare(exclusive=True)
        with pytest.raises(ChannelException) as caught:
            await place.vhost.queues.access("q", OTHER)
        assert caught.value.reply_code is ReplyCode.RESOURCE_LOCKED
        async with place.topology.changing():
            await place.vhost.queues.delete_exclusive(OTHER)
            assert (await place.vhost.queues.access("q", ME)).name == "q"
            await place.vhost.queues.delete_exclusive(ME)
        assert TOPIC not in place.engine.topics


async def test_auto_delete_queues_are_deleted_with_their_last_consumer(broker: Opener) -> None:
    async with broker() as place:
        await place.declare(auto_delete=True)
        first, second = await attach(place), await attach(place)
        await detach(place, first)
        assert TOPIC in place.engine.topics
        await detach(place, second)
        assert TOPIC not in place.engine.topics
        assert routes(place, "", "q") == ()


async def test_a_deletion_may_depend_on_whether_the_queue_is_used_or_empty(broker: Opener) -> None:
    async with broker() as place:
        await place.declare()
        attachment = await attach(place)
        delete = place.vhost.queues.delete_by_name
        async with place.topology.changing():
            with pytest.raises(ChannelException, match="queue 'q' in vhost '/' in use"):
                await delete("q", ME, if_unused=True, if_empty=False)
        await detach(place, attachment)
        await put(place, 2)
        async with place.topology.changing():
            with pytest.raises(ChannelException, match="queue 'q' in vhost '/' not empty"):
                await delete("q", ME, if_unused=True, if_empty=True)
            assert await delete("q", ME, if_unused=True, if_empty=False) == 2
            assert await delete("q", ME, if_unused=True, if_empty=False) == 0


async def test_consumers_are_notified_when_a_queue_is_deleted(broker: Opener) -> None:
    async with broker() as place:
        queue = await place.declare()
        box = Box()
        await attach(place, box)
        async with place.topology.changing():
            await place.vhost.queues.delete(queue)
        assert len(box.closed) == 1


async def test_an_exclusive_consumer_is_the_only_one(broker: Opener) -> None:
    async with broker() as place:
        queue = await place.declare()
        first = await attach(place, exclusive=True)
        for exclusive in (False, True):
            with pytest.raises(ChannelException, match="in exclusive use"):
                await attach(place, exclusive=exclusive)
        await detach(place, first)
        second = await attach(place)
        with pytest.raises(ChannelException, match="in exclusive use"):
            await attach(place, exclusive=True)
        await detach(place, second)
        assert queue.consumer_count == 0


async def test_a_cancelled_consumer_keeps_its_deliveries_and_is_not_counted(
    broker: Opener,
) -> None:
    async with broker() as place:
        queue = await place.declare()
        box = Box()
        attachment = await attach(place, box, prefetch=1)
        await put(place, 2)
        with trio.fail_after(5):
            while not box.runs:
                await trio.lowlevel.checkpoint()
        async with place.topology.changing():
            assert not await place.vhost.attachments.cancel(attachment)
        assert queue.consumer_count == 0
        attachment.consumer.acknowledge(box.runs[0].positions)
        await trio.testing.wait_all_tasks_blocked()
        assert len(box.runs) == 1, "a cancelled consumer gets nothing more"
        assert queue.message_count == 1


async def test_a_getter_takes_single_messages_and_is_not_a_consumer(broker: Opener) -> None:
    async with broker() as place:
        queue = await place.declare()
        await put(place, 2)
        async with place.topology.changing():
            getter = await place.vhost.attachments.attach_getter("q", ME, Box(), no_ack=False)
        run = await getter.consumer.pull()
        assert run is not None
        assert (queue.message_count, queue.consumer_count) == (1, 0)
        await detach(place, getter)
        assert queue.message_count == 2


async def test_a_quorum_queue_has_no_conditional_deletion_and_no_exclusive_consumers(
    broker: Opener,
) -> None:
    async with broker() as place:
        queue = await place.declare(arguments={"x-queue-type": longstr("quorum")})
        await attach(place, exclusive=True)
        await attach(place, exclusive=True)
        assert queue.consumer_count == 2
        for unused, empty in ((True, False), (False, True), (True, True)):
            named = "if-unused" if unused else "if-empty"
            with pytest.raises(ConnectionException, match=f"{named} flag set are not supported"):
                await place.vhost.queues.delete_by_name("q", ME, if_unused=unused, if_empty=empty)


async def test_a_getter_is_never_the_single_active_consumer(broker: Opener) -> None:
    async with broker() as place:
        await place.declare(arguments={"x-single-active-consumer": Field(FieldType.BOOL, True)})
        async with place.topology.changing():
            getter = await place.vhost.attachments.attach_getter("q", ME, Box(), no_ack=False)
        await attach(place, box := Box(), prefetch=1)
        await put(place, 2)
        await trio.testing.wait_all_tasks_blocked()
        assert len(box.runs) == 1
        assert await getter.consumer.pull() is not None
        assert await getter.consumer.pull() is None


# Topics of Pulsar clients.


async def test_a_topic_created_by_pulsar_is_a_queue(broker: Opener) -> None:
    async with broker() as place:
        await place.engine.create_topic(TOPIC)
        await put(place, 2)
        queue = await place.vhost.queues.find("q")
        assert queue.message_count == 2
        assert routes(place, "", "q") == ("q",)


async def test_declaring_such_a_topic_makes_it_an_ordinary_queue(broker: Opener) -> None:
    arguments = {"x-max-length": signedint(5)}
    async with broker() as place:
        await place.engine.create_topic(TOPIC)
        await place.vhost.queues.find("q")
        with pytest.raises(ChannelException, match="'durable'"):
            await place.declare(durable=False)
        await place.declare(arguments=arguments)
        with pytest.raises(ChannelException, match="'x-max-length'"):
            await place.declare()
    async with broker() as place:
        assert (await place.vhost.queues.find("q")).arguments == arguments


async def test_a_transient_pulsar_topic_is_a_transient_queue(broker: Opener) -> None:
    async with broker() as place:
        await place.engine.create_topic(TOPIC, TopicSettings(durable=False))
        assert not (await place.vhost.queues.find("q")).durable
        await place.declare(durable=False)


async def test_a_queue_whose_topic_pulsar_deleted_is_gone(broker: Opener) -> None:
    async with broker() as place:
        await place.declare()
        async with place.topology.changing():
            await place.vhost.exchanges.bind(Binding("amq.direct", "q", "k"), ME)
        await place.engine.delete_topic(TOPIC)
        with pytest.raises(ChannelException, match="no queue 'q'"):
            await place.vhost.queues.find("q")
        assert routes(place, "amq.direct", "k") == ()
        assert not place.engine.metadata("amqp/")
        await place.declare()


async def test_a_subscription_that_pulsar_removed_is_restored(broker: Opener) -> None:
    async with broker() as place:
        queue = await place.declare()
        await place.engine.topic(TOPIC).unsubscribe(SUBSCRIPTION)
        assert (await place.vhost.queues.find("q")).message_count == 0
        assert queue.subscription.name == SUBSCRIPTION


async def test_pulsar_subscribes_to_a_queue_beside_its_consumers(broker: Opener) -> None:
    async with broker() as place:
        await place.declare()
        topic = place.engine.topic(TOPIC)
        await topic.subscribe("mine", initial=InitialPosition.EARLIEST)
        await put(place, 3)
        assert topic.subscriptions["mine"].ready_messages == 3


async def test_a_binding_of_a_topic_created_by_pulsar_lasts(broker: Opener) -> None:
    async with broker() as place:
        await place.engine.create_topic(TOPIC)
        async with place.topology.changing():
            await place.vhost.exchanges.bind(Binding("amq.direct", "q", "k"), ME)
    async with broker() as place:
        assert routes(place, "amq.direct", "k") == ("q",)


# A store that fails.


async def test_what_the_store_refuses_did_not_happen(broker: Opener) -> None:
    async with broker() as place:
        queue = await place.declare()
        async with place.topology.changing():
            await place.vhost.exchanges.declare(Exchange("x", "direct", durable=True))
            await place.vhost.exchanges.bind(Binding("x", "q", "k"), ME)
        exchanges = place.vhost.exchanges
        acts = [
            lambda: place.vhost.queues.delete(queue),
            lambda: exchanges.declare(Exchange("y", "direct", durable=True)),
            lambda: exchanges.delete("x", if_unused=False),
            lambda: exchanges.bind(Binding("x", "q", "l"), ME),
            lambda: exchanges.unbind(Binding("x", "q", "k"), ME),
        ]
        for act in acts:
            place.faults.fail_next()
            async with place.topology.changing():
                with pytest.raises(StoreFailed):
                    await act()
        place.faults.fail_next()
        with pytest.raises(StoreFailed):
            await place.declare("r")
        assert routes(place, "x", "k") == ("q",)
        assert routes(place, "x", "l") == ()
        assert routes(place, "", "q") == ("q",)
        assert routes(place, "", "r") == ()
        assert "y" not in place.vhost.router.exchanges
    async with broker() as place:
        assert routes(place, "x", "k") == ("q",)
        assert "y" not in place.vhost.router.exchanges


async def test_the_topics_of_one_connection_are_marked(broker: Opener) -> None:
    """This tells the Pulsar frontend that its clients must not use them."""
    async with broker() as place:
        mine = await place.declare("mine", exclusive=True)
        common = await place.declare("common")
        async with place.topology.changing():
            await place.vhost.queues.make_reply_queue("amq.rabbitmq.reply-to.x")
        reply = place.vhost.queues.foreign_topic("amq.rabbitmq.reply-to.x")
        assert mine.topic.properties == {EXCLUSIVE: "amqp"}
        assert reply is not None and reply.properties == {EXCLUSIVE: "amqp"}
        assert not common.topic.properties
