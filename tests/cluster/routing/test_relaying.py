"""Relaying: streams in memory, which accept as much as the test says, and a clock that jumps."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
from pamqp import commands, frame
from tests.cluster.routing.test_frame_heads import CLOSE, CLOSE_OK
from trio.testing import memory_stream_pair, wait_all_tasks_blocked

from arneb_amqp.wire.constants import HEARTBEAT_FRAME
from arneb_cluster.routing.relaying import FAREWELL_S, RECEIVE_BYTES_MAX, Carried, Relays
from arneb_core.api.nodes.placement import NotServed

BODY = b"\x03\x00\x01" + (5).to_bytes(4) + b"hello\xce"


class Both:
    """A relay between two streams, whose other ends the test has."""

    def __init__(self) -> None:
        self.client, ours = memory_stream_pair()
        self.leader, theirs = memory_stream_pair()
        self.relays = Relays()
        self.carried = Carried(ours, theirs, "1.2.3.4:5 -> 6.7.8.9:10")
        self.done = trio.Event()

    async def run(self, unread: bytes = b"", early: bytes = b"") -> None:
        await self.relays.carry(self.carried, unread, early)
        self.done.set()


@asynccontextmanager
async def carried(unread: bytes = b"", early: bytes = b"") -> AsyncIterator[Both]:
    """A relayed client, until the test ends."""
    both = Both()
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(both.run, unread, early)
            yield both
            await both.done.wait()


def hold(stream: trio.StapledStream, stuck: trio.Event, go_on: trio.Event) -> None:
    """Writes in that direction are stuck until the test continues."""
    send = stream.send_stream
    arrive = send.send_all_hook

    async def held() -> None:
        stuck.set()
        await go_on.wait()
        await arrive()

    send.send_all_hook = held


async def heard_of(stream: trio.abc.ReceiveStream) -> bytes:
    """All that arrives until the end."""
    heard = b""
    while data := await stream.receive_some():
        heard += bytes(data)
    return heard


async def test_both_directions_and_data_sent_before() -> None:
    async with carried(unread=b"u" * 3, early=HEARTBEAT_FRAME) as both:
        assert await both.client.receive_some() == HEARTBEAT_FRAME
        assert await both.leader.receive_some() == b"uuu"
        await both.client.send_all(BODY)
        assert await both.leader.receive_some() == BODY
        await both.leader.send_all(BODY + BODY)
        assert await both.client.receive_some() == BODY + BODY
        assert (both.relays.up_bytes, both.relays.down_bytes) == (3 + len(BODY), 8 + 2 * len(BODY))
        await both.client.aclose()
        assert await heard_of(both.leader) == b""
        await both.leader.aclose()
        await both.done.wait()
        assert both.relays.carried_total == 1
        assert (both.relays.up_bytes, both.relays.carried, both.relays.lost_total) == (
            3 + len(BODY), {}, 0,
        )  # fmt: skip


async def test_a_client_that_has_sent_its_end_still_receives() -> None:
    async with carried() as both:
        await both.client.send_all(CLOSE)
        await both.client.send_eof()
        assert await heard_of(both.leader) == CLOSE
        await both.leader.send_all(BODY)
        await both.leader.send_all(CLOSE_OK)
        await both.leader.aclose()
        assert await heard_of(both.client) == BODY + CLOSE_OK
        await both.done.wait()
        assert both.relays.lost_total == 0


async def test_a_leaders_close_ends_the_client_once_it_has_answered() -> None:
    async with carried() as both:
        await both.leader.send_all(BODY + CLOSE)
        await both.leader.send_eof()
        assert await heard_of(both.client) == BODY + CLOSE
        await both.client.send_all(CLOSE_OK)
        await wait_all_tasks_blocked()
        assert not both.done.is_set(), "a socket that is closed too soon loses the close frame"
        await both.client.aclose()
        await both.done.wait()
        assert both.relays.lost_total == 0


@pytest.mark.parametrize("how", ["gone", "broken", "lost"])
async def test_between_frames_a_lost_leader_is_reported_in_amqp(how: str) -> None:
    async with carried() as both:
        await both.leader.send_all(BODY)
        assert await both.client.receive_some() == BODY
        if how == "gone":
            await both.leader.send_eof()
        elif how == "broken":
            both.leader.receive_stream.close()
            await both.leader.send_stream.aclose()
        else:
            both.carried.lose("why so ever")
        _, _, method = frame.unmarshal(bytes(await both.client.receive_some()))
        assert isinstance(method, commands.Connection.Close)
        assert method.reply_code == 320
        await both.client.send_all(BODY + CLOSE_OK[:5])
        await both.client.send_all(CLOSE_OK[5:])
        await both.done.wait()
        assert both.relays.lost_total == 1


async def test_inside_a_frame_the_socket_is_closed() -> None:
    async with carried() as both:
        await both.leader.send_all(BODY + BODY[:9])
        assert await both.client.receive_some() == BODY + BODY[:9]
        both.carried.lose("why so ever")
        await both.done.wait()
        assert both.relays.lost_total == 1


async def test_a_client_that_does_not_answer_is_waited_for_only_so_long() -> None:
    async with carried() as both:
        both.carried.lose("why so ever")
        began = trio.current_time()
        await both.done.wait()
        assert trio.current_time() - began == pytest.approx(FAREWELL_S)


async def test_a_leader_that_is_lost_while_it_reads_nothing_is_given_up() -> None:
    """It hangs with a full socket: what the client has sent waits, but must not wait for ever."""
    async with carried() as both:
        blocked = trio.Event()

        async def never() -> None:
            blocked.set()
            await trio.sleep_forever()

        both.carried._leader.send_stream.send_all_hook = never
        await both.client.send_all(BODY)
        await blocked.wait()
        both.carried.lose("why so ever")
        _, _, method = frame.unmarshal(bytes(await both.client.receive_some()))
        assert isinstance(method, commands.Connection.Close)
        await both.client.send_all(CLOSE_OK)
        await both.done.wait()


async def test_a_client_that_does_not_read_stops_its_leader() -> None:
    async with carried() as both:
        asked: list[int] = []
        stuck, go_on = trio.Event(), trio.Event()
        leader = both.carried._leader
        receive = leader.receive_some

        async def counted(most: int | None = None) -> bytes:
            asked.append(most or 0)
            return bytes(await receive(most))

        leader.receive_some = counted
        hold(both.carried._client, stuck, go_on)
        await both.leader.send_all(BODY)
        await stuck.wait()
        for _ in range(50):
            await both.leader.send_all(BODY)
        await wait_all_tasks_blocked()
        assert asked == [RECEIVE_BYTES_MAX], "nothing more is received before the first is sent"
        go_on.set()
        heard = b""
        while len(heard) < 51 * len(BODY):
            piece = bytes(await both.client.receive_some())
            assert piece, f"the end after {len(heard)} bytes"
            heard += piece
        assert heard == BODY * 51
        await both.client.aclose()
        await both.leader.aclose()
        await both.done.wait()


async def test_a_leader_that_does_not_read_stops_its_client() -> None:
    async with carried() as both:
        stuck, go_on = trio.Event(), trio.Event()
        asked: list[int] = []
        receive = both.carried._client.receive_some

        async def counted(most: int | None = None) -> bytes:
            asked.append(most or 0)
            return bytes(await receive(most))

        both.carried._client.receive_some = counted
        hold(both.carried._leader, stuck, go_on)
        await both.client.send_all(BODY)
        await stuck.wait()
        for _ in range(50):
            await both.client.send_all(BODY)
        await wait_all_tasks_blocked()
        assert asked == [RECEIVE_BYTES_MAX]
        go_on.set()
        await both.client.send_eof()
        assert await heard_of(both.leader) == BODY * 51
        await both.leader.aclose()
        await both.done.wait()


async def test_the_number_of_relays_is_bounded() -> None:
    relays = Relays(carried_max=2)
    full = pytest.raises(NotServed, match="carries 2 connections")
    with relays.place(), relays.place(), full, relays.place():
        pass
    with relays.place():
        pass
