"""Accepting with few descriptors left: new clients are refused, and the log says so briefly."""

import errno
import logging
import os
import resource
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import trio

from arneb.listening.accepting import (
    RESERVED_MAX,
    TAKEN_MORE,
    CarefulListener,
    RefusalLog,
    is_reserved,
)


class ScriptedListener:
    """Accepts what a test has for it: streams, and errors of the system."""

    def __init__(self, script: list[trio.SocketStream | OSError]) -> None:
        self.script = script

    async def accept(self) -> trio.SocketStream:
        await trio.lowlevel.checkpoint()
        found = self.script.pop(0)
        if isinstance(found, OSError):
            raise found
        return found


@contextmanager
def descriptors_left(count: int) -> Iterator[None]:
    """The process can open so many more descriptors."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.dup(0)
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest + count, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def a_stream() -> tuple[trio.SocketStream, socket.socket]:
    ours, theirs = socket.socketpair()
    return trio.SocketStream(trio.socket.from_stdlib_socket(ours)), theirs


def close(*pairs: tuple[trio.SocketStream, socket.socket]) -> None:
    for ours, theirs in pairs:
        ours.socket.close()
        theirs.close()


def test_the_last_descriptors_are_reserved() -> None:
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    assert not is_reserved(3)
    assert is_reserved(limit - 1)
    assert is_reserved(limit - RESERVED_MAX) and not is_reserved(limit - RESERVED_MAX - 1)
    with descriptors_left(1):
        assert is_reserved(resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 2)


async def test_a_client_that_would_take_a_reserved_descriptor_is_closed_and_the_next_is_served(
    caplog: pytest.LogCaptureFixture,
) -> None:
    streams = [a_stream() for _ in range(3)]
    last = streams[-1][0].socket.fileno()
    listener = CarefulListener(
        ScriptedListener([ours for ours, _ in streams]),  # type: ignore[arg-type]
        RefusalLog(),
        is_reserved=lambda descriptor: descriptor != last,
    )
    with caplog.at_level(logging.WARNING):
        accepted = await listener.accept()
    assert accepted is streams[-1][0]
    assert [theirs.recv(1) for _, theirs in streams[:-1]] == [b"", b""]
    close(*streams)
    assert len(caplog.records) == 1


async def test_a_listener_that_cannot_accept_logs_it_once_a_second_and_continues(
    caplog: pytest.LogCaptureFixture,
) -> None:
    stream, theirs = a_stream()
    failures: list[trio.SocketStream | OSError] = [
        OSError(number, os.strerror(number))
        for number in [errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS] * 10
    ]
    listener = CarefulListener(
        ScriptedListener([*failures, stream]),  # type: ignore[arg-type]
        RefusalLog(),
        is_reserved=lambda descriptor: False,
    )
    with caplog.at_level(logging.WARNING):
        assert await listener.accept() is stream
    assert 3 <= len(caplog.records) <= 5, "40 failures in 4 s make one line a second"
    assert not any(record.exc_info for record in caplog.records)
    close((stream, theirs))


async def test_another_error_is_not_taken_for_a_lack_of_descriptors() -> None:
    listener = CarefulListener(
        ScriptedListener([OSError(errno.EIO, "no disk")]),  # type: ignore[arg-type]
        RefusalLog(),
    )
    with pytest.raises(OSError, match="no disk"):
        await listener.accept()


async def test_a_crowd_is_accepted_in_a_few_passes_of_the_loop() -> None:
    """A client that arrives behind it waits for a few passes, not for one per client."""
    listening = socket.create_server(("127.0.0.1", 0), backlog=1000)
    listener = CarefulListener.of(listening, RefusalLog())
    crowd = [socket.create_connection(listening.getsockname()) for _ in range(100)]
    passes, accepted = 0, list[trio.SocketStream]()
    over = trio.Event()

    async def count() -> None:
        nonlocal passes
        while not over.is_set():
            passes += 1
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(count)
        while len(accepted) < len(crowd):
            accepted.append(await listener.accept())
        over.set()
    assert passes <= 2 * (len(crowd) // (1 + TAKEN_MORE) + 1)
    peers = [stream.socket.getpeername() for stream in accepted]
    assert peers == [each.getsockname() for each in crowd], (
        "connections must be accepted in the order in which they came"
    )
    for each in (*accepted, *crowd):
        (each.socket if isinstance(each, trio.SocketStream) else each).close()
    await listener.aclose()


async def test_accepted_clients_that_were_not_served_are_closed_with_the_listener() -> None:
    listening = socket.create_server(("127.0.0.1", 0))
    listener = CarefulListener.of(listening, RefusalLog())
    first, second = (socket.create_connection(listening.getsockname()) for _ in range(2))
    served = await listener.accept()
    await listener.aclose()
    assert second.recv(1) == b""
    served.socket.close()
    first.close()
    second.close()
