"""Failures: what a failed commit, or a bug, leaves behind in the topology."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from tests.amqp_frontend.topology.conftest import ME, Opener, RunningVhost

from arneb_amqp.routing.exchange import Binding, DestinationKind, Exchange
from arneb_amqp.topology.dead_letters import DeadLettering
from arneb_amqp.topology.exchanges.delayed import DelayedExchange
from arneb_amqp.topology.names import topic_of
from arneb_amqp.topology.topology import MAINTENANCE_FAILED_S_MAX
from arneb_amqp.wire.constants import ChannelId
from arneb_amqp.wire.content import compose
from arneb_amqp.wire.properties import Properties, encode_properties
from arneb_amqp.wire.route import join_route
from arneb_amqp.wire.tables import long, longstr
from arneb_core.api.core import Unit
from arneb_core.api.entries.entry import EntryHeader, Origin
from arneb_core.api.errors import CommitFailed, StoreFailed
from arneb_core.api.process.callbacks import Done
from arneb_core.api.process.supervision import supervise
from arneb_core.api.subscriptions.limits import Limits
from arneb_core.api.subscriptions.subscription import InitialPosition
from arneb_core.engine.engine import open_engine
from arneb_core.engine.scheduling.maintenance import READ_RETRY_S
from arneb_core.store.environment import Store
from arneb_core.testing.engine_kit import append, attach, pass_time, quiet, until
from arneb_core.testing.faults import FaultyStore

KEPT = Exchange(
    "e", "x-delayed-message", durable=True, arguments={"x-delayed-type": longstr("fanout")}
)


def entry(
    payload: bytes, exchange: str = "", key: str = "q", properties: Properties | None = None
) -> bytes:
    route = join_route(exchange, key)
    head = EntryHeader(Origin.AMQP, publish_time_ms=1, hint=len(route)).pack()
    return (
        head + route + compose(ChannelId(1), encode_properties(properties or Properties()), payload)
    )


async def looked_after(place: RunningVhost, work: Callable[[], Awaitable[None]]) -> None:
    """Run the topology's maintenance while ``work`` runs."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(supervise, "AMQP queue maintenance", place.topology.maintain)
        await work()
        nursery.cancel_scope.cancel()


def ready(place: RunningVhost, name: str) -> int:
    return place.engine.topic(topic_of("public/default", name)).subscriptions["amqp"].ready_messages


async def test_a_queue_that_refuses_still_does_after_its_deletion_failed(broker: Opener) -> None:
    async with broker() as place:
        queue = await place.declare(
            arguments={"x-max-length": long(1), "x-overflow": longstr("reject-publish")}
        )
        assert place.vhost.refuses(["q"])
        place.faults.fail_next()
        async with place.topology.changing():
            with pytest.raises(StoreFailed):
                await place.vhost.queues.delete(queue)
        assert place.vhost.refuses(["q"])
        async with place.topology.changing():
            await place.vhost.queues.delete(queue)
        assert not place.vhost.refuses(["q"])


async def test_a_binding_that_failed_removes_nothing(broker: Opener) -> None:
    """Not even its source exchange, which is deleted with its last binding, or the bindings to that
    exchange."""
    first, leads_there = (
        Exchange("x", "direct", durable=True),
        Binding("x", "gone", "k", kind=DestinationKind.EXCHANGE),
    )
    goes = Exchange("gone", "direct", durable=True, auto_delete=True)
    async with broker() as place:
        await place.declare()
        exchanges, router = place.vhost.exchanges, place.vhost.router
        async with place.topology.changing():
            for each in (first, goes):
                await exchanges.declare(each)
            await exchanges.bind(leads_there, ME)
            place.faults.fail_next()
            with pytest.raises(StoreFailed):
                await exchanges.bind(Binding("gone", "q", "k"), ME)
        assert list(router.bindings_from("x")) == [leads_there]
        assert router.exchanges["gone"] is goes
    async with broker() as place:
        assert list(place.vhost.router.bindings_from("x")) == [leads_there]
        assert place.vhost.router.exchanges["gone"] == goes


async def test_an_adopted_queue_stays_open_though_its_declaration_failed(broker: Opener) -> None:
    async with broker() as place:
        topic = await place.engine.create_topic(topic_of("public/default", "q"))
        await topic.subscribe("amqp", initial=InitialPosition.EARLIEST)
        place.faults.fail_next()
        with pytest.raises(StoreFailed):
            await place.declare(arguments={"x-max-length": long(1)})
        # A failed declaration is of no concern to anybody.
        queue = await place.declare(arguments={"x-max-length": long(2)})
        assert queue.arguments == {"x-max-length": long(2)}
    async with broker() as place:
        async with place.topology.changing():
            queue = await place.vhost.queues.find("q")
        assert queue.arguments == {"x-max-length": long(2)}


