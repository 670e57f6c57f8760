"""Kept letters: dead letters of queues with the strategy "at-least-once" that no queue takes."""

from collections.abc import Mapping

import pytest
from tests.amqp_frontend.topology.conftest import ME, Box, Opener, RunningVhost
from tests.amqp_frontend.topology.queues.test_limits import attach, detach, put

from arneb_amqp.consumption import Consumption
from arneb_amqp.routing.exchange import Binding, Exchange
from arneb_amqp.topology import dead_letters
from arneb_amqp.topology.kept_dead_letters import KEPT_MAX, RETRY_MS_MAX, RETRY_MS_MIN
from arneb_amqp.topology.policies.policies import Policies
from arneb_amqp.topology.queues.attachments import Attachment
from arneb_amqp.topology.queues.maintenance import retry_dead_letters
from arneb_amqp.topology.queues.queue import Queue
from arneb_amqp.wire.content import payload_of
from arneb_amqp.wire.route import content_start
from arneb_amqp.wire.tables import Field, long, longstr
from arneb_core.access.records import Policy
from arneb_core.api.entries.position import Position
from arneb_core.api.subscriptions.windows import Window
from arneb_core.testing.engine_kit import quiet

KEEPS: Mapping[str, Field] = {
    "x-queue-type": longstr("quorum"),
    "x-overflow": longstr("reject-publish"),
    "x-dead-letter-exchange": longstr("dlx"),
    "x-dead-letter-strategy": longstr("at-least-once"),
}
FANOUT = Exchange("dlx", "fanout", durable=True)


