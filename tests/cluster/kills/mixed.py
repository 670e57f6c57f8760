"""Kills under a mixed load: disturbances of a cluster whose clients do a bit of everything.

``python -m tests.cluster.kills.mixed --seed 7 --times 5 --kinds leader,stop`` starts Apache Pulsar
(two brokers, three bookies), or Arneb in its place (``--service arneb``), and three nodes behind a
splitter. In each life some of the crash suite's :mod:`players <tests.crash.players.player>` are at
work, and a canary always; then one thing goes wrong:

============ ======================================================================
leader       SIGKILL of the node that leads
stop         SIGSTOP of it; it continues when another leads
follower     SIGKILL of a node that follows
broker       SIGKILL of a Pulsar broker, which is started again
bookie       SIGKILL of a bookie, which is started again
network      nothing gets from the leader to Pulsar or back, or its connections
             are refused, until another leads
take-over    SIGKILL of the leader, and of another node while it takes over
copy         a node that has lost its directory takes a copy. In the middle of it,
             that node is killed, or the one that gives it, or the leader
receipted    SIGKILL of the leader between a receipt and its directory
applied      SIGKILL of the leader between its directory and the confirm
confirmed    SIGKILL of the leader between a confirm and its directory
============ ======================================================================

After each disturbance, every promise of the players is judged at whichever node they reach. At the
end all nodes are killed, their directories are equal, and ``arneb check`` finds nothing.
"""

import asyncio
import random
import statistics
import sys
import time
from argparse import ArgumentParser
from collections import defaultdict
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from tempfile import mkdtemp
from typing import Final

from conformance.brokers.arneb import REPOSITORY, SOURCE_ROOTS, run_arneb
from conformance.brokers.arneb_cluster import ArnebCluster
from conformance.brokers.process import Address, BrokerFailed
from conformance.brokers.pulsar_service import KINDS as SERVICES
from conformance.brokers.pulsar_service import PulsarService, pulsar_service
from conformance.wire.amqp import AmqpClosed
from conformance.wire.pulsar import PulsarClosed
from conformance.wire.running import run as run_scenario
from tests.cluster.kills.canary import Canary
from tests.cluster.kills.disturbances import KINDS, Disturbances
from tests.cluster.kills.equal import counted, differences
from tests.cluster.kills.hooked import POINTS
from tests.crash.players.everybody import PLAYERS, UNLIMITED, PromiseBroken, judge
from tests.crash.players.holes import HolePlayer
from tests.crash.players.keys import KeyPlayer
from tests.crash.players.player import Player

LOAD_S_MAX: Final = 2.0
LOAD_S_MIN: Final = 0.1
AT_WORK_PARTS: Final = (0.2, 0.5, 0.9)
LATER_S_MAX: Final = 1.5
"""How long clients continue after the disturbance."""
CONFIRM_WITHIN_S: Final = 90.0
JUDGED_WITHIN_S: Final = 150.0
ENDED_WITHIN_S: Final = 40.0
SETTLED_S: Final = 2.5
"""By then the living nodes know which clients have gone. What a client had sent and nobody had
answered may be carried out a little later, and an HTTP request waits 2 s for a leader."""
SESSION_S: Final = 15.0
"""The topics of a dead Pulsar broker stay with it until its session has ended, after 10 s. Other
topics pause with them, and new clients are sent away."""
HELD_S: Final = 1.0
"""Within this time, a node that has something only in memory and receives no more has it on
disk."""
STILL_S: Final = 3.0
"""Everything in flight has been written by then."""
RESTING: Final = {"follower": (KeyPlayer.name,)}
"""Players that are judged but not at work. When a follower is killed, some consumers go and others
stay. The leader notices that before the players do, and gives others what, by the players' books,
those consumers still hold."""
EVERYBODY: Final = ""
"""All clients of a splitter."""
AFTER_JUDGING_PART: Final = 0.5
"""In this part of the lives, what was killed or stopped is restored only after everything was
judged without it."""
RECENT_S: Final = 2.0
FLUSHES_OF_AN_ACK: Final = 2
ENTRIES: Final = 8_000
"""To make holes in: the crash suite's own run has more."""