async def test_expiry_reaches_the_disk_though_the_first_commit_failed(tmp_path: Path) -> None:
    path, now_ms = tmp_path / "data", [1_000_000]
    expiring = EntryHeader(Origin.AMQP, expires_at_ms=1_000_500).pack() + b"x"
    with Store.open(path) as store:
        faults = FaultyStore(store)
        async with open_engine(
            path, store=store, committing=faults, now_ms=lambda: now_ms[0]
        ) as engine:
            topic = await engine.create_topic("t")
            await topic.subscribe("s", initial=InitialPosition.EARLIEST)
            for fails in (True, False):
                if fails:
                    faults.fail_next()
                engine.expect_expiry(topic)
                unit = Unit([(topic, [expiring])])
                if fails:
                    with pytest.raises(StoreFailed):
                        await engine.committed(unit)
                else:
                    await engine.committed(unit)
    now_ms[0] += 1_000
    async with open_engine(path, now_ms=lambda: now_ms[0]) as engine:
        [subscription] = engine.topic("t").subscriptions.values()
        _, sink = attach(subscription, permits=10)
        await quiet(engine)
        assert sink.bodies == [], "it has expired"


async def test_a_failing_store_does_not_stop_maintenance(
    broker: Opener, caplog: pytest.LogCaptureFixture
) -> None:
    async with broker() as place:
        await place.declare("gone", arguments={"x-expires": long(1)})
        async with place.topology.changing():
            await place.vhost.exchanges.declare(KEPT)
            place.vhost.router.delete("e")  # its topic is still there

        async def work() -> None:
            place.faults.fail_until_healed()
            await until(place.engine, lambda: caplog.text.count("cannot delete expired") >= 3)
            assert "cannot delete the topic of delayed exchange 'e'" in caplog.text
            assert place.vhost.delayed_exchanges.by_name
            place.faults.heal()
            await until(
                place.engine,
                lambda: not list(place.vhost.queues) and not place.vhost.delayed_exchanges.by_name,
            )

        await looked_after(place, work)
        assert not [name for name in place.engine.topics if "delayed" in name or "gone" in name]


async def test_a_store_that_keeps_failing_is_tried_now_and_then(
    broker: Opener, caplog: pytest.LogCaptureFixture
) -> None:
    async with broker() as place:
        await place.declare("gone", arguments={"x-expires": long(1)})

        async def work() -> None:
            place.faults.fail_until_healed()
            await pass_time(place.engine, 20 * MAINTENANCE_FAILED_S_MAX)
            assert caplog.text.count("cannot delete expired") < 30
            place.faults.heal()

        await looked_after(place, work)


async def keep_one(place: RunningVhost) -> None:
    """An exchange that delays, with a queue, and one message that is due."""
    await place.declare("q")
    async with place.topology.changing():
        await place.vhost.exchanges.declare(KEPT)
        await place.vhost.exchanges.bind(Binding("e", "q", ""), ME)


def once(monkeypatch: pytest.MonkeyPatch, kind: type, name: str) -> list[str]:
    """Make the next call of one function raise, and no other."""
    original, calls = getattr(kind, name), []

    def broken(self: Any, *args: Any, **kwargs: Any) -> Any:
        calls.append(name)
        monkeypatch.setattr(kind, name, original)
        raise KeyError("a defect")

    monkeypatch.setattr(kind, name, broken)
    return calls


