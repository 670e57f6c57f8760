"""The cost of reaching the leader through another node: ``python -m bench.carried``.

The rule: there are two nodes, each a process. The same load goes first directly to the leader and
then through the carrying node; the cost is the carrying node's CPU time per message.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import trio
from bench.load import LoadGenerator, compile_generator
from conformance.brokers.process import Address

from arneb.clustered.ports.routing import AMQP, AmqpClients
from arneb_amqp.config import Adjustable, AmqpConfig
from arneb_amqp.server import serve_amqp
from arneb_amqp.server.admission.reception import serve_reception
from arneb_amqp.server.admitted import Admitting
from arneb_amqp.topology.seeding import open_catalogue
from arneb_cluster.routing.division import Division
from arneb_cluster.routing.internal_port import InternalPort, serve_internal
from arneb_cluster.routing.internal_protocol import Secret
from arneb_cluster.routing.internal_settings import InternalSettings
from arneb_cluster.routing.leaders import Leaders
from arneb_cluster.routing.onward import OnwardByLeader
from arneb_cluster.routing.relaying import Relays
from arneb_core.access.authority import Authority
from arneb_core.access.internal import InternalBackend
from arneb_core.access.namespaces import proposed_namespace
from arneb_core.api.nodes.placement import HERE, Elsewhere, NodeAddresses
from arneb_core.engine.engine import open_engine

SHARD: Final = "main"
SECRET: Final = Secret(b"of two nodes that measure, on loopback only")
TICKS_A_SECOND: Final = 100


async def serve(name: str, path: Path, leader: str) -> None:
    """Run one node until it is killed: the leader if ``leader``, the address of another node, is
    empty. It prints its ports."""
    config, leaders = AmqpConfig(), Leaders(Division(SHARD))
    settings, admitting = InternalSettings(name, SECRET), Admitting()
    leaders.say(SHARD, Elsewhere(NodeAddresses("leader", leader)) if leader else HERE)
    async with open_engine(path) as engine, trio.open_nursery() as nursery:
        catalogue = await open_catalogue(engine, config)
        adjustable = Adjustable(config)
        authority = Authority([InternalBackend(catalogue.tables)], adjustable.is_loopback_only)
        await nursery.start(
            partial(serve_amqp, engine, [], config=config, authority=authority, admitting=admitting)
        )
        clients = AmqpClients(name, leaders, proposed_namespace, lambda _: admitting)
        onward = OnwardByLeader(settings, leaders, Relays(), clients.clients)
        inner = await trio.open_tcp_listeners(0, host="127.0.0.1")
        await nursery.start(serve_internal, InternalPort(settings, {AMQP: clients}), inner)
        outer = await trio.open_tcp_listeners(0, host="127.0.0.1")
        await nursery.start(serve_reception, outer, onward, adjustable, authority)
        ports = [each[0].socket.getsockname()[1] for each in (outer, inner)]
        print(json.dumps(ports), flush=True)
        await trio.sleep_forever()


@dataclass(frozen=True, slots=True)
class Process:
    """One node."""

    process: "subprocess.Popen[str]"
    address: Address
    internal: str

    def cpu_s(self) -> float:
        """The CPU seconds that it has used so far."""
        stat = Path(f"/proc/{self.process.pid}/stat").read_text(encoding="utf-8")
        user, system = stat.rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / TICKS_A_SECOND


@contextmanager
def node(name: str, path: Path, leader: str = "") -> Iterator[Process]:
    """A node in a process of its own."""
    command = [sys.executable, "-m", "bench.carried", "--serve", name, str(path), leader]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            outer, inner = json.loads(process.stdout.readline())
            yield Process(process, Address("127.0.0.1", outer), f"127.0.0.1:{inner}")
        finally:
            process.kill()


LOADS: Final = (
    ("one confirm at a time", "publish", {"window": 1, "connections": 1}, 100),
    ("window 100, one send a message", "publish", {"window": 100, "as_client": True}, 4),
    ("window 1,000, gathered", "publish", {"window": 1000}, 1),
    ("publish and consume, window 1,000", "through", {"window": 1000, "consumers": 1}, 1),
    ("16 KiB bodies, window 100", "publish", {"window": 100, "body": 16_384}, 4),
)
"""The name of each load, its mode and options, and the divisor of its number of messages."""


def measure(load: LoadGenerator, leader: Process, carrying: Process, count: int) -> list[str]:
    """Measure every load; the result is the rows of a table."""
    rows = list[str]()
    for what, mode, options, fewer in LOADS:
        figures = []
        for number, at in enumerate((leader, carrying)):
            before_s, total = carrying.cpu_s(), count // fewer
            begin_s = time.perf_counter()
            load.run(at.address, mode, queue=f"{mode}-{len(rows)}-{number}", count=total, **options)
            took_s = time.perf_counter() - begin_s
            figures.append((total / took_s, (carrying.cpu_s() - before_s) / total * 1e6))
        (straight, _), (carried, cost_us) = figures
        rows.append(
            f"| {what} | {straight:,.0f} | {carried:,.0f} | {carried / straight:.2f} |"
            f" {cost_us:.1f} |"
        )
    return rows


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=400_000)
    parser.add_argument("--serve", nargs=3, metavar=("NAME", "PATH", "LEADER"))
    arguments = parser.parse_args()
    if arguments.serve:
        name, path, address = arguments.serve
        trio.run(serve, name, Path(path), address)
        return
    print(
        "| load | messages/s at the leader | through another node | ratio | its CPU, µs a message |"
    )
    print("|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as where:
        load = compile_generator(Path(where) / "programs")
        with node("leader", Path(where) / "leader") as leader:
            at = Path(where) / "carrying"
            with node("carrying", at, leader.internal) as carrying:
                for row in measure(load, leader, carrying, arguments.count):
                    print(row)


if __name__ == "__main__":
    main()