class Time:
    """The monotonic clock that decides when letters are sent again."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000

    def __call__(self) -> int:
        return self.now_ms


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    clock = Time()
    monkeypatch.setattr(dead_letters, "monotonic_ms", clock)
    return clock


async def passes(place: RunningVhost, time: Time, ms: int = RETRY_MS_MAX) -> None:
    """Let that much time pass, then maintain the queues."""
    time.now_ms += ms
    await retry_dead_letters(place.vhost.queues)
    await quiet(place.engine)


async def rejected(place: RunningVhost, queue: Queue, *payloads: bytes) -> Attachment:
    """Put these into ``queue`` and have a consumer reject them all; return it."""
    box = Box()
    attachment = await attach(place, box)
    await put(place, queue, *payloads)
    for run in box.runs:
        attachment.consumer.reject(run.positions)
    await quiet(place.engine)
    return attachment


async def make_exchange(place: RunningVhost, *queues: str) -> None:
    async with place.topology.changing():
        await place.vhost.exchanges.declare(FANOUT)
        for each in queues:
            await place.vhost.exchanges.bind(Binding("dlx", each, ""), ME)


async def content(place: RunningVhost, queue: Queue) -> list[bytes]:
    """The payloads in ``queue``, in its order; they stay there."""
    box = Box()
    async with place.topology.changing():
        wanted = Consumption(queue.name, "reader", False, False, {}, (Window(0), Window()))
        attachment = await place.vhost.attachments.attach(wanted, ME, box)
    await quiet(place.engine)
    await detach(place, attachment)
    return [payload_of(each, content_start(each)) for run in box.runs for each in run.entries]


async def test_a_letter_waits_for_its_exchange_and_its_queue(broker: Opener, time: Time) -> None:
    async with broker() as place:
        queue = await place.declare(arguments=KEEPS)
        attachment = await rejected(place, queue, b"a", b"b")
        await passes(place, time)
        dead = await place.declare("dead")
        await make_exchange(place)
        await passes(place, time)
        assert dead.message_count == 0, "nothing is bound"
        await make_exchange(place, "dead")
        await passes(place, time)
        assert await content(place, dead) == [b"a", b"b"]
        await detach(place, attachment)
    async with broker() as place:
        async with place.topology.changing():
            queue, dead = [await place.vhost.queues.find(name) for name in ("q", "dead")]
        assert (queue.message_count, dead.message_count) == (0, 2)


async def test_a_letter_that_waits_is_in_its_queue_after_a_restart(
    broker: Opener, time: Time
) -> None:
    async with broker() as place:
        queue = await place.declare(arguments=KEEPS)
        await detach(place, await rejected(place, queue, b"a"))
        assert queue.message_count == 0
    async with broker() as place:
        async with place.topology.changing():
            queue = await place.vhost.queues.find("q")
        assert await content(place, queue) == [b"a"]


@pytest.mark.parametrize("change", ["kind", "overflow", "strategy"])
async def test_only_quorum_queues_that_refuse_publishes_keep_letters(
    broker: Opener, time: Time, change: str
) -> None:
    arguments = dict(KEEPS)
    if change == "kind":
        arguments["x-queue-type"] = longstr("classic")
        del arguments["x-dead-letter-strategy"]
    else:
        del arguments[{"overflow": "x-overflow", "strategy": "x-dead-letter-strategy"}[change]]
    async with broker() as place:
        queue = await place.declare(arguments=arguments)
        attachment = await rejected(place, queue, b"a")
        dead = await place.declare("dead")
        await make_exchange(place, "dead")
        await passes(place, time)
        await detach(place, attachment)
        assert (queue.message_count, dead.message_count) == (0, 0)
    async with broker() as place:
        async with place.topology.changing():
            queue = await place.vhost.queues.find("q")
        assert queue.message_count == 0, "it was acknowledged"


async def test_each_queue_gets_a_letter_once_however_long_another_refuses(
    broker: Opener, time: Time
) -> None:
    async with broker() as place:
        bounds = {"x-max-length": long(1), "x-overflow": longstr("reject-publish")}
        free, full = await place.declare("free"), await place.declare("full", arguments=bounds)
        await make_exchange(place, "free", "full")
        await put(place, full, b"first")
        queue = await place.declare(arguments=KEEPS)
        attachment = await rejected(place, queue, b"a")
        for _ in range(3):
            assert await content(place, free) == [b"a"]
            assert await content(place, full) == [b"first"]
            await passes(place, time)
        async with place.topology.changing():
            await full.purge()
        await passes(place, time)
        assert await content(place, free) == [b"a"]
        assert await content(place, full) == [b"a"]
        assert full.overflow is not None
        assert not full.overflow.incoming
        await detach(place, attachment)


async def test_a_letter_is_done_if_only_queues_that_have_it_are_left(
    broker: Opener, time: Time
) -> None:
    async with broker() as place:
        bounds = {"x-max-length": long(0), "x-overflow": longstr("reject-publish")}
        free, full = await place.declare("free"), await place.declare("full", arguments=bounds)
        await make_exchange(place, "free", "full")
        queue = await place.declare(arguments=KEEPS)
        attachment = await rejected(place, queue, b"a")
        async with place.topology.changing():
            await place.vhost.queues.delete(full)
        await passes(place, time)
        await detach(place, attachment)
    async with broker() as place:
        async with place.topology.changing():
            queue = await place.vhost.queues.find("q")
        assert queue.message_count == 0
        assert free.message_count == 1


async def test_what_a_refusing_queue_dead_letters_itself_is_not_sent_again(
    broker: Opener, time: Time
) -> None:
    async with broker() as place:
        last = await place.declare("last")
        full = {
            "x-max-length": long(0),
            "x-overflow": longstr("reject-publish-dlx"),
            "x-dead-letter-exchange": longstr(""),
            "x-dead-letter-routing-key": longstr("last"),
        }
        await place.declare("full", arguments=full)
        await make_exchange(place, "full")
        queue = await place.declare(arguments=KEEPS)
        attachment = await rejected(place, queue, b"a")
        await passes(place, time)
        assert await content(place, last) == [b"a"]
        await detach(place, attachment)


async def test_a_letter_is_there_once_though_commits_failed(broker: Opener, time: Time) -> None:
    async with broker() as place:
        dead = await place.declare("dead")
        queue = await place.declare(arguments=KEEPS)
        attachment = await rejected(place, queue, b"a", b"b")
        await make_exchange(place, "dead")
        place.faults.fail_until_healed()
        for _ in range(3):
            await passes(place, time)
            assert dead.message_count == 0
        place.faults.heal()
        await passes(place, time)
        assert await content(place, dead) == [b"a", b"b"]
        await detach(place, attachment)


async def test_letters_are_sent_again_less_and_less_often(broker: Opener, time: Time) -> None:
    async with broker() as place:
        queue = await place.declare(arguments=KEEPS)
        attachment = await rejected(place, queue, b"a")
        assert queue.dead_lettering is not None
        wait_ms = RETRY_MS_MIN
        for _ in range(12):
            time.now_ms += wait_ms - 1
            assert not queue.dead_lettering.retry()
            time.now_ms += 1
            assert queue.dead_lettering.retry()
            wait_ms = min(2 * wait_ms, RETRY_MS_MAX)
        await detach(place, attachment)


async def test_few_letters_are_kept_in_memory_and_the_others_follow(
    broker: Opener, time: Time
) -> None:
    payloads = [b"%d" % number for number in range(3 * KEPT_MAX)]
    async with broker() as place:
        queue = await place.declare(arguments=KEEPS)
        attachment = await rejected(place, queue, *payloads)
        assert queue.dead_lettering is not None
        assert f" {KEPT_MAX} kept" in repr(queue.dead_lettering)
        dead = await place.declare("dead")
        await make_exchange(place, "dead")
        await passes(place, time)
        assert sorted(await content(place, dead)) == sorted(payloads)
        await detach(place, attachment)


async def test_letters_are_dropped_when_they_need_not_be_kept_any_more(
    broker: Opener, time: Time
) -> None:
    by_policy = {"dead-letter-strategy": "at-least-once", "dead-letter-exchange": "dlx"}
    kept = {name: KEEPS[name] for name in ("x-queue-type", "x-overflow")}
    async with broker() as place:
        queue = await place.declare(arguments=kept)
        for definition in (by_policy, {}):
            found = [Policy("/", "all", "^q$", definition)] if definition else ()
            place.vhost.queues.policies = Policies(found)
            await place.vhost.queues.apply_policies(place.vhost.queues)
            await quiet(place.engine)
            if definition:
                attachment = await rejected(place, queue, b"a")
        assert queue.dead_lettering is not None
        assert " 1 kept" in repr(queue.dead_lettering)
        await passes(place, time, 0)
        assert " 0 kept" in repr(queue.dead_lettering)
        await detach(place, attachment)
    async with broker() as place:
        async with place.topology.changing():
            queue = await place.vhost.queues.find("q")
        assert queue.message_count == 0


async def test_letters_that_a_seek_returned_are_not_sent(broker: Opener, time: Time) -> None:
    async with broker() as place:
        dead = await place.declare("dead")
        queue = await place.declare(arguments=KEEPS)
        attachment = await rejected(place, queue, b"a")
        await detach(place, attachment)
        await queue.subscription.seek(Position(0))
        await quiet(place.engine)
        await make_exchange(place, "dead")
        await passes(place, time)
        assert dead.message_count == 0
        assert await content(place, queue) == [b"a"]