class Run:
    """One cluster's lives."""

    def __init__(
        self,
        directory: Path,
        service: PulsarService,
        owners: "Owners",
        names: Sequence[str],
        seed: int,
    ) -> None:
        self.took_s: dict[str, list[float]] = defaultdict(list)
        """Times from the disturbance to the next confirm, by kind."""
        self._service = service
        points = directory / "points"
        points.mkdir(parents=True)
        roots = ":".join([str(REPOSITORY), *(str(REPOSITORY / root) for root in SOURCE_ROOTS)])
        self.cluster = owners.cluster = ArnebCluster(
            directory / "cluster", service, listeners=("amqp", "pulsar", "http", "http-pulsar"),
            settings=UNLIMITED, command=[sys.executable, "-m", "tests.cluster.kills.hooked"],
            extra={POINTS: str(points), "PYTHONPATH": roots},
        )  # fmt: skip
        self._dice = random.Random(seed)
        self._disturbances = Disturbances(self.cluster, service, points, self._dice)
        self._players: list[Player] = [
            PLAYERS[name](self.cluster, random.Random(self._dice.random())) for name in names
        ]
        nodes = [each.port("amqp") for each in self.cluster.nodes]
        self._canary: Canary | None = None
        self._turns = count()
        self._nodes = nodes

    async def play(self, kinds: Sequence[str]) -> None:
        """Raises :class:`PromiseBroken` or :class:`BrokerFailed`."""
        self.cluster.start()
        self._canary = Canary(self._next_node, self._nodes)
        await self._canary.start()
        for player in self._players:
            await player.prepare()
            await player.end()
        for number, kind in enumerate(kinds, 1):
            began = time.monotonic()
            how = await self._live(kind)
            print(f"{number}: {how}; {time.monotonic() - began:.1f} s", flush=True)
            if self._canary.anomalies:
                raise PromiseBroken("\n".join(self._canary.anomalies[:5]))
        for player in self._players:
            print(f"  {player.name}: {player.summary()}", flush=True)
        if anomalies := await self._canary.finish():
            raise PromiseBroken("\n".join(anomalies[:5]))
        print(f"  canary: {self._canary.summary()}", flush=True)
        await self._compare()

    def _next_node(self) -> Address:
        """A node that runs, in turn."""
        nodes = [each for each in self.cluster.nodes if each.running and not each.is_still]
        return nodes[next(self._turns) % len(nodes)].port("amqp")

    async def _live(self, kind: str) -> str:
        canary = self._canary
        assert canary is not None
        part = self._dice.choice(AT_WORK_PARTS)
        resting = RESTING.get(kind, ())
        chosen = [each for each in self._players if self._dice.random() < part]
        chosen = [each for each in chosen if each.name not in resting]
        tasks = [
            asyncio.create_task(loop, name=player.name)
            for player in chosen
            for loop in await player.start()
        ]
        leader = await asyncio.to_thread(self.cluster.leader)
        await asyncio.sleep(self._dice.uniform(LOAD_S_MIN, LOAD_S_MAX))
        waited_s = FLUSHES_OF_AN_ACK * canary.slowest_s(RECENT_S)
        at, now = time.monotonic(), asyncio.get_running_loop().time()
        # A client that is stuck at a former leader keeps what it had, and by the players' books
        # nobody else may get that. The canary checks that such a leader delivers nothing.
        for splitter in self.cluster.splitters.values():
            splitter.refuse_more(EVERYBODY)
        for player in self._players:
            player.cut()
        restore = await self._disturbances.happen(kind, leader)
        try:
            confirm = await canary.confirm_after(at, CONFIRM_WITHIN_S)
        except TimeoutError:
            raise PromiseBroken(f"no confirm within {CONFIRM_WITHIN_S} s of {kind}") from None
        self.took_s[kind].append(confirm - at)
        # A client of a node that is cut off waits there until it is reconnected.
        later = kind != "network" and self._dice.random() < AFTER_JUDGING_PART
        if not later:
            await restore()
        await asyncio.sleep(self._dice.uniform(0, LATER_S_MAX))
        # As if there were no broker any more: clients that are only cut would reconnect at once.
        for splitter in self.cluster.splitters.values():
            splitter.refuse(EVERYBODY)
        _, pending = await asyncio.wait(tasks, timeout=ENDED_WITHIN_S) if tasks else ((), ())
        if pending:
            raise PromiseBroken(f"a fault of the test: still at work are {pending}")
        await asyncio.gather(*tasks)
        for splitter in self.cluster.splitters.values():
            splitter.heal(EVERYBODY)
        for player in self._players:
            player.crash(now - waited_s)
            await player.end()
        try:
            outlasts = kind == "broker" and len(self._service.brokers) > 1
            await canary.steady(SESSION_S if outlasts else SETTLED_S, CONFIRM_WITHIN_S)
        except TimeoutError:
            raise PromiseBroken(f"no steady confirms within {CONFIRM_WITHIN_S} s") from None
        await asyncio.to_thread(self.cluster.leader)
        await judge(self._players, JUDGED_WITHIN_S)
        if later:
            await restore()
        # Nodes that were killed, stopped or cut off must follow again; until then clients would be
        # sent away.
        await asyncio.to_thread(self.cluster.wait_equal)
        names = " ".join(each.name for each in chosen)
        return f"{kind} at {leader.node} under {names}, confirms after {confirm - at:.2f} s"

    # The end

    async def _compare(self) -> None:
        await asyncio.sleep(STILL_S)
        await asyncio.to_thread(self.cluster.wait_equal)
        await asyncio.sleep(HELD_S)
        paths = {each.node: each.data for each in self.cluster.nodes}
        self.cluster.kill()
        if wrong := differences(paths):
            raise PromiseBroken("\n".join(wrong))
        for node, path in paths.items():
            done = run_arneb("check", str(path))
            if done.returncode:
                raise PromiseBroken(f"arneb check of {node}: {done.stdout}{done.stderr}")
        first = next(iter(paths.values()))
        print(f"  three equal directories: {counted(first)}", flush=True)


