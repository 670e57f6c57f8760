"""Reading: which client is read first when one sends all it can and another little."""

from collections import deque
from typing import cast

import pytest
import trio

from arneb_amqp.server.transport.link import RECEIVE_BYTES_MAX, Link
from arneb_amqp.server.transport.polling import REST_TURNS, WITHOUT_PASS_S, Polling
from arneb_amqp.server.transport.reading import Reading
from arneb_core.api.process.long_turns import FIRST_READ_BYTES, LARGE_READ_BYTES, LongTurns


class Sent:
    """A link on which so much has arrived, read by read."""

    filled = False

    def __init__(self, *sizes: int) -> None:
        self.sizes = deque(sizes)
        self.asked: list[int] = []
        self.polls = 0

    async def receive(self, size: int) -> bytes:
        self.asked.append(size)
        return bytes(min(size, self.sizes.popleft())) if self.sizes else b""

    def receive_now(self, size: int) -> bytes:
        self.polls += 1
        return b""


class Passes(trio.abc.Instrument):
    """Counts the passes of the loop."""

    def __init__(self) -> None:
        self.number = 0

    def after_io_wait(self, timeout: float) -> None:
        self.number += 1


async def passes_of(reading: Reading, *, is_awaited: bool = False) -> int:
    """How many passes of the loop the next read takes."""
    passes = Passes()
    trio.lowlevel.add_instrument(passes)
    await reading.receive(is_awaited=is_awaited)
    trio.lowlevel.remove_instrument(passes)
    return passes.number


async def test_a_client_that_sends_much_is_read_in_large_pieces_until_it_sends_little() -> None:
    link = Sent(100, FIRST_READ_BYTES, RECEIVE_BYTES_MAX, 5_000, 100, 100)
    reading = Reading(cast("Link", link), LongTurns())
    sizes = [len(await reading.receive(is_awaited=False)) for _ in range(7)]
    assert sizes == [100, FIRST_READ_BYTES, RECEIVE_BYTES_MAX, 5_000, 100, 100, 0]
    small, large = FIRST_READ_BYTES, RECEIVE_BYTES_MAX
    assert link.asked == [small, small, large, large, large, small, small]


async def test_a_client_that_has_sent_much_is_read_after_one_that_has_sent_little() -> None:
    turns = LongTurns()
    much = Reading(cast("Link", Sent(*[RECEIVE_BYTES_MAX] * 5)), turns)
    little = Reading(cast("Link", Sent(100, 100)), turns)
    await much.receive(is_awaited=False)
    assert await passes_of(much) == 0, "no other connection is there to wait for"
    await little.receive(is_awaited=False)
    assert await passes_of(much) == 1
    assert await passes_of(much) == 0, "the one that sent little has sent all"
    await little.receive(is_awaited=False)
    assert await passes_of(much) == 1


async def test_a_client_that_sends_no_more_than_many_do_waits_for_no_pass() -> None:
    """What many clients send in one pass is one commit, which must not be split."""
    turns = LongTurns()
    some = Reading(cast("Link", Sent(*[LARGE_READ_BYTES - 1] * 3)), turns)
    little = Reading(cast("Link", Sent(100)), turns)
    await some.receive(is_awaited=False)
    await little.receive(is_awaited=False)
    assert await passes_of(some) == 0


@pytest.mark.parametrize("is_awaited", [True, False])
async def test_a_client_that_is_alone_and_has_its_answers_is_polled(*, is_awaited: bool) -> None:
    link = Sent(*[100] * (REST_TURNS + 1))
    reading = Reading(cast("Link", link), LongTurns())
    reading.polling._may_poll = True  # as on two cores
    for _ in range(REST_TURNS + 1):
        assert await reading.receive(is_awaited=is_awaited)
    assert bool(link.polls) is is_awaited


async def test_a_client_that_is_polled_lets_others_have_turns_now_and_then() -> None:
    link, now_s = Sent(*[100] * (REST_TURNS + 2)), 1.0
    link.receive_now = lambda size: b"soon"  # type: ignore[method-assign]
    link.has_come = lambda: False  # type: ignore[attr-defined]
    reading = Reading(cast("Link", link), LongTurns())
    reading.polling = Polling(cast("Link", link), 2, lambda: now_s)
    for _ in range(REST_TURNS):
        await reading.receive(is_awaited=True)
    assert len(link.sizes) == 2, "it was polled too soon"
    assert await passes_of(reading, is_awaited=True) == 0
    for _ in range(2):
        now_s += 2 * WITHOUT_PASS_S
        reading.polling.answers()
        assert await passes_of(reading, is_awaited=True) == 1
        reading.polling.answers()
        assert await passes_of(reading, is_awaited=True) == 0
    assert len(link.sizes) == 2, "it waited for the data"
