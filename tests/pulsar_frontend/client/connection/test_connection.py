"""What somebody waits for is written in the turn that makes it, and never between two halves of
what is being written."""

import socket
from typing import Any

import anyio
import pytest
import trio
import trio.testing
from anyio.abc import SocketStream

from arneb_pulsar.client.connection.authentication import NoAuthentication
from arneb_pulsar.client.connection.connection import Connection
from arneb_pulsar.client.connection.machine import ConnectionMachine
from arneb_pulsar.client.tasks.clock import Clock
from arneb_pulsar.wire.proto.pulsar_pb2 import CommandConnect


class Raw:
    """A socket that takes so many bytes at once."""

    def __init__(self) -> None:
        self.written = b""
        self.takes = 1 << 30
        self.broken = False

    def send(self, data: bytes) -> int:
        if self.broken or not self.takes:
            raise BrokenPipeError if self.broken else BlockingIOError
        taken = data[: self.takes]
        self.written += taken
        self.takes -= len(taken)
        return len(taken)


class Stream(SocketStream):
    """The stream over it. A write of the stream's waits in the middle until it may go on."""

    def __init__(self, raw: Raw) -> None:
        self.raw = raw
        self.may_go_on = trio.Event()
        self.sends = 0

    @property
    def _raw_socket(self) -> Any:
        return self.raw

    @property
    def extra_attributes(self) -> Any:
        return {anyio.abc.SocketAttribute.raw_socket: lambda: self.raw}

    async def receive(self, max_bytes: int = 65536) -> bytes:
        await anyio.sleep_forever()
        raise AssertionError

    async def send(self, item: bytes) -> None:
        self.sends += 1
        self.raw.written += item[:1]
        await self.may_go_on.wait()
        self.raw.written += item[1:]

    async def send_eof(self) -> None:
        """Nobody asks for it."""

    async def aclose(self) -> None:
        """Nothing is held."""


def connection_on(stream: Any) -> Connection:
    """One that has sent nothing yet."""
    machine = ConnectionMachine("here", CommandConnect(client_version="x"), 0.0)
    machine.output.clear()
    return Connection(stream, machine, Clock(), NoAuthentication())


async def test_it_is_written_at_once_with_all_that_waits_before_it() -> None:
    stream = Stream(Raw())
    connection = connection_on(stream)
    connection.machine.send_frames([b"one"])
    connection.machine.send_frames([b"two"])
    connection.flush_now()
    assert stream.raw.written == b"onetwo"
    assert (connection.machine.output, stream.sends) == ([], 0)
    connection.flush_now()
    assert stream.raw.written == b"onetwo"


@pytest.mark.parametrize("takes", [0, 2])
async def test_what_the_socket_does_not_take_is_written_next(takes: int) -> None:
    stream = Stream(Raw())
    stream.may_go_on.set()
    connection = connection_on(stream)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(connection.run)
        await trio.testing.wait_all_tasks_blocked()
        stream.raw.takes = takes
        connection.machine.send_frames([b"one"])
        connection.flush_now()
        connection.machine.send_frames([b"two"])
        await trio.testing.wait_all_tasks_blocked()
        assert stream.raw.written == b"onetwo"
        connection.close()


async def test_nothing_is_written_into_what_is_being_written() -> None:
    stream = Stream(Raw())
    connection = connection_on(stream)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(connection.run)
        connection.machine.send_frames([b"one"])
        connection.flush()
        await trio.testing.wait_all_tasks_blocked()
        assert stream.raw.written == b"o"
        connection.machine.send_frames([b"two"])
        connection.flush_now()
        stream.may_go_on.set()
        await trio.testing.wait_all_tasks_blocked()
        assert stream.raw.written == b"onetwo"
        connection.machine.send_frames([b"three"])
        connection.flush_now()
        assert (stream.raw.written, stream.sends) == (b"onetwothree", 2)
        connection.close()


async def test_a_socket_that_has_ended_loses_nothing_of_what_is_to_be_sent_again() -> None:
    stream = Stream(Raw())
    stream.raw.broken = True
    connection = connection_on(stream)
    connection.machine.send_frames([b"one"])
    connection.flush_now()
    assert connection.machine.output == [b"one"]


async def test_a_stream_that_is_no_socket_is_written_by_its_task() -> None:
    ours, theirs = trio.testing.memory_stream_pair()
    assert not isinstance(ours, socket.socket)
    connection = connection_on(ours)
    connection.machine.send_frames([b"one"])
    connection.flush_now()
    assert connection.machine.output == [b"one"]
    await theirs.aclose()
