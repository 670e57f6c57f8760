"""The writer: one flush for each wake-up, in pieces, and an end for clients that do not read."""

import socket
from contextlib import suppress

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from arneb_core.api.connections.plain_stream import PlainStream
from arneb_core.api.process.long_turns import LongTurns
from arneb_core.testing.leases import GivenLease
from arneb_pulsar.server.writer import PIECE_BYTES, PIECE_WITHIN_S, Writer


class Session:
    """Has so much to say at a time."""

    def __init__(self, *flushes: bytes) -> None:
        self.flushes = list(flushes)

    @property
    def has_unsent(self) -> bool:
        return bool(self.flushes)

    def data_to_send(self) -> list[bytes]:
        return [self.flushes.pop(0)] if self.flushes else []


async def written(session: Session, full_bytes: int = 1000) -> tuple[bytes, int]:
    """What one wake-up writes, and how many flushes were reported."""
    ours, theirs = trio.testing.memory_stream_pair()
    turns, reports = LongTurns(), 0
    writer = Writer(ours, session, full_bytes, turns, GivenLease())
    received = bytearray()

    def report() -> None:
        nonlocal reports
        reports += 1

    async def read() -> None:
        async for data in theirs:
            received.extend(data)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(turns.run)
        nursery.start_soon(writer.run, report)
        nursery.start_soon(read)
        writer.wake()
        await writer.flushed()
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    return bytes(received), reports


@given(st.lists(st.integers(0, 3 * PIECE_BYTES), min_size=1, max_size=4))
def test_everything_is_written_in_order_with_one_report(sizes: list[int]) -> None:
    pieces = [bytes([number % 256]) * size for number, size in enumerate(sizes)]
    assert trio.run(written, Session(*pieces)) == (b"".join(pieces), 1)


async def test_a_client_that_takes_no_piece_is_given_up() -> None:
    ours, _ = trio.testing.memory_stream_pair()
    ours.send_stream.send_all_hook = trio.sleep_forever
    writer = Writer(ours, Session(b"x"), 1000, LongTurns(), GivenLease())
    started = trio.current_time()
    writer.wake()
    with pytest.raises(trio.BrokenResourceError, match="does not read"):
        await writer.run(lambda: None)
    assert trio.current_time() - started == PIECE_WITHIN_S


async def test_it_is_full_with_what_is_under_way_and_what_waits() -> None:
    ours, theirs = trio.testing.memory_stream_pair()
    go = trio.Event()
    pump = ours.send_stream.send_all_hook

    async def pump_when_read() -> None:
        await go.wait()
        await pump()

    ours.send_stream.send_all_hook = pump_when_read
    writer = Writer(ours, Session(b"x" * 600), 1000, LongTurns(), GivenLease())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(writer.run, lambda: None)
        writer.wake()
        await trio.testing.wait_all_tasks_blocked()
        assert not writer.is_full(400)
        assert writer.is_full(401)
        go.set()
        await writer.flushed()
        assert not writer.is_full(1000)
        nursery.cancel_scope.cancel()
    assert await theirs.receive_some() == b"x" * 600


async def test_no_farewell_after_half_a_frame() -> None:
    ours, theirs = trio.testing.memory_stream_pair()
    send_all, session = ours.send_stream.send_all, Session(b"one", b"last")

    async def half(data: bytes) -> None:
        await send_all(data[:1])
        await trio.sleep_forever()

    ours.send_stream.send_all = half  # type: ignore[method-assign]
    writer = Writer(ours, session, 1000, LongTurns(), GivenLease())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(writer.run, lambda: None)
        writer.wake()
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    ours.send_stream.send_all = send_all  # type: ignore[method-assign]
    await writer.farewell()
    assert await theirs.receive_some() == b"o"
    assert session.flushes == [b"last"]


def plain_pair(sent_bytes: int = 64 * 1024) -> tuple[PlainStream, socket.socket]:
    """A plain stream, whose kernel takes about so much that nobody reads, and the other end."""
    ours, theirs = socket.socketpair()
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, sent_bytes)
    theirs.setblocking(False)
    return PlainStream(ours), theirs


