"""Queue limits: what leaves a queue by itself, and that it arrives where it belongs, once."""

from dataclasses import replace

import pytest
import trio
from tests.amqp_frontend.topology.conftest import ME, Box, Opener, RunningVhost

from arneb_amqp.consumption import Consumption
from arneb_amqp.topology.names import topic_of
from arneb_amqp.topology.policies.policies import Policies
from arneb_amqp.topology.queues import maintenance
from arneb_amqp.topology.queues.attachments import Attachment
from arneb_amqp.topology.queues.maintenance import delete_expired, retry_dead_letters
from arneb_amqp.topology.queues.queue import Queue
from arneb_amqp.wire.constants import ChannelId
from arneb_amqp.wire.content import compose
from arneb_amqp.wire.properties import Properties, encode_properties
from arneb_amqp.wire.route import join_route
from arneb_amqp.wire.tables import Field, long, longstr
from arneb_core.access.records import Policy
from arneb_core.api.entries.entry import HEADER_BYTES, EntryFlag, EntryHeader, Origin, read_header
from arneb_core.api.process.clock import monotonic_ms
from arneb_core.api.subscriptions.windows import Window
from arneb_core.testing.engine_kit import append, quiet

PROPERTIES = encode_properties(Properties(content_type="text/plain"))


def entry(payload: bytes, queue: str = "q") -> bytes:
    route = join_route("", queue)
    head = EntryHeader(Origin.AMQP, publish_time_ms=1, hint=len(route)).pack()
    return head + route + compose(ChannelId(1), PROPERTIES, payload)


async def put(place: RunningVhost, queue: Queue, *payloads: bytes) -> None:
    await append(place.engine, queue.topic.name, [entry(each, queue.name) for each in payloads])
    await quiet(place.engine)


async def attach(place: RunningVhost, box: Box, *, prefetch: int = 0) -> Attachment:
    async with place.topology.changing():
        wanted = Consumption("q", "tag", False, False, {}, (Window(prefetch), Window()))
        attachment = await place.vhost.attachments.attach(wanted, ME, box)
    await quiet(place.engine)
    return attachment


async def detach(place: RunningVhost, attachment: Attachment) -> None:
    async with place.topology.changing():
        await place.vhost.attachments.detach(attachment)
    await quiet(place.engine)


def to_dead(**more: Field) -> dict[str, Field]:
    named = {f"x-{key.replace('_', '-')}": value for key, value in more.items()}
    return {
        "x-dead-letter-exchange": longstr(""),
        "x-dead-letter-routing-key": longstr("dead"),
        **named,
    }


async def test_a_quorum_queue_counts_returns_of_consumers_that_leave(broker: Opener) -> None:
    async with broker() as place:
        dead = await place.declare("dead")
        queue = await place.declare(
            arguments=to_dead(queue_type=longstr("quorum"), delivery_limit=long(1))
        )
        await put(place, queue, b"a")
        for lives in (0, 1):
            assert (queue.message_count, dead.message_count) == (1, 0), lives
            box = Box()
            await detach(place, await attach(place, box))
            assert len(box.runs) == 1
        assert (queue.message_count, dead.message_count) == (0, 1)


async def test_a_classic_queue_does_not_count(broker: Opener) -> None:
    async with broker() as place:
        await place.declare("dead")
        queue = await place.declare(arguments=to_dead())
        await put(place, queue, b"a")
        for _ in range(5):
            box = Box()
            await detach(place, await attach(place, box))
            assert box.runs[0].redelivery_counts is None
        assert queue.message_count == 1


async def test_a_dead_letter_is_stored_once_though_its_commit_failed(broker: Opener) -> None:
    """In a transient queue, which keeps it in memory only, and in a durable one."""
    for durable in (True, False):
        async with broker() as place:
            dead = await place.declare("dead", durable=durable)
            queue = await place.declare(arguments=to_dead())
            await put(place, queue, b"a")
            box = Box()
            attachment = await attach(place, box)
            place.faults.fail_next()
            attachment.consumer.reject(box.runs[0].positions)
            await quiet(place.engine)
            assert dead.message_count == 0
            assert attachment.consumer.in_flight == 0
            await retry_dead_letters(place.vhost.queues)
            await quiet(place.engine)
            assert (queue.message_count, dead.message_count) == (0, 1)
            await detach(place, attachment)
            assert queue.message_count == 0
            async with place.topology.changing():
                await place.vhost.queues.delete(queue)
                await place.vhost.queues.delete(dead)


