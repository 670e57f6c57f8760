"""Policy changes apply to existing queues and exchanges, at once and after a restart."""

from struct import Struct
from typing import Any

import pytest
from tests.amqp_frontend.topology.conftest import ME, Opener, RunningVhost
from tests.amqp_frontend.topology.queues.test_limits import entry, put

from arneb_amqp.routing.exchange import Binding, Exchange
from arneb_amqp.topology.exchanges.exchanges import Exchanges
from arneb_amqp.topology.policies.policies import Policies
from arneb_amqp.topology.policy_updates import QUEUES_AT_ONCE
from arneb_amqp.topology.queues.queue import Queue
from arneb_amqp.wire.tables import long, longstr
from arneb_core.access.records import OperatorPolicy, Policy
from arneb_core.api.entries.expiry import ChangedTtl
from arneb_core.api.process.clock import wall_clock_ms
from arneb_core.testing.engine_kit import append, quiet


async def say(place: RunningVhost, definition: dict[str, Any], **more: Any) -> None:
    kind = more.pop("kind", Policy)
    fields = {"vhost": "/", "name": "p", "pattern": "^q", "definition": definition} | more
    async with place.topology.catalogue.changing() as edit:
        edit.set_policy(kind(**fields))
    await quiet(place.engine)


async def drop(place: RunningVhost, name: str = "p", kind: type[Policy] = Policy) -> None:
    async with place.topology.catalogue.changing() as edit:
        edit.clear_policy(kind, "/", name)
    await quiet(place.engine)


def applied_ttl(queue: Queue) -> Any:
    return queue.applied_limits[0].message_ttl_ms


async def test_a_length_limit_applies_at_once_and_only_while_it_is_set(broker: Opener) -> None:
    async with broker() as place:
        dead = await place.declare("dead")
        queue = await place.declare()
        await put(place, queue, b"a", b"b", b"c")
        to_dead = {"dead-letter-exchange": "", "dead-letter-routing-key": "dead"}
        await say(place, {"max-length": 1, **to_dead})
        assert (queue.message_count, dead.message_count) == (1, 2)
        await put(place, queue, b"d")
        assert (queue.message_count, dead.message_count) == (1, 3)
        await drop(place)
        await put(place, queue, b"e", b"f")
        assert (queue.message_count, dead.message_count) == (3, 3)
    async with broker() as place:
        assert place.vhost.queues.get("q").message_count == 3  # type: ignore[union-attr]


async def test_a_policy_applies_after_a_restart(broker: Opener) -> None:
    async with broker() as place:
        await place.declare()
        await say(place, {"max-length": 1})
        await say(place, {"max-length": 9, "expires": 10**9}, kind=OperatorPolicy)
    async with broker() as place:
        queue = place.vhost.queues.get("q")
        assert queue is not None
        assert queue.applied.policy == queue.applied.operator_policy == "p"
        assert (queue.options.messages_max, queue.options.expires_ms) == (1, 10**9)
        await put(place, queue, b"a", b"b")
        assert queue.message_count == 1


async def test_a_policy_applies_to_a_queue_declared_later(broker: Opener) -> None:
    async with broker() as place:
        await say(
            place, {"message-ttl": 5_000, "max-length-bytes": 10, "overflow": "reject-publish"}
        )
        queue = await place.declare(arguments={"x-message-ttl": long(9_000)})
        assert applied_ttl(queue) == 5_000
        assert place.vhost.refuses(["q"])
        assert queue.arguments == {"x-message-ttl": long(9_000)}
    async with broker() as place:
        queue = await place.declare(arguments={"x-message-ttl": long(9_000)})
        assert applied_ttl(queue) == 5_000


async def test_messages_keep_the_time_to_live_that_applied_when_they_arrived(
    broker: Opener,
) -> None:
    async with broker() as place:
        queue = await place.declare(arguments={"x-message-ttl": long(60_000)})
        began = wall_clock_ms()
        old, published = entry(b"old"), Struct(">Q").pack(began)
        await append(place.engine, queue.topic.name, [old[:8] + published + old[16:]])
        await say(place, {"message-ttl": 30_000})
        ttl = applied_ttl(queue)
        assert (ttl.of(began), ttl.of(wall_clock_ms())) == (60_000, 30_000)
        await drop(place)
        assert applied_ttl(queue).of(wall_clock_ms()) == 60_000
        assert applied_ttl(queue).of(began) == 60_000
        before = applied_ttl(queue)
        assert len(before.before) == 2
    async with broker() as place:
        queue = await place.declare(arguments={"x-message-ttl": long(60_000)})
        assert applied_ttl(queue) == before
        await queue.purge()
        await say(place, {"message-ttl": 1})
        assert applied_ttl(queue) == 1
    async with broker() as place:
        queue = await place.declare(arguments={"x-message-ttl": long(60_000)})
        assert applied_ttl(queue) == 1


async def test_what_a_crash_kept_from_being_recorded_is_recorded_at_the_start(
    broker: Opener,
) -> None:
    async with broker() as place:
        queue = await place.declare()
        await put(place, queue, b"old")
        async with place.topology.catalogue.changing() as edit:
            edit.set_policy(Policy("/", "p", "", {"message-ttl": 0}))
            place.topology.catalogue._followers.clear()  # as a crash does
    async with broker() as place:
        found = place.vhost.queues.get("q")
        assert found is not None
        assert isinstance(applied_ttl(found), ChangedTtl)
        await quiet(place.engine)
        assert found.message_count == 1


