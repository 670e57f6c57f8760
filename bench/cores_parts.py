"""The processes of ``python -m bench.cores``: parts of a broker in several processes, built from
today's code as far as a benchmark needs it.

* ``one``: engine and AMQP in one process, as in a broker.
* ``reception``: completes handshakes and passes each client's socket to the shard of its vhost.
* ``shard``: engine and AMQP, whose clients come from a reception.
* ``worker``: AMQP whose runs of publishes cross a socket to a ``core``, which has the engine.

The rule: these processes are only for measuring. A worker has an engine of its own for what it
declares, and a reception has one for the users. If one process fails, everything ends.
"""

import json
import os
import socket
import sys
from array import array
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import trio

from arneb_amqp.config import Adjustable, AmqpConfig
from arneb_amqp.server import serve_amqp
from arneb_amqp.server.admission.admission_document import decode_admission
from arneb_amqp.server.admission.reception import ReceivedClient, serve_reception
from arneb_amqp.server.admitted import Admitting
from arneb_amqp.topology.seeding import open_catalogue
from arneb_core.access.authority import Authority
from arneb_core.access.internal import InternalBackend
from arneb_core.api.entries.position import Position
from arneb_core.api.process.callbacks import Appended
from arneb_core.api.topics.topic import Topic
from arneb_core.engine.engine import Engine, open_engine

MESSAGE_BYTES_MAX: Final = 65_536
"""The largest packet that carries a client's socket: its description as JSON and what it has
already sent."""

READ_BYTES: Final = 1 << 20
HEAD: Final = array("I").itemsize * 4
"""The size of the header of a run: its bytes, its number, the topic's number, its entries."""


def vhost_of(shard: int) -> str:
    """The vhost that a shard serves; the first one serves the default vhost."""
    return f"shard-{shard}" if shard else "/"


def config_of(shards: int) -> AmqpConfig:
    """The configuration of all processes."""
    return AmqpConfig(vhosts=tuple(vhost_of(each) for each in range(max(shards, 1))))


def say(port: int) -> None:
    """Tell the parent process that clients may connect."""
    print(json.dumps(port), flush=True)


async def one(path: Path) -> None:
    """Engine and AMQP in one process."""
    async with open_engine(path) as engine, trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        await nursery.start(partial(serve_amqp, engine, listeners, config=config_of(1)))
        say(listeners[0].socket.getsockname()[1])


class ByVhost:
    """Passes clients on through one socket per vhost."""

    def __init__(self, ways: Sequence[socket.socket]) -> None:
        self._ways = {vhost_of(number): way for number, way in enumerate(ways)}

    def __repr__(self) -> str:
        return f"<ByVhost {list(self._ways)}>"

    async def pass_on(self, client: ReceivedClient) -> None:
        """Pass one client on."""
        sock, _ = await client.hand_over()
        message = len(client.document).to_bytes(4, "big") + client.document + client.unread
        socket.send_fds(self._ways[client.vhost], [message], [sock.fileno()])
        sock.close()

    def say_goodbye(self) -> None:
        """Do nothing: this process carries no connections."""


async def reception(path: Path, ways: Sequence[socket.socket]) -> None:
    """Complete handshakes and pass clients on."""
    config = config_of(len(ways))
    async with open_engine(path) as engine:
        catalogue, adjustable = await open_catalogue(engine, config), Adjustable(config)
        authority = Authority([InternalBackend(catalogue.tables)], adjustable.is_loopback_only)
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        say(listeners[0].socket.getsockname()[1])
        await serve_reception(listeners, ByVhost(ways), adjustable, authority)


async def shard(path: Path, way: socket.socket, shards: int) -> None:
    """Engine and AMQP for the clients that arrive through ``way``."""
    admitting = Admitting()
    way.setblocking(False)
    async with open_engine(path) as engine, trio.open_nursery() as nursery:
        config = config_of(shards)
        await nursery.start(partial(serve_amqp, engine, [], config=config, admitting=admitting))
        say(0)
        while True:
            await trio.lowlevel.wait_readable(way)
            message, descriptors, _, _ = socket.recv_fds(way, MESSAGE_BYTES_MAX, 1)
            if not message:
                return
            end = 4 + int.from_bytes(message[:4], "big")
            admission, remote = decode_admission(message[4:end])
            client = socket.socket(fileno=descriptors[0])
            nursery.start_soon(admitting.admit, admission, remote, client, None, message[end:])


