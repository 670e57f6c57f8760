"""Turns of dead lettering: however many messages die, others have their turn meanwhile."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
import trio
from tests.amqp_frontend.topology.conftest import ME, Box, Opener
from tests.amqp_frontend.topology.test_failures import entry, ready

from arneb_amqp.consumption import Consumption
from arneb_amqp.topology.dead_letter_turns import LETTER_WORK, WORK_PER_PASS, Turns
from arneb_amqp.topology.dead_letters import DeadLettering
from arneb_amqp.topology.kept_dead_letters import KEPT_MAX
from arneb_amqp.wire.content import payload_of
from arneb_amqp.wire.properties import Properties
from arneb_amqp.wire.route import content_start
from arneb_amqp.wire.tables import array, long, longstr, table
from arneb_core.api.core import Unit
from arneb_core.api.subscriptions.windows import Window
from arneb_core.testing.engine_kit import until

MESSAGES = 800


@dataclass(eq=False)
class Dying:
    """A queue in which pieces of work wait."""

    log: list[str]
    name: str
    waiting: list[int] = field(default_factory=list)
    causes: Callable[[], None] = lambda: None

    @property
    def has_more(self) -> bool:
        return bool(self.waiting)

    def part(self, work: int) -> int:
        size = self.waiting.pop(0)
        self.log.append(self.name)
        self.causes()
        return size


def test_a_pass_ends_when_it_has_done_enough_and_queues_take_turns() -> None:
    passes: list[Callable[[], None]] = []
    log: list[str] = []
    turns = Turns(passes.append)
    half = WORK_PER_PASS // 2
    first, second = Dying(log, "a", [half] * 3), Dying(log, "b", [half])
    turns.add(first)
    turns.add(second)
    assert log == ["a", "a"], "no other queue was waiting yet"
    passes.pop()()
    assert log == ["a", "a"], "this may be the same pass"
    passes.pop()()
    assert log[2:] == ["a", "b"]
    passes.pop()()
    assert not passes, "nothing is left to do"
    third = Dying(log, "c", [1, WORK_PER_PASS])
    turns.add(third)
    assert log[4:] == ["c", "c"], "a later pass has work of its own"


async def test_a_pass_in_which_work_begins_does_no_more_than_others() -> None:
    """Trio runs what a pass has to do in any order."""
    log: list[str] = []
    token = trio.lowlevel.current_trio_token()
    for _ in range(20):
        token.run_sync_soon(lambda: None)
        await trio.lowlevel.checkpoint()  # the next pass has a call to make, before or after this
        turns, queue = Turns(), Dying(log, "a", [WORK_PER_PASS] * 3)
        numbers = PassNumbers()
        queue.causes = numbers.note
        trio.lowlevel.add_instrument(numbers)
        turns.add(queue)
        while queue.waiting:
            await trio.lowlevel.checkpoint()
        trio.lowlevel.remove_instrument(numbers)
        assert len(numbers.noted) == len(set(numbers.noted)) == 3


def test_what_a_part_causes_comes_after_it() -> None:
    passes: list[Callable[[], None]] = []
    log: list[str] = []
    turns = Turns(passes.append)
    queue = Dying(log, "a", [1])

    def causes() -> None:
        if len(log) < 3:
            queue.waiting.append(1)
            turns.add(queue)
            log.append("added")

    queue.causes = causes
    turns.add(queue)
    assert log == ["a", "added", "a"]


class PassNumbers(trio.abc.Instrument):
    """Notes in which passes of the loop something happens."""

    def __init__(self) -> None:
        self.number = 0
        self.noted: list[int] = []

    def before_io_wait(self, timeout: float) -> None:
        self.number += 1

    def note(self) -> None:
        self.noted.append(self.number)


class Passes(trio.abc.Instrument):
    """Counts what is done in each pass of the loop."""

    def __init__(self) -> None:
        self.done = self.most = 0

    def before_io_wait(self, timeout: float) -> None:
        self.most, self.done = max(self.most, self.done), 0


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> Passes:
    """Counts the dead letters that are made in each pass, apart from those that are like others."""
    found = Passes()
    resolve = DeadLettering._resolve

    def counted(self: DeadLettering, *arguments: Any) -> Any:
        found.done += 1
        return resolve(self, *arguments)

    monkeypatch.setattr(DeadLettering, "_resolve", counted)
    return found


async def test_messages_that_die_at_once_leave_in_several_passes(
    broker: Opener, passes: Passes
) -> None:
    """Each has a routing key of its own, so that nothing is known of it before."""
    async with broker() as place:
        await place.declare("dead")
        arguments = {
            "x-dead-letter-exchange": longstr(""),
            "x-dead-letter-routing-key": longstr("dead"),
            "x-message-ttl": long(0),
        }
        queue = await place.declare("q", arguments=arguments)
        trio.lowlevel.add_instrument(passes)
        entries = [entry(b"%d" % number, key=f"k{number}") for number in range(MESSAGES)]
        await place.engine.committed(Unit([(queue.topic, entries)]))
        await until(place.engine, lambda: ready(place, "dead") == MESSAGES)
        trio.lowlevel.remove_instrument(passes)
        sink = Box()
        wanted = Consumption("dead", "c", True, False, {}, (Window(), Window()), 1)
        async with place.topology.changing():
            await place.vhost.attachments.attach(wanted, ME, sink)
        await until(place.engine, lambda: ready(place, "dead") == 0)
        found = [each for run in sink.runs for each in run.entries]
    payloads = [payload_of(each, content_start(each)) for each in found]
    assert payloads == [b"%d" % number for number in range(MESSAGES)]
    assert 0 < passes.most <= WORK_PER_PASS // LETTER_WORK + 1


@pytest.mark.parametrize("different", [True, False])
async def test_one_long_history_is_read_in_a_pass_and_not_again_for_messages_that_share_it(
    broker: Opener, passes: Passes, monkeypatch: pytest.MonkeyPatch, different: bool
) -> None:
    """A client may make up any history, and send it as often as it likes."""
    in_parts: list[int] = []
    part = DeadLettering.part

    def counted(self: DeadLettering, work: int) -> int:
        before = passes.done
        try:
            return part(self, work)
        finally:
            in_parts.append(passes.done - before)

    monkeypatch.setattr(DeadLettering, "part", counted)
    deaths = [
        table({"queue": longstr(f"q{number}"), "reason": longstr("expired"), "count": long(1)})
        for number in range(1_000)
    ]
    forged = Properties(headers={"x-death": array(deaths)})
    arguments = {
        "x-dead-letter-exchange": longstr(""),
        "x-dead-letter-routing-key": longstr("dead"),
        "x-message-ttl": long(0),
    }
    async with broker() as place:
        await place.declare("dead")
        queue = await place.declare("q", arguments=arguments)
        entries = [
            entry(b"", key=f"k{number if different else 0}", properties=forged)
            for number in range(6)
        ]
        await place.engine.committed(Unit([(queue.topic, entries)]))
        await until(place.engine, lambda: ready(place, "dead") == 6)
    assert max(in_parts) == 1
    assert sum(in_parts) == 6 if different else sum(in_parts) <= 3, "they may come in a few runs"


async def test_letters_that_are_kept_leave_in_several_passes_too(
    broker: Opener, passes: Passes
) -> None:
    arguments = {
        "x-queue-type": longstr("quorum"),
        "x-overflow": longstr("reject-publish"),
        "x-dead-letter-exchange": longstr(""),
        "x-dead-letter-routing-key": longstr("dead"),
        "x-dead-letter-strategy": longstr("at-least-once"),
        "x-message-ttl": long(0),
    }
    async with broker() as place:
        await place.declare("dead")
        queues = [await place.declare(f"q{number}", arguments=arguments) for number in range(8)]
        trio.lowlevel.add_instrument(passes)
        entries = [entry(b"", key=f"k{number}") for number in range(KEPT_MAX)]
        await place.engine.committed(Unit([(queue.topic, entries) for queue in queues]))
        await until(place.engine, lambda: ready(place, "dead") == 8 * KEPT_MAX)
        trio.lowlevel.remove_instrument(passes)
    assert 0 < passes.most <= WORK_PER_PASS // LETTER_WORK + 1
