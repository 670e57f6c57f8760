"""An attachment, in each state that it can be in: where each input leads, and that it never comes
back when nobody wants it any more."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio
import pytest
from tests.pulsar_frontend.client.in_memory import client_of

from arneb_pulsar.client.attachment import MOVES, Attachment, State
from arneb_pulsar.client.connection.connection import Connection
from arneb_pulsar.client.errors import (
    ClientClosed,
    Disconnected,
    PulsarError,
    TopicNotFound,
)
from arneb_pulsar.client.testing import FakeBroker
from arneb_pulsar.names import parse_topic


class Attached:
    """An attachment on the broker in memory, and what became of it."""

    def __init__(self) -> None:
        self.broker = FakeBroker()
        self.refusal: PulsarError | None = None
        """What each attempt comes to."""
        self.waits: anyio.Event | None = None
        """What an attempt waits for."""
        self.attempts = 0
        self.ended: list[PulsarError] = []
        self.it: Attachment

    async def attach(self, _connection: Connection) -> None:
        self.attempts += 1
        if self.waits is not None:
            await self.waits.wait()
        if self.refusal is not None:
            raise self.refusal

    async def go_on(self) -> None:
        await anyio.sleep(5)


@asynccontextmanager
async def made() -> AsyncIterator[Attached]:
    found = Attached()
    async with client_of(found.broker) as client:
        found.it = Attachment(
            client._context, parse_topic("orders"), found.attach, found.ended.append
        )
        yield found


async def new(_: Attached) -> None: ...


async def attached(found: Attached) -> None:
    await found.it.start()


async def coming(found: Attached) -> None:
    await found.it.start()
    found.refusal = Disconnected("not yet")
    found.it.lost()
    await found.go_on()


async def stopped(found: Attached) -> None:
    await found.it.start()
    found.it.stop()


def lose(found: Attached) -> None:
    found.refusal = None
    found.it.lost()


def refuse(found: Attached) -> None:
    found.refusal = TopicNotFound("gone")
    found.it.lost()


def stop(found: Attached) -> None:
    found.it.stop()


Begin = Callable[[Attached], Awaitable[None]]
REACHED: dict[State, Begin] = {
    State.NEW: new,
    State.COMING: coming,
    State.ATTACHED: attached,
    State.STOPPED: stopped,
}
INPUTS: dict[str, Callable[[Attached], None]] = {"lose": lose, "refuse": refuse, "stop": stop}
LEADS: dict[tuple[State, str], State] = {
    (State.NEW, "lose"): State.NEW,
    (State.NEW, "refuse"): State.NEW,
    (State.NEW, "stop"): State.STOPPED,
    (State.COMING, "lose"): State.ATTACHED,
    (State.COMING, "refuse"): State.COMING,
    (State.COMING, "stop"): State.STOPPED,
    (State.ATTACHED, "lose"): State.ATTACHED,
    (State.ATTACHED, "refuse"): State.COMING,
    (State.ATTACHED, "stop"): State.STOPPED,
    (State.STOPPED, "lose"): State.STOPPED,
    (State.STOPPED, "refuse"): State.STOPPED,
    (State.STOPPED, "stop"): State.STOPPED,
}
"""Where each input leads; what was refused for good has told its owner, who stops it."""


@pytest.mark.parametrize("given", INPUTS)
@pytest.mark.parametrize("state", State)
async def test_each_input_leads_from_each_state_where_it_should(state: State, given: str) -> None:
    async with made() as found:
        await REACHED[state](found)
        assert found.it.state is state
        INPUTS[given](found)
        await found.go_on()
        assert found.it.state is LEADS[state, given]
        was_refused = given == "refuse" and state in (State.COMING, State.ATTACHED)
        assert [type(each) for each in found.ended] == [TopicNotFound] * was_refused
        assert (found.it.connection is not None) == (found.it.state is State.ATTACHED)


async def test_what_is_stopped_makes_no_further_attempt() -> None:
    async with made() as found:
        await coming(found)
        found.it.stop()
        before = found.attempts
        await anyio.sleep(600)
        assert found.attempts == before


async def test_what_is_stopped_on_its_way_says_so_and_does_not_stay() -> None:
    async with made() as found, anyio.create_task_group() as tasks:
        found.waits = anyio.Event()
        ends: list[type[Exception]] = []

        async def start() -> None:
            try:
                await found.it.start()
            except PulsarError as error:
                ends.append(type(error))

        tasks.start_soon(start)
        await found.go_on()
        assert found.it.state is State.COMING
        found.it.stop()
        found.waits.set()
        await found.go_on()
        assert ends == [ClientClosed]
        assert (found.it.state, found.it.connection) == (State.STOPPED, None)


async def test_one_that_could_not_be_created_stays_where_it_began() -> None:
    async with made() as found:
        found.refusal = TopicNotFound("none")
        with pytest.raises(TopicNotFound):
            await found.it.start()
        assert found.it.state is State.NEW
        found.refusal = None
        await found.it.start()
        assert found.it.state is State.ATTACHED


@pytest.mark.parametrize("wanted", State)
@pytest.mark.parametrize("state", State)
async def test_no_other_move_is_made(state: State, wanted: State) -> None:
    async with made() as found:
        found.it.state = state
        if wanted in MOVES[state]:
            found.it._move(wanted)
            assert found.it.state is wanted
        else:
            with pytest.raises(AssertionError):
                found.it._move(wanted)
