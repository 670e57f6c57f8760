"""A link over a pair of real sockets: it writes at once if it can, later if it must, and never
blocks."""

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing

from arneb_amqp.server.transport.link import Link
from arneb_core.testing.leases import GivenLease

pytestmark = pytest.mark.real_time

MIB = 1024 * 1024


class Pair:
    """A link and the socket at the other end, both closed on exit."""

    def __init__(self, nursery: trio.Nursery) -> None:
        ours, theirs = socket.socketpair()
        self.drained = 0
        self.lease = GivenLease()
        self.link = Link(ours, nursery, 1000, self._count, self.lease)
        self.peer = trio.SocketStream(trio.socket.from_stdlib_socket(theirs))

    def _count(self) -> None:
        self.drained += 1


@asynccontextmanager
async def pair_of_sockets() -> AsyncIterator[Pair]:
    async with trio.open_nursery() as nursery:
        pair = Pair(nursery)
        try:
            yield pair
        finally:
            pair.link.close()
            await pair.peer.aclose()


async def test_bytes_go_both_ways() -> None:
    async with pair_of_sockets() as pair:
        pair.link.send(b"hello")
        assert pair.link.waiting_bytes == 0, "the kernel took all bytes at once"
        assert await pair.peer.receive_some() == b"hello"
        await pair.peer.send_all(b"answer")
        assert await pair.link.receive() == b"answer"
        await pair.peer.aclose()
        assert await pair.link.receive() == b""


async def test_it_detects_arrived_data_without_reading_it() -> None:
    async with pair_of_sockets() as pair:
        assert not pair.link.has_come()
        await pair.peer.send_all(b"hello")
        assert pair.link.has_come()
        assert pair.link.has_come()
        assert pair.link.receive_now(10) == b"hello"
        assert not pair.link.has_come()
        await pair.peer.aclose()
        assert not pair.link.has_come()


async def test_what_has_arrived_is_read_without_waiting() -> None:
    async with pair_of_sockets() as pair:
        assert pair.link.receive_now(10) == b""
        await pair.peer.send_all(b"0123456789ab")
        assert await pair.link.receive(4) == b"0123"
        assert pair.link.receive_now(6) == b"456789"
        assert pair.link.receive_now(6) == b"ab"
        await pair.peer.aclose()
        assert pair.link.receive_now(6) == b""
        assert await pair.link.receive() == b""


async def test_what_the_kernel_does_not_accept_waits_in_order() -> None:
    data = bytes(range(256)) * 16 * 1024
    async with pair_of_sockets() as pair:
        pair.link.send(data)
        assert pair.link.waiting_bytes > 0
        pair.link.send(b"the end")
        got = bytearray()
        with trio.fail_after(10):
            while len(got) < len(data) + 7:
                got += await pair.peer.receive_some()
        assert got == data + b"the end"
        await trio.testing.wait_all_tasks_blocked()
        assert pair.link.waiting_bytes == 0
        assert pair.drained


async def test_one_can_wait_for_room() -> None:
    async with pair_of_sockets() as pair:
        pair.link.send(b"x" * 4 * MIB)
        with trio.move_on_after(0.05) as scope:
            await pair.link.room()
        assert scope.cancelled_caught
        async with trio.open_nursery() as nursery:
            nursery.start_soon(read_all, pair.peer)
            with trio.fail_after(10):
                await pair.link.room()
            nursery.cancel_scope.cancel()


async def test_finishing_sends_what_waits_and_then_the_end() -> None:
    async with pair_of_sockets() as pair:
        pair.link.send(b"x" * 4 * MIB)
        pair.link.finish()
        pair.link.send(b"too late")
        with trio.fail_after(10):
            assert await read_all(pair.peer) == 4 * MIB


async def test_a_broken_link_discards_output_and_wakes_everybody() -> None:
    async with pair_of_sockets() as pair:
        pair.link.send(b"x" * 4 * MIB)
        await pair.peer.aclose()
        with trio.fail_after(10):
            await pair.link.room()
        pair.link.send(b"nobody reads this")
        assert pair.link.waiting_bytes == 0
        assert await pair.link.receive() == b""


async def test_closing_wakes_the_reader() -> None:
    async with pair_of_sockets() as pair, trio.open_nursery() as nursery:
        nursery.start_soon(pair.link.receive)
        await trio.testing.wait_all_tasks_blocked()
        pair.link.close()


async def read_all(stream: trio.SocketStream) -> int:
    total = 0
    async for chunk in stream:
        total += len(chunk)
    return total


@pytest.mark.parametrize("over", [False, True], ids=["again", "never"])
async def test_output_made_under_a_lease_is_sent_under_that_lease_or_never(over: bool) -> None:
    """The process may be suspended in between, and another broker may lead when it goes on."""
    async with pair_of_sockets() as pair:
        pair.lease.say(holds=False)
        pair.link.send(b"confirm,")
        pair.link.send(b"delivery,", leased=True)
        pair.link.send(b"confirm", leased=False)
        assert await pair.peer.receive_some() == b"confirm,"
        await trio.testing.wait_all_tasks_blocked()
        pair.lease.say(holds=not over, over=over)
        assert await pair.peer.receive_some() == (b"" if over else b"delivery,confirm")
        assert pair.link.broken is over


async def test_output_that_the_client_did_not_accept_is_not_sent_after_the_lease() -> None:
    async with pair_of_sockets() as pair:
        pair.link.send(bytes(8 * MIB), leased=True)
        assert pair.link.waiting_bytes
        pair.lease.say(holds=False, over=True)
        received = 0
        while data := await pair.peer.receive_some():
            received += len(data)
        assert received < 8 * MIB
