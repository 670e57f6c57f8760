"""A splitter: passes clients of one address on to several servers in turn, byte for byte.

The rule: it knows no protocol. When one side ends its stream, so does the other, and when one side
resets, so does the other. Servers that do not accept are skipped. The caller decides whose
connections are cut, or stall as on a network that loses all packets.
"""

import asyncio
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import count
from threading import Event, Thread
from typing import Final, Self, TypeVar

from conformance.brokers.process import Address, free_port

CHUNK_BYTES: Final = 1 << 16
CONNECT_WITHIN_S: Final = 2.0
STOP_WITHIN_S: Final = 10.0

T = TypeVar("T")

Owner = Callable[[int], str]
"""Tells who owns the connection whose own end is this loopback port."""


def _no_owner(_: int) -> str:
    return ""


class _Carried:
    """One client's connection and the onward connection to a server."""

    def __init__(self, owner: str, writers: Sequence[asyncio.StreamWriter]) -> None:
        self.owner = owner
        self.writers = writers

    def abort(self) -> None:
        for each in self.writers:
            # Lingering for zero seconds makes this a reset and not an orderly end.
            sock = each.get_extra_info("socket")
            if sock is not None:
                with suppress(OSError):
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            each.transport.abort()


class Splitter:
    """One address in front of several servers, served by a thread."""

    def __init__(
        self,
        servers: Callable[[], Sequence[Address]],
        *,
        at: Address | None = None,
        owner: Owner = _no_owner,
    ) -> None:
        """``servers`` is called for each connection, and its addresses are tried in turn."""
        self.address = at or Address("127.0.0.1", free_port())
        self._servers = servers
        self._owner = owner
        self._turns = count()
        self._carried: set[_Carried] = set()
        self._still: dict[str, asyncio.Event] = {}
        """Owners whose connections stall until the event is set."""
        self._refused: set[str] = set()
        self._loop = asyncio.new_event_loop()
        self._over = asyncio.Event()
        self._ready = Event()
        self._failure: BaseException | None = None
        self._thread = Thread(target=self._run, name=f"splitter {self.address}", daemon=True)

    def __repr__(self) -> str:
        return f"<Splitter at {self.address}, {len(self._carried)} connections>"

    def start(self) -> Self:
        """Start accepting. Raises OSError."""
        self._thread.start()
        assert self._ready.wait(STOP_WITHIN_S), f"{self!r} did not start"
        if self._failure is not None:
            raise self._failure
        return self

    def close(self) -> None:
        """Abort all connections and stop accepting."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._over.set)
            self._thread.join(STOP_WITHIN_S)

    def cut(self, owner: str = "") -> None:
        """Abort the connections of one owner, or all of them."""

        def cut() -> None:
            for each in self._of(owner):
                each.abort()

        self._do(cut)

    def refuse(self, owner: str) -> None:
        """Abort the owner's connections, and any new ones until :meth:`heal`."""
        self.refuse_more(owner)
        self.cut(owner)

    def refuse_more(self, owner: str) -> None:
        """Abort any new connections of the owner until :meth:`heal`."""
        self._do(lambda: self._refused.add(owner))

    def still(self, owner: str) -> None:
        """Let nothing through from or to the owner, so that it sees only silence."""
        self._do(lambda: self._still.setdefault(owner, asyncio.Event()))

    def heal(self, owner: str) -> None:
        """Undo :meth:`refuse` and :meth:`still`; stalled connections continue."""

        def healed() -> None:
            self._refused.discard(owner)
            if (event := self._still.pop(owner, None)) is not None:
                event.set()

        self._do(healed)

    # Internals

    def _do(self, what: Callable[[], T]) -> None:
        done = Event()

        def call() -> None:
            what()
            done.set()

        self._loop.call_soon_threadsafe(call)
        assert done.wait(STOP_WITHIN_S), f"{self!r} does not answer"

    def _of(self, owner: str) -> list[_Carried]:
        return [each for each in self._carried if owner in ("", each.owner)]

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._serve())
        except BaseException as error:
            self._failure = error
        finally:
            self._ready.set()
            self._loop.close()

    async def _serve(self) -> None:
        server = await asyncio.start_server(
            self._carry, self.address.host, self.address.port, limit=CHUNK_BYTES, backlog=1_000
        )
        self._ready.set()
        await self._over.wait()
        server.close()
        for each in list(self._carried):
            each.abort()
        tasks = [each for each in asyncio.all_tasks() if each is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        owner = self._owner(writer.get_extra_info("peername")[1])
        if owner in self._refused:
            writer.transport.abort()
            return
        await self._let_through(owner)
        onward = await self._connect()
        if onward is None:
            writer.transport.abort()
            return
        carried = _Carried(owner, (writer, onward[1]))
        self._carried.add(carried)
        try:
            await asyncio.gather(
                self._pass(owner, reader, onward[1]), self._pass(owner, onward[0], writer)
            )
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            self._carried.discard(carried)
            carried.abort()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        for server in self._in_turn():
            with suppress(OSError, TimeoutError):
                async with asyncio.timeout(CONNECT_WITHIN_S):
                    return await asyncio.open_connection(
                        server.host, server.port, limit=CHUNK_BYTES
                    )
        return None

    def _in_turn(self) -> Iterator[Address]:
        servers = self._servers()
        first = next(self._turns)
        for index in range(len(servers)):
            yield servers[(first + index) % len(servers)]

    async def _pass(
        self, owner: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        while data := await reader.read(CHUNK_BYTES):
            await self._let_through(owner)
            writer.write(data)
            await writer.drain()
        await self._let_through(owner)
        if writer.can_write_eof():
            writer.write_eof()

    async def _let_through(self, owner: str) -> None:
        while (event := self._still.get(owner)) is not None:
            await event.wait()