class Across:
    """An engine whose appends are carried out in another process. It does everything else itself,
    so that sessions find a complete core."""

    def __init__(self, engine: Engine, way: socket.socket) -> None:
        self._engine = engine
        self._way = way
        self._topics: dict[Topic, int] = {}
        self._waiting: dict[int, Appended] = {}
        self._next = 0

    def __repr__(self) -> str:
        return f"<Across, {len(self._waiting)} runs under way>"

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def append(
        self, topic: Topic, entries: list[bytes], done: Appended, *_: object, **__: object
    ) -> None:
        """Send one run to the core."""
        number = self._topics.get(topic)
        if number is None:
            number = self._topics[topic] = len(self._topics)
            name = topic.name.encode()
            self._send(array("I", [len(name), 0, number, 0]).tobytes() + name)
        self._next += 1
        self._waiting[self._next] = done
        body = b"".join(entries)
        sizes = array("I", map(len, entries)).tobytes()
        head = array("I", [len(sizes) + len(body), self._next, number, len(entries)])
        self._send(head.tobytes() + sizes + body)

    def _send(self, data: bytes) -> None:
        # Blocking, because the other side is always reading, and a prototype need not wait
        # politely.
        self._way.sendall(data)

    async def hear(self) -> None:
        """Notify those who wait when the core reports what is stored."""
        left = b""
        while True:
            await trio.lowlevel.wait_readable(self._way)
            data = left + self._way.recv(READ_BYTES)
            whole = len(data) // 4 * 4
            for number in array("I", data[:whole]):
                self._waiting.pop(number)(None, Position(0))
            left = data[whole:]


async def worker(path: Path, way: socket.socket) -> None:
    """AMQP, with its core at the other end of ``way``."""
    async with open_engine(path) as engine, trio.open_nursery() as nursery:
        across: Any = Across(engine, way)
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        await nursery.start(partial(serve_amqp, across, listeners, config=config_of(1)))
        nursery.start_soon(across.hear)
        say(listeners[0].socket.getsockname()[1])


async def core(path: Path, way: socket.socket) -> None:
    """The engine, for a worker at the other end of ``way``."""
    topics: dict[int, Topic] = {}

    def done(number: int, error: Exception | None, _: Position) -> None:
        assert error is None, f"expected run {number} to be stored: {error}"
        way.sendall(array("I", [number]).tobytes())

    async with open_engine(path) as engine:
        say(0)
        data = b""
        while True:
            await trio.lowlevel.wait_readable(way)
            data += way.recv(READ_BYTES)
            at = 0
            while len(data) - at >= HEAD:
                size, number, topic, count = array("I", data[at : at + HEAD])
                begin = at + HEAD
                if len(data) - begin < size:
                    break
                at = begin + size
                if not count:
                    name = data[begin:at].decode()
                    there = engine.topics.get(name)
                    topics[topic] = there or await engine.create_topic(name)
                    continue
                place, entries = begin + 4 * count, list[bytes]()
                for length in array("I", data[begin:place]):
                    entries.append(data[place : place + length])
                    place += length
                engine.append(topics[topic], entries, partial(done, number), count)
            data = data[at:]


def main() -> None:
    """Run a part: ``PART PATH SHARDS DESCRIPTOR…``"""
    part, path, shards, *descriptors = sys.argv[1:]
    ways = [socket.socket(fileno=int(each)) for each in descriptors]
    where = Path(path)
    os.makedirs(where.parent, exist_ok=True)
    match part:
        case "one":
            trio.run(one, where)
        case "reception":
            trio.run(reception, where, ways)
        case "shard":
            trio.run(shard, where, ways[0], int(shards))
        case "worker":
            trio.run(worker, where, ways[0])
        case "core":
            trio.run(core, where, ways[0])
        case _:
            raise SystemExit(f"expected a part of a broker, got {part!r}")


if __name__ == "__main__":
    main()