async def test_an_exchange_that_delays_continues_after_a_failed_delivery(
    broker: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with broker() as place:
        await keep_one(place)
        calls = once(monkeypatch, DelayedExchange, "_route")

        async def work() -> None:
            topic = place.vhost.delayed_exchanges.by_name["e"].topic
            for number in range(3):
                await place.engine.committed(Unit([(topic, [entry(b"%d" % number, "e")])]))
            await until(place.engine, lambda: ready(place, "q") == 3)

        await looked_after(place, work)
        assert calls
        await quiet(place.engine)
        assert ready(place, "q") == 3, "something came twice"
        assert ready_of_kept(place) == 0


def ready_of_kept(place: RunningVhost) -> int:
    delayed = place.vhost.delayed_exchanges.by_name["e"]
    return delayed.topic.subscriptions["routing"].statistics().backlog_entries


async def test_messages_that_wait_for_the_store_are_routed_once_after_a_failed_delivery(
    broker: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some wait because their commit failed; they return to the core when the sink fails."""
    async with broker() as place:
        await keep_one(place)
        topic = place.vhost.delayed_exchanges.by_name["e"].topic
        commit = place.engine.commit

        def commit_in_vain(unit: Unit, done: Done) -> bool:
            if not unit.acks:
                return commit(unit, done)
            monkeypatch.setattr(place.engine, "commit", commit)
            place.engine.tell(done, StoreFailed("told to fail"))
            return False

        monkeypatch.setattr(place.engine, "commit", commit_in_vain)
        await append(place.engine, topic.name, [entry(b"waits", "e")])
        await quiet(place.engine)
        assert (ready(place, "q"), ready_of_kept(place)) == (0, 1)
        once(monkeypatch, DelayedExchange, "_route")

        async def work() -> None:
            await place.engine.committed(Unit([(topic, [entry(b"later", "e")])]))
            await until(place.engine, lambda: ready(place, "q") == 2 and ready_of_kept(place) == 0)
            await pass_time(place.engine, 2)

        await looked_after(place, work)
        assert ready(place, "q") == 2


async def test_dead_lettering_continues_after_one_that_could_not_be_moved(
    broker: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with broker() as place:
        await place.declare("dead")
        arguments = {
            "x-dead-letter-exchange": longstr(""),
            "x-dead-letter-routing-key": longstr("dead"),
            "x-max-length": long(1),
        }
        queue = await place.declare("q", arguments=arguments)
        calls = once(monkeypatch, DeadLettering, "_resolve")

        async def work() -> None:
            entries = [entry(b"%d" % number) for number in range(5)]
            await place.engine.committed(Unit([(queue.topic, entries)]))
            await until(place.engine, lambda: ready(place, "dead") == 4)
            await pass_time(place.engine, 2 * READ_RETRY_S)

        await looked_after(place, work)
        assert calls
        assert (ready(place, "dead"), ready(place, "q")) == (4, 1)


async def test_dead_letters_whose_routing_key_is_too_long_are_dropped(
    broker: Opener, caplog: pytest.LogCaptureFixture
) -> None:
    """The key is an argument, which may be longer than any routing key."""
    async with broker() as place:
        dead = await place.declare("dead")
        await place.vhost.exchanges.bind(Binding("amq.fanout", "dead", ""), ME)
        for name, key_bytes, arrived in (("q", 256, 0), ("p", 255, 4)):
            arguments = {
                "x-dead-letter-exchange": longstr("amq.fanout"),
                "x-dead-letter-routing-key": longstr("k" * key_bytes),
                "x-max-length": long(1),
            }
            queue = await place.declare(name, arguments=arguments)
            entries = [entry(b"%d" % number) for number in range(5)]
            await place.engine.committed(Unit([(queue.topic, entries)]))
            wanted = (1, 0), (arrived, 0)
            await until(
                place.engine,
                lambda queue=queue, wanted=wanted: (queue.lengths, dead.lengths) == wanted,
            )
    assert not caplog.records  # nothing fails again and again


async def test_what_a_seek_put_back_is_not_dead_lettered_later(broker: Opener) -> None:
    async with broker() as place:
        await place.declare("dead")
        arguments = {
            "x-dead-letter-exchange": longstr(""),
            "x-dead-letter-routing-key": longstr("dead"),
            "x-message-ttl": long(1),
        }
        queue = await place.declare("q", arguments=arguments)
        await place.engine.committed(Unit([(queue.topic, [entry(b"x")])]))
        place.faults.fail_until_healed()
        await until(place.engine, lambda: queue.subscription.ready_messages == 0)
        await quiet(place.engine)
        place.faults.heal()
        queue.subscription.limit(Limits(), None)
        first = place.engine.topic(topic_of("public/default", "q")).first
        assert first is not None
        await queue.subscription.seek(first)
        assert queue.dead_lettering is not None
        queue.dead_lettering.retry()
        await quiet(place.engine)
        assert (ready(place, "dead"), ready(place, "q")) == (0, 1)


async def test_an_exchange_that_is_declared_again_has_nothing_of_the_old_one(
    broker: Opener,
) -> None:
    async with broker() as place:
        await keep_one(place)
        topic = place.vhost.delayed_exchanges.by_name["e"].topic
        later = EntryHeader(Origin.AMQP, deliver_at_ms=1 << 50).pack() + b"x"
        place.engine.expect_delays(place.engine.topic(topic.name))
        await place.engine.committed(Unit([(topic, [later])]))
        async with place.topology.changing():
            place.vhost.router.delete("e")
            place.faults.fail_until_healed()
            assert not await place.vhost.delayed_exchanges.maintain()
            place.faults.heal()
            await place.vhost.exchanges.declare(KEPT)
        assert ready_of_kept(place) == 0


async def test_messages_published_during_a_failing_deletion_still_reach_the_queue(
    broker: Opener,
) -> None:
    """Also through an exchange: the queue is routed to until its deletion is durable."""
    async with broker() as place:
        queue = await place.declare("q")
        async with place.topology.changing():
            await place.vhost.exchanges.bind(Binding("amq.topic", "q", "k"), ME)
        place.faults.hold()
        place.faults.fail_next()
        async with trio.open_nursery() as nursery:

            async def delete() -> None:
                async with place.topology.changing():
                    with pytest.raises(CommitFailed):
                        await place.vhost.queues.delete(queue)

            nursery.start_soon(delete)
            await trio.testing.wait_all_tasks_blocked()
            assert place.vhost.router.route("amq.topic", "k").queues == ("q",)
            assert place.vhost.queues.topic("q") is queue.topic
            assert place.vhost.queues.has(queue)
            place.faults.release()
        assert place.vhost.router.route("amq.topic", "k").queues == ("q",)
        await place.vhost.queues.delete(queue)
        assert not place.vhost.router.route("amq.topic", "k").queues
        assert not place.vhost.queues.has(queue)
