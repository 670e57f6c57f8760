"""Divided Pulsar: Pulsar clients at a node whose cluster has several shards.

The rule: a client that names a shard's broker is connected to it, as any client is to a leader; a
client that names none only asks, and each question goes to the broker that it concerns. When the
first shard's broker ends its connection, the client's connection ends; when another broker does,
only the questions asked there end.
"""

import socket
from functools import partial
from typing import Final

import trio

from arneb.clustered.ports.asking_shards import AskingShards, connect_in, shard_at, url_of_shard
from arneb.clustered.ports.routing import ArrivedClient
from arneb_cluster.routing.division import EVERYTHING_ELSE, Division
from arneb_cluster.routing.onward import OnwardByLeader
from arneb_core.api.nodes.placement import NotServed
from arneb_pulsar.server.arrivals import Arrival
from arneb_pulsar.wire.errors import CommandError, FrameError

HELLO_BYTES_MAX: Final = 64 * 1024
"""The most bytes of a client's CONNECT, tokens included."""

RECEIVE_BYTES: Final = 64 * 1024

GONE: Final = "its broker has gone: look it up again"


class DividedPulsar:
    """The Pulsar clients of one node."""

    def __init__(
        self,
        division: Division,
        onward: OnwardByLeader[ArrivedClient],
        hello_s: float,
        *,
        must_prove: bool,
    ) -> None:
        """``hello_s`` is the time within which a client must send CONNECT; with ``must_prove``,
        clients must authenticate."""
        self._division = division
        self._onward = onward
        self._hello_s = hello_s
        self._must_prove = must_prove

    def __repr__(self) -> str:
        return f"<DividedPulsar over {self._onward!r}>"

    async def receive(self, arrival: Arrival) -> None:
        """Serve a client that connected here, and close its stream."""
        async with arrival.stream:
            try:
                data = b""
                with trio.fail_after(self._hello_s):
                    while (found := connect_in(data)) is None and len(data) < HELLO_BYTES_MAX:
                        more = await arrival.stream.receive_some(RECEIVE_BYTES)
                        if not more:
                            return
                        data += more
                if found is None:
                    return
                hello, connect = found
                if shard := shard_at(connect.proxy_to_broker_url):
                    await self._use(arrival, shard, data)
                else:
                    await self._ask(arrival, hello, data[len(hello) :])
            except (
                CommandError, FrameError, NotServed, trio.BrokenResourceError, trio.TooSlowError,
            ):  # fmt: skip
                pass  # a Pulsar client connects again

    async def _use(self, arrival: Arrival, shard: str, unread: bytes) -> None:
        namespace = EVERYTHING_ELSE + shard
        client = ArrivedClient(arrival, self._must_prove, unread, namespace, uses=True)
        await self._onward.pass_on(client)

    async def _ask(self, arrival: Arrival, hello: bytes, unread: bytes) -> None:
        division = self._division
        machine = AskingShards(division.shard_of, division.first, hello)
        try:
            async with trio.open_nursery() as nursery:
                asking = _Asking(self._onward, arrival, machine, division.first, nursery)
                await asking.run(unread, must_prove=self._must_prove)
                nursery.cancel_scope.cancel()
        except* (CommandError, FrameError, trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # the client broke the protocol, or is gone


class _Asking:
    """One client that asks, with its connection to each shard's broker."""

    def __init__(
        self,
        onward: OnwardByLeader[ArrivedClient],
        arrival: Arrival,
        machine: AskingShards,
        first: str,
        nursery: trio.Nursery,
    ) -> None:
        self._onward = onward
        self._arrival = arrival
        self._machine = machine
        self._first = first
        self._nursery = nursery
        self._sides: dict[str, trio.SocketStream] = {}
        self._sending = trio.Lock()
        """Held while a frame is sent to the client."""

    def __repr__(self) -> str:
        return f"<_Asking {self._machine!r}>"

    async def run(self, data: bytes, *, must_prove: bool) -> None:
        """Serve the client until it closes."""
        open_side = partial(self._open, must_prove=must_prove)
        await open_side(self._first)
        while True:
            for shard, frame in self._machine.from_client(data):
                if shard not in self._sides:
                    await open_side(shard)
                if to_send := self._machine.ask(shard, frame):
                    await self._send(shard, to_send)
            data = bytes(await self._arrival.stream.receive_some(RECEIVE_BYTES))
            if not data:
                return

    async def _send(self, shard: str, data: bytes) -> None:
        try:
            await self._sides[shard].send_all(data)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            if shard == self._first:
                raise  # the loss of another shard's broker is handled by answering its questions

    async def _open(self, shard: str, *, must_prove: bool) -> None:
        near, far = (trio.SocketStream(trio.socket.from_stdlib_socket(each)) for each in _pair())
        self._sides[shard] = near
        self._machine.opened(shard)
        came = self._arrival
        by_tls = came.service_url.startswith("pulsar+ssl:")
        client = ArrivedClient(
            Arrival(far, came.service_url, came.address, came.certificate), must_prove,
            self._machine.hello, EVERYTHING_ELSE + shard, url_of_shard(shard, by_tls=by_tls),
        )  # fmt: skip
        self._nursery.start_soon(self._have_it_served, client)
        self._nursery.start_soon(self._hear, shard, near)

    async def _have_it_served(self, client: ArrivedClient) -> None:
        try:
            await self._onward.pass_on(client)
        except NotServed:
            pass  # the end of the stream shows it
        finally:
            await trio.aclose_forcefully(client.arrival.stream)

    async def _hear(self, shard: str, near: trio.SocketStream) -> None:
        """Pass on what a broker sends."""
        async with near:
            try:
                while data := bytes(await near.receive_some(RECEIVE_BYTES)):
                    to_client, to_shard = self._machine.from_shard(shard, data)
                    await self._tell(to_client)
                    if to_shard:
                        await near.send_all(to_shard)
            except trio.BrokenResourceError:
                pass  # the same as its end
            if shard == self._first:
                self._nursery.cancel_scope.cancel()
                return
            del self._sides[shard]
            await self._tell(self._machine.ended(shard, GONE))

    async def _tell(self, data: bytes) -> None:
        if data:
            async with self._sending:
                await self._arrival.stream.send_all(data)


def _pair() -> tuple[socket.socket, socket.socket]:
    return socket.socketpair()