async def test_a_deleted_queue_takes_its_dead_letters_with_it(broker: Opener) -> None:
    async with broker() as place:
        dead = await place.declare("dead")
        queue = await place.declare(arguments=to_dead())
        await put(place, queue, b"a")
        box = Box()
        attachment = await attach(place, box)
        place.faults.fail_next()
        attachment.consumer.reject(box.runs[0].positions)
        await quiet(place.engine)
        async with place.topology.changing():
            await place.vhost.queues.delete(queue)
        await retry_dead_letters(place.vhost.queues)
        await quiet(place.engine)
        assert dead.message_count == 0


@pytest.mark.parametrize("durable", [True, False])
async def test_a_full_queue_refuses_dead_letters_too(broker: Opener, *, durable: bool) -> None:
    """Everything that arrives at once, and what is on its way to disk, counts. A refused one
    becomes a dead letter again."""
    async with broker() as place:
        more = {"x-max-length-bytes": long(2), "x-overflow": longstr("reject-publish-dlx")}
        further = {**to_dead(), "x-dead-letter-routing-key": longstr("last"), **more}
        last = await place.declare("last")
        full = await place.declare("dead", durable=durable, arguments=further)
        queue = await place.declare(arguments=to_dead())
        await put(place, queue, b"a", b"b", b"c")
        box = Box()
        attachment = await attach(place, box)
        for run in list(box.runs):
            attachment.consumer.reject(run.positions)
        await quiet(place.engine)
        assert (queue.message_count, full.message_count, last.message_count) == (0, 2, 1)
        assert full.overflow is not None
        assert not full.overflow.incoming
        await detach(place, attachment)


async def test_an_expired_message_is_dropped_at_once_unless_others_are_before_it(
    broker: Opener,
) -> None:
    async with broker() as place:
        arguments = {"x-max-length": long(3), "x-overflow": longstr("reject-publish")}
        staying = await place.declare(arguments=arguments)
        fleeting = await place.declare("f", arguments={**arguments, "x-message-ttl": long(0)})
        assert staying.overflow is not None
        assert fleeting.overflow is not None
        soon = EntryHeader(Origin.AMQP, publish_time_ms=5, expires_at_ms=5).pack()
        assert staying.overflow.outlives(entry(b"a"))
        assert not staying.overflow.outlives(soon)
        assert not fleeting.overflow.outlives(entry(b"a"))
        staying.overflow.let_in(1)
        assert staying.overflow.outlives(soon)
        staying.overflow.arrived()
        await put(place, staying, b"a")
        assert staying.overflow.outlives(soon)


async def test_a_queue_that_refuses_counts_payloads(broker: Opener) -> None:
    async with broker() as place:
        arguments = {"x-max-length-bytes": long(300), "x-overflow": longstr("reject-publish")}
        queue = await place.declare(arguments=arguments)
        overflow = queue.overflow
        assert overflow is not None
        await put(place, queue, bytes(100), bytes(100))
        assert overflow.takes(100)
        assert not overflow.takes(101)
        overflow.let_in(50)
        assert overflow.takes(50)
        assert not overflow.takes(51)
        overflow.arrived()
        assert overflow.takes(100)


async def test_what_consumers_have_room_for_does_not_count(broker: Opener) -> None:
    async with broker() as place:
        arguments = {"x-max-length": long(1), "x-overflow": longstr("reject-publish")}
        arguments["x-max-length-bytes"] = long(10)
        queue = await place.declare(arguments=arguments)
        overflow = queue.overflow
        assert overflow is not None
        await attach(place, Box(), prefetch=2)
        for size in (10, 9, 8):
            assert overflow.takes(size)
            assert not overflow.takes(11), "it would have to wait before going to the consumer"
            overflow.let_in(size)
        assert not overflow.takes(1), "one waits already, after two that go to the consumer"
        overflow.arrived()


async def test_an_unused_queue_expires(broker: Opener) -> None:
    async with broker() as place:
        queue = await place.declare(arguments={"x-expires": long(1_000)})
        attachment = await attach(place, Box())
        begun_ms = queue.used_at_ms
        async with place.topology.changing():
            assert (await delete_expired(place.vhost.queues, begun_ms + 5_000))[0] == 1_000
        await detach(place, attachment)
        async with place.topology.changing():
            assert (await delete_expired(place.vhost.queues, begun_ms + 5_400))[0] == 600
            assert place.vhost.queues.has(queue)
            await delete_expired(place.vhost.queues, begun_ms + 6_000)
            assert not place.vhost.queues.has(queue)


