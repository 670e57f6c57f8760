"""The writer: one flush for each wake-up, in pieces, and an end for who does not read."""

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from arneb_core.api.long_turns import LongTurns
from arneb_pulsar.server.writer import PIECE_BYTES, PIECE_WITHIN_S, Writer


class Session:
    """Has so much to say at a time."""

    def __init__(self, *flushes: bytes) -> None:
        self.flushes = list(flushes)

    @property
    def has_unsaid(self) -> bool:
        return bool(self.flushes)

    def data_to_send(self) -> list[bytes]:
        return [self.flushes.pop(0)] if self.flushes else []


async def written(session: Session, full_bytes: int = 1000) -> tuple[bytes, int]:
    """What one wake-up writes, and how many flushes were reported."""
    ours, theirs = trio.testing.memory_stream_pair()
    turns, reports = LongTurns(), 0
    writer = Writer(ours, session, full_bytes, turns)
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
    said = [bytes([number % 256]) * size for number, size in enumerate(sizes)]
    assert trio.run(written, Session(*said)) == (b"".join(said), 1)


async def test_a_client_that_takes_no_piece_is_given_up() -> None:
    ours, _ = trio.testing.memory_stream_pair()
    ours.send_stream.send_all_hook = trio.sleep_forever
    writer = Writer(ours, Session(b"x"), 1000, LongTurns())
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
    writer = Writer(ours, Session(b"x" * 600), 1000, LongTurns())
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


async def test_no_farewell_behind_half_a_frame() -> None:
    ours, theirs = trio.testing.memory_stream_pair()
    send_all, session = ours.send_stream.send_all, Session(b"one", b"last")

    async def half(data: bytes) -> None:
        await send_all(data[:1])
        await trio.sleep_forever()

    ours.send_stream.send_all = half  # type: ignore[method-assign]
    writer = Writer(ours, session, 1000, LongTurns())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(writer.run, lambda: None)
        writer.wake()
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    ours.send_stream.send_all = send_all  # type: ignore[method-assign]
    await writer.farewell()
    assert await theirs.receive_some() == b"o"
    assert session.flushes == [b"last"]