class Owners:
    """Whose each connection to Pulsar is; there is no cluster yet when Pulsar starts."""

    cluster: ArnebCluster | None = None

    def __call__(self, port: int) -> str:
        return self.cluster.owner_of(port) if self.cluster is not None else "nobody"


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status: 0 if every promise was kept. Otherwise the data stays at the printed
    place."""
    parser = ArgumentParser(prog="mixed", description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--times", type=int, default=5, help="of each kind")
    parser.add_argument("--kinds", default="", help=f"some of {','.join(KINDS)}")
    parser.add_argument("--players", default=",".join(PLAYERS), help="some of %(default)s")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--service", choices=SERVICES, default="cluster")
    parser.add_argument("--directory", type=Path, default=None)
    wanted = parser.parse_args(arguments)
    seed = random.SystemRandom().randrange(10**6) if wanted.seed is None else wanted.seed
    possible = [each for each in KINDS if wanted.service == "cluster" or each != "bookie"]
    kinds = wanted.kinds.split(",") if wanted.kinds else possible
    if strange := set(kinds) - set(possible):
        parser.error(f"expected kinds out of {', '.join(possible)}, got {', '.join(strange)}")
    HolePlayer.entries = ENTRIES
    directory: Path = wanted.directory or Path(mkdtemp(prefix="arneb-cluster-"))
    print(f"seed {seed}, data in {directory}", flush=True)
    order = list(kinds) * wanted.times
    random.Random(seed).shuffle(order)
    owners = Owners()
    began = time.monotonic()
    with pulsar_service(wanted.service, owner=owners) as service:
        run = Run(directory, service, owners, wanted.players.split(","), seed)
        try:
            run_scenario(run.play(order))
        except (PromiseBroken, BrokerFailed, AmqpClosed, PulsarClosed, OSError) as failure:
            print(f"FAILED with seed {seed}, data kept in {directory}\n{failure!r}\n{failure}")
            return 1
        finally:
            run.cluster.kill()
            for kind, took_s in run.took_s.items():
                middle, worst = statistics.median(took_s), max(took_s)
                print(
                    f"{kind}: {len(took_s)} times, the next confirm after {middle:.2f} s in the "
                    f"median, {worst:.2f} s at worst",
                    flush=True,
                )
    print(f"{len(order)} lives in {time.monotonic() - began:.0f} s, no promise broken")
    return 0


if __name__ == "__main__":
    sys.exit(main())