async def test_polling_does_not_keep_a_queue(broker: Opener) -> None:
    """A consumer does, but not a channel that asked for a single message once."""
    async with broker() as place:
        queue = await place.declare(arguments={"x-expires": long(1_000)})
        async with place.topology.changing():
            await place.vhost.attachments.attach_getter("q", ME, Box(), no_ack=False)
        polled_ms = queue.used_at_ms
        async with place.topology.changing():
            assert (await delete_expired(place.vhost.queues, polled_ms + 400))[0] == 600
            await delete_expired(place.vhost.queues, polled_ms + 1_000)
            assert not place.vhost.queues.has(queue)


async def test_setting_the_wall_clock_expires_no_queue(broker: Opener) -> None:
    """How long a queue has not been used is measured with the monotonic clock."""
    async with broker() as place:
        queue = await place.declare(arguments={"x-expires": long(1_000)})
        assert 0 < queue.used_at_ms <= monotonic_ms()


async def test_a_topic_without_a_declared_queue_accepts_dead_letters(broker: Opener) -> None:
    """A Pulsar client created it; publishes to the default exchange find it too."""
    async with broker() as place:
        queue = await place.declare(arguments=to_dead())
        topic = await place.engine.create_topic(topic_of("public/default", "dead"))
        await put(place, queue, b"a")
        box = Box()
        attachment = await attach(place, box)
        attachment.consumer.reject(box.runs[0].positions)
        await quiet(place.engine)
        assert topic.statistics().messages == 1


async def test_a_dead_letter_keeps_its_priority(broker: Opener) -> None:
    async with broker() as place:
        dead = await place.declare("dead")
        queue = await place.declare(arguments=to_dead(max_priority=long(9)))
        urgent = replace(read_header(entry(b"a")), priority=7).pack() + entry(b"a")[HEADER_BYTES:]
        await append(place.engine, queue.topic.name, [urgent])
        box = Box()
        attachment = await attach(place, box)
        attachment.consumer.reject(box.runs[0].positions)
        await quiet(place.engine)
        last = await dead.topic.last_entry()
        assert last is not None
        header = read_header(last[1])
        assert (header.priority, header.flags) == (7, EntryFlag.DEAD_LETTERED)


async def test_queues_are_checked_a_few_at_a_time(
    broker: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint, turns = trio.lowlevel.checkpoint, 0

    async def noted() -> None:
        nonlocal turns
        turns += 1
        await checkpoint()

    async with broker() as place:
        for number in range(5):
            await place.declare(f"q{number}")
            await place.declare(f"e{number}", arguments={"x-expires": long(600_000)})
        monkeypatch.setattr(maintenance, "QUEUES_PER_TURN", 2)
        monkeypatch.setattr(trio.lowlevel, "checkpoint", noted)
        async with place.topology.changing():
            turns = 0
            assert (await delete_expired(place.vhost.queues, monotonic_ms()))[1]
            assert turns == 2
        turns = 0
        await retry_dead_letters(place.vhost.queues)
        assert turns == 2


async def test_only_queues_that_need_it_are_checked(broker: Opener) -> None:
    expiring, dying = {"x-expires": long(600_000)}, {"x-dead-letter-exchange": longstr("x")}

    def attended(place: RunningVhost) -> list[str]:
        assert all(place.vhost.queues.has(each) for each in place.vhost.queues.attended.values())
        return sorted(place.vhost.queues.attended)

    async with broker() as place:
        await place.declare("plain")
        await place.declare("brief", durable=False, arguments=expiring)
        await place.declare("expiring", arguments=expiring)
        await place.declare("dying", arguments=dying)
        assert attended(place) == ["brief", "dying", "expiring"]
        for policy, found in [({"expires": 600_000}, ["plain"]), ({}, [])]:
            place.vhost.queues.policies = Policies(
                [Policy("/", "all", "^plain$", policy)] if policy else ()
            )
            await place.vhost.queues.apply_policies(place.vhost.queues)
            assert attended(place) == sorted(["brief", "dying", "expiring", *found])
        async with place.topology.changing():
            await place.vhost.queues.delete_by_name("dying", ME, if_unused=False, if_empty=False)
        assert attended(place) == ["brief", "expiring"]
    async with broker() as place:
        assert attended(place) == ["expiring"]
