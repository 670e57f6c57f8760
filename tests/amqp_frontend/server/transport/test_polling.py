"""Polling: which sockets are polled again within the same turn, how often, and for how long."""

from collections import deque
from collections.abc import Iterable

import pytest
import trio

from arneb_amqp.server.transport.polling import (
    CLEAR_ANSWERS,
    POLL_S,
    REST_TURNS,
    SURE_POLLS,
    VAIN_REST_TURNS,
    WITHOUT_PASS_S,
    Polling,
)

POLLED_S = POLL_S / 4
"""What polling the socket once takes here."""

TURN_S = 0.25e-3


class Bytes:
    """A link. Data read through a pass of the loop always arrives; ``soon`` lists what each poll
    finds."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.soon: deque[bytes] = deque()
        self.more = False
        """Whether something arrived before the answer was sent."""
        self.polls = self.passes = self.asked = 0

    async def receive(self, size: int) -> bytes:
        self.passes += 1
        await trio.lowlevel.checkpoint()
        return b"passed"

    def receive_now(self, size: int) -> bytes:
        self.polls += 1
        self.now_s += POLLED_S
        return self.soon.popleft() if self.soon else b""

    def has_come(self) -> bool:
        self.asked += 1
        return self.more


class Reading:
    """Reads from such a link, and counts."""

    def __init__(self, cores: int = 2) -> None:
        self.bytes = Bytes()
        self.polling = Polling(self.bytes, cores, lambda: self.bytes.now_s)
        self.answers = True

    async def read(self, soon: Iterable[bytes] = (), *, is_awaited: bool = True) -> bytes:
        """One turn, in which polling finds ``soon``."""
        self.bytes.now_s += TURN_S
        if self.polling.asks and self.answers:
            self.polling.answers()
        self.bytes.soon = deque(soon)
        data = b""
        if is_awaited:
            if self.polling.is_pass_due:
                self.bytes.passes += 1
                self.polling.passed()
            data = self.polling.poll(100)
        if not data:
            data = await self.bytes.receive(100)
            self.polling.passed()
        return data

    async def rested(self, turns: int = REST_TURNS) -> None:
        """Use up the turns in which the socket is not polled."""
        for _ in range(turns):
            assert await self.read([b"soon"]) == b"passed"
        self.bytes.polls = self.bytes.passes = 0


async def test_a_client_that_answers_soon_is_read_without_a_pass() -> None:
    reading = Reading()
    await reading.rested()
    assert await reading.read([b"", b"soon"]) == b"soon"
    assert (reading.bytes.polls, reading.bytes.passes) == (2, 0)


async def test_polling_in_vain_is_short_and_stops_for_a_while_after_the_second_time() -> None:
    reading = Reading()
    await reading.rested()
    for polls in range(1, 3):
        assert await reading.read() == b"passed"
        assert 4 * polls <= reading.bytes.polls <= 5 * polls
    await reading.rested(VAIN_REST_TURNS)
    assert await reading.read([b"", b"soon"]) == b"soon"


@pytest.mark.parametrize("soon", [[b"soon"], [b"", b"soon"]])
async def test_a_client_that_is_slow_now_and_then_is_polled_all_the_same(
    soon: list[bytes],
) -> None:
    reading = Reading()
    await reading.rested()
    for _ in range(10):
        assert await reading.read() == b"passed"
        assert await reading.read(soon) == b"soon"


async def test_a_client_that_is_always_slow_is_polled_in_one_turn_of_five() -> None:
    reading = Reading()
    await reading.rested()
    assert await reading.read() == b"passed"
    for _ in range(10):
        reading.bytes.polls = 0
        assert await reading.read() == b"passed"
        assert reading.bytes.polls
        await reading.rested(VAIN_REST_TURNS)


async def test_a_client_that_had_already_sent_more_is_not_polled_for_a_while() -> None:
    reading = Reading()
    await reading.rested()
    assert await reading.read([b"more"]) == b"more"
    reading.bytes.more = True
    await reading.rested()


async def test_a_client_that_is_quick_and_waits_for_each_answer_is_polled_again() -> None:
    """It sent nothing before its answers. That is not checked each time."""
    reading = Reading()
    await reading.rested()
    for _ in range(CLEAR_ANSWERS + SURE_POLLS):
        assert await reading.read([b"soon"]) == b"soon"
    assert reading.bytes.asked == CLEAR_ANSWERS
    for _ in range(CLEAR_ANSWERS + SURE_POLLS):
        assert await reading.read([b"soon"]) == b"soon"
    assert reading.bytes.asked == 2 * CLEAR_ANSWERS


async def test_a_client_that_sends_on_without_answers_is_not_polled_for_a_while() -> None:
    reading = Reading()
    reading.answers = False
    await reading.rested()
    assert await reading.read([b"more"]) == b"more"
    assert await reading.read([b"more"]) == b"more"
    await reading.rested()


async def test_a_client_that_pipelines_sometimes_has_all_answers() -> None:
    """One read takes all its requests; then one takes only the first, and the others follow."""
    reading = Reading()
    await reading.rested()
    assert await reading.read([b"all"]) == b"all"
    assert await reading.read([b"first"]) == b"first"
    reading.bytes.more = True
    await reading.rested()


async def test_the_loop_gets_its_passes() -> None:
    reading = Reading()
    await reading.rested()
    between = longest = 0
    for _ in range(100):
        passes = reading.bytes.passes
        assert await reading.read([b"", b"soon"]) == b"soon"
        between = between + 1 if reading.bytes.passes == passes else 0
        longest = max(longest, between)
    assert longest == WITHOUT_PASS_S // (TURN_S + 2 * POLLED_S)
    assert reading.bytes.passes >= 100 // (longest + 2)


async def test_a_client_that_is_not_polled_costs_no_extra_pass() -> None:
    resting, single = Reading(), Reading(cores=1)
    for _ in range(REST_TURNS):
        assert await resting.read() == b"passed"
        assert await single.read() == b"passed"
    await single.read()
    assert resting.bytes.passes == REST_TURNS
    assert single.bytes.passes == REST_TURNS + 1


async def test_a_client_that_waits_for_something_or_is_not_alone_is_not_polled() -> None:
    reading = Reading()
    await reading.rested()
    assert await reading.read([b"", b"soon"], is_awaited=False) == b"passed"
    assert not reading.bytes.polls


async def test_no_connection_is_polled_where_the_client_needs_the_core() -> None:
    reading = Reading(cores=1)
    await reading.rested()
    assert await reading.read([b"", b"soon"]) == b"passed"
    assert not reading.bytes.polls