@pytest.mark.real_time
async def test_what_the_kernel_takes_is_said_at_once() -> None:
    ours, theirs = plain_pair()
    session = Session(b"one", b"two")
    writer = Writer(ours, session, 1000, LongTurns(), GivenLease())
    assert not writer.say()  # there is more, which waits for a turn
    assert theirs.recv(10) == b"one"
    async with trio.open_nursery() as nursery:
        nursery.start_soon(writer.run, lambda: None)
        await writer.flushed()
        assert theirs.recv(10) == b"two"
        session.flushes = [b"three"]
        assert writer.say()
        assert theirs.recv(10) == b"three"
        assert not writer.say()  # nothing was to be said
        assert not writer._busy
        assert writer.sent_bytes == 11
        nursery.cancel_scope.cancel()
    ours.close()
    theirs.close()


@pytest.mark.real_time
async def test_what_the_kernel_does_not_take_is_sent_by_the_task_before_what_comes_later() -> None:
    ours, theirs = plain_pair()
    much, later = bytes(range(256)) * 8 * 1024, b"later"
    session = Session(much)
    writer = Writer(ours, session, 1000, LongTurns(), GivenLease())
    received = bytearray()
    assert not writer.say()
    assert 0 < writer.sent_bytes < len(much)
    assert writer.is_full(0)
    session.flushes = [later]
    assert not writer.say()  # behind what is under way
    async with trio.open_nursery() as nursery:
        nursery.start_soon(writer.run, lambda: None)
        while len(received) < len(much) + len(later):
            await trio.lowlevel.wait_readable(theirs)
            received += theirs.recv(1 << 20)
        await writer.flushed()
        nursery.cancel_scope.cancel()
    assert received == much + later
    assert writer.sent_bytes == len(received)
    ours.close()
    theirs.close()


@pytest.mark.real_time
async def test_no_farewell_after_half_of_what_was_sent_together() -> None:
    ours, theirs = plain_pair()
    session = Session(bytes(1 << 20))
    writer = Writer(ours, session, 1000, LongTurns(), GivenLease())
    assert not writer.say()
    session.flushes = [b"last"]
    await writer.farewell()
    assert session.flushes == [b"last"]
    ours.close()
    theirs.close()


@pytest.mark.parametrize("over", [False, True], ids=["again", "never"])
async def test_what_was_put_together_under_a_lease_is_written_under_one_or_never(
    over: bool,
) -> None:
    """A process may stand still in between, and another lead when it goes on."""
    ours, theirs = trio.testing.memory_stream_pair()
    lease, session = GivenLease(holds=False), Session(b"receipt")
    writer = Writer(ours, session, 1000, LongTurns(), lease)
    async with trio.open_nursery() as nursery:

        async def run() -> None:
            with suppress(trio.BrokenResourceError):
                await writer.run(lambda: None)
            await ours.aclose()

        nursery.start_soon(run)
        writer.wake()
        assert await theirs.receive_some() == b"receipt"
        await trio.testing.wait_all_tasks_blocked()
        session.flushes.append(b"message")
        writer.is_leased = True
        assert not writer.say()
        await trio.testing.wait_all_tasks_blocked()
        lease.say(holds=not over, over=over)
        assert await theirs.receive_some() == (b"" if over else b"message")
        await trio.testing.wait_all_tasks_blocked()
        assert writer.is_leased is over
        nursery.cancel_scope.cancel()


@pytest.mark.real_time
async def test_what_only_a_leader_may_send_is_not_sent_at_once_without_a_lease() -> None:
    ours, theirs = plain_pair()
    lease = GivenLease(holds=False)
    writer = Writer(ours, Session(b"message"), 1000, LongTurns(), lease)
    writer.is_leased = True
    assert not writer.say()
    with pytest.raises(BlockingIOError):
        theirs.recv(10)
    lease.say(holds=True)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(writer.run, lambda: None)
        await writer.flushed()
        assert theirs.recv(10) == b"message"
        nursery.cancel_scope.cancel()
    ours.close()
    theirs.close()