async def test_a_record_that_cannot_be_written_changes_nothing_else(broker: Opener) -> None:
    async with broker() as place:
        queue = await place.declare()
        await put(place, queue, b"old")

        async def fail(changed: object) -> None:
            place.faults.fail_next()

        place.topology.catalogue._followers.insert(0, fail)
        await say(place, {"message-ttl": 30_000})
        assert isinstance(applied_ttl(queue), ChangedTtl)


async def test_what_a_queue_refuses_follows_the_policy(broker: Opener) -> None:
    async with broker() as place:
        queue = await place.declare()
        generation = place.vhost.router.generation
        await say(place, {"max-length": 1, "overflow": "reject-publish"})
        assert place.vhost.refuses(["q"])
        assert place.vhost.router.generation > generation
        overflow = queue.overflow
        assert overflow is not None
        assert overflow.takes(1)
        await put(place, queue, b"a")
        assert not overflow.takes(1)
        await say(place, {"max-length": 2, "overflow": "reject-publish"})
        assert place.vhost.queues.refusing["q"] is overflow
        assert overflow.takes(1)
        await say(place, {"max-length": 5})
        assert not place.vhost.refuses(["q"])
        await drop(place)
        assert queue.options.messages_max is None


async def test_dead_letters_go_where_the_policy_now_says(broker: Opener) -> None:
    async with broker() as place:
        one, other = await place.declare("one"), await place.declare("other")
        queue = await place.declare()
        for target in ("one", "other"):
            await put(place, queue, b"a", b"b")
            route = {"dead-letter-exchange": "", "dead-letter-routing-key": target}
            await say(place, {"max-length": 0, **route})
            await drop(place)
        assert (one.message_count, other.message_count, queue.message_count) == (2, 2, 0)
        await put(place, queue, b"c")
        await say(place, {"max-length": 0})
        assert (one.message_count, other.message_count, queue.message_count) == (2, 2, 0)


async def test_the_expiry_of_a_queue_is_counted_from_the_policy(broker: Opener) -> None:
    async with broker() as place:
        queue = await place.declare()
        queue.used_at_ms = 0
        await say(place, {"max-length": 5})
        assert queue.used_at_ms == 0
        await say(place, {"expires": 1_000})
        assert queue.used_at_ms > 0
        assert queue.options.expires_ms == 1_000


async def test_an_alternate_exchange_can_be_set_and_its_argument_takes_precedence(
    broker: Opener,
) -> None:
    async with broker() as place:
        router = place.vhost.router
        await place.declare()
        await say(place, {"alternate-exchange": "amq.fanout"}, pattern="^x", apply_to="exchanges")
        async with place.topology.changing():
            exchanges: Exchanges = place.vhost.exchanges
            await exchanges.declare(Exchange("x", "direct", durable=True))
            argument = {"alternate-exchange": longstr("amq.direct")}
            await exchanges.declare(Exchange("x2", "direct", durable=True, arguments=argument))
        fanned = Exchange("amq.fanout", "fanout")
        assert router.exchange("x2").alternate == "amq.direct"
        await bound(place, fanned.name)
        assert router.route("x", "k").queues == ("q",)
        assert router.route("x2", "k").queues == ()
        await drop(place)
        assert router.route("x", "k").queues == ()
        await say(place, {"alternate-exchange": "amq.fanout"}, pattern="", apply_to="all")
        assert router.route("x", "k").queues == ("q",)
        assert router.route("amq.topic", "k").queues == ("q",)
    async with broker() as place:
        assert place.vhost.router.route("x", "k").queues == ("q",)


async def bound(place: RunningVhost, exchange: str) -> None:
    async with place.topology.changing():
        await place.vhost.exchanges.bind(Binding(exchange, "q"), ME)


async def test_a_stream_retains_what_the_policy_says(broker: Opener) -> None:
    arguments = {"x-queue-type": longstr("stream"), "x-max-age": longstr("1D")}
    async with broker() as place:
        stream = await place.declare(arguments=arguments)
        kept = {"max-age": "1h", "max-length-bytes": 10**6, "stream-max-segment-size-bytes": 10**5}
        await say(place, kept)
        settings = stream.topic.settings  # type: ignore[attr-defined]
        assert (settings.retention_ms, settings.retention_bytes) == (3_600_000, 10**6)
        assert settings.ledger_bytes_max == stream.topic.log.ledger_bytes_max == 10**5  # type: ignore[attr-defined]
        await drop(place)
        assert stream.topic.settings.retention_ms == 86_400_000  # type: ignore[attr-defined]


async def test_all_queues_of_a_vhost_are_visited(broker: Opener) -> None:
    async with broker() as place:
        names = [f"q{number}" for number in range(QUEUES_AT_ONCE + 5)]
        for name in names:
            await place.declare(name, durable=False)
        await place.declare("other")
        await say(place, {"max-length": 3})
        held = {queue.name for queue in place.vhost.queues if queue.options.messages_max == 3}
        assert held == set(names)


async def test_a_queue_that_is_being_declared_gets_the_latest_policies(
    broker: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with broker() as place:
        create = place.engine.create_topic

        async def meanwhile(*given: Any, **more: Any) -> Any:
            topic = await create(*given, **more)
            policy = Policy("/", "p", "", {"max-length": 1})
            place.vhost.policy_updates.replace(Policies([policy]))
            return topic

        monkeypatch.setattr(place.engine, "create_topic", meanwhile)
        queue = await place.declare()
        assert queue.options.messages_max == 1


async def test_a_vhost_that_is_deleted_takes_its_policies_with_it(broker: Opener) -> None:
    async with broker() as place:
        catalogue = place.topology.catalogue
        async with catalogue.changing() as edit:
            edit.put_vhost("v")
            edit.set_policy(Policy("v", "p", "", {"max-length": 1}))
        await catalogue.delete_vhost("v")
        assert place.topology.vhost("v") is None
