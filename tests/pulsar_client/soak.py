"""Kills a broker again and again under the load of the client library, and judges what became of
what was promised.

Run by the test suite in a short form, or by hand::

    python -m tests.pulsar_client.soak --kills 100
    python -m tests.pulsar_client.soak --broker cluster --kills 20 --seed 7   # the same dice again

Of a cluster one broker is killed at a time, three times of four the one that has the load's topic.
It must hold that no confirmed message is lost, that the order of each producer is kept, that
nothing stands twice in a topic (deduplication is on), that every subscription goes on after each
kill, and that every producer is back within ``--back-within`` seconds of its topic being served
again.
"""

import argparse
import os
import random
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final, Protocol, TypeVar

import anyio
import anyio.to_thread
from conformance.brokers.arneb import Arneb
from conformance.brokers.process import BrokerFailed, free_port
from conformance.brokers.pulsar_cluster import ClusterBroker, PulsarCluster
from tests.pulsar_client.load import Load, PromiseBroken, confirmed_soon
from tests.pulsar_client.served import broker_of, wait_until_served

from arneb_pulsar.client import ClientOptions, connect
from arneb_pulsar.client.admin import administer

T = TypeVar("T")

TOPIC: Final = "persistent://public/default/load"
BACK_S: Final = 3.0
SERVED_WITHIN_S: Final = 120.0
SERVING_WEIGHT: Final = 2
"""Of two brokers, the one that serves the topic is killed three times of four."""
PAUSE_S: Final = (0.1, 1.0)
"""Of work between one recovery and the next kill, at least and at most."""


class Victim(Protocol):
    """What is killed."""

    is_served_before_restart: bool
    """Others serve its topics as long as it is down."""
    shares_chunks: bool
    """As :func:`.listeners` says."""

    @property
    def pulsar_url(self) -> str: ...

    def start(self) -> None: ...

    def kill_one(self, dice: random.Random) -> str:
        """SIGKILL; who it was."""

    def restart(self) -> None:
        """Have all of it running again."""

    def http_urls(self) -> Sequence[str]:
        """Where those answer that may run, the surviving ones first."""

    def explain(self) -> None:
        """Something is wrong: have its logs say how it stands."""

    def end(self) -> None:
        """Leave no process behind."""


class ArnebVictim:
    """One Arneb, which comes back at once."""

    is_served_before_restart = False
    shares_chunks = True

    def __init__(self, directory: Path, settings: str = "") -> None:
        """``settings``: its configuration file."""
        ports = {name: free_port() for name in ("pulsar", "http-pulsar")}
        self._broker = Arneb(directory, listeners=tuple(ports), ports=ports, settings=settings)
        self._http_urls = [f"http://127.0.0.1:{ports['http-pulsar']}"]

    @property
    def pulsar_url(self) -> str:
        return self._broker.pulsar_url

    def start(self) -> None:
        self._broker.start()

    def kill_one(self, dice: random.Random) -> str:
        self._broker.kill()
        return "arneb"

    def restart(self) -> None:
        self._broker.start()

    def http_urls(self) -> Sequence[str]:
        return self._http_urls

    def explain(self) -> None:
        """What its log says is enough."""

    def end(self) -> None:
        self._broker.kill()


class ClusterVictim:
    """A cluster, one broker of which is killed at a time; the others take its topics over."""

    is_served_before_restart = True
    shares_chunks = False

    def __init__(self, directory: Path) -> None:
        self._cluster = PulsarCluster(directory)
        self._killed: ClusterBroker | None = None

    @property
    def pulsar_url(self) -> str:
        return self._cluster.pulsar_url

    def start(self) -> None:
        self._cluster.start()

    def kill_one(self, dice: random.Random) -> str:
        brokers = self._cluster.brokers
        host, port = broker_of(brokers[0].http_url, TOPIC)
        serving = [each for each in brokers if each.pulsar_url == f"pulsar://{host}:{port}"]
        self._killed = dice.choice([*serving * SERVING_WEIGHT, *brokers])
        self._killed.kill()
        return self._killed.name

    def restart(self) -> None:
        if self._killed is not None:
            self._killed.start()
        self._killed = None

    def http_urls(self) -> Sequence[str]:
        return [each.http_url for each in self._cluster.brokers if each.running]

    def explain(self) -> None:
        for each in self._cluster.brokers:
            if each.running:
                os.kill(each.pid, signal.SIGQUIT)  # Java prints what its threads do
        time.sleep(2)

    def end(self) -> None:
        self._cluster.kill()


VICTIMS: Final[dict[str, type[ArnebVictim] | type[ClusterVictim]]] = {
    "arneb": ArnebVictim,
    "cluster": ClusterVictim,
}


class Hands:
    """One thread that starts and kills processes, and lives as long as they do: the kernel ties a
    child's life to the thread that has started it, and idle threads of a pool end."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "hands")

    def __repr__(self) -> str:
        return "<Hands>"

    async def do(self, what: Callable[[], T]) -> T:
        """Have it done, without holding anybody up."""
        return await anyio.to_thread.run_sync(self._thread.submit(what).result)

    def rest(self) -> None:
        """There is nothing to do any more."""
        self._thread.shutdown()


class Soak:
    """One run. The dice decide the plan, so a seed repeats it (though not the machine's timing)."""

    def __init__(self, victim: Victim, seed: int) -> None:
        self._victim = victim
        self._dice = random.Random(seed)
        self._seed = seed
        self._hands = Hands()
        self.back_s: list[float] = []
        """How long each producer took to be back after each kill."""

    async def play(self, kills: int) -> str:
        """A line about it. Raises :class:`PromiseBroken` and :class:`BrokerFailed`."""
        try:
            return await self._played(kills)
        finally:
            self._victim.end()
            self._hands.rest()

    async def _played(self, kills: int) -> str:
        victim, load = self._victim, Load(TOPIC, shares_chunks=self._victim.shares_chunks)
        await self._hands.do(victim.start)
        async with administer(victim.http_urls()[0]) as admin:
            await load.prepare(admin)
        options = ClientOptions(seed=self._seed, statistics_interval_s=0)
        async with connect(victim.pulsar_url, options) as client:
            try:
                async with load.at_work(client):
                    await confirmed_soon(load)
                    for number in range(1, kills + 1):
                        await anyio.sleep(self._dice.uniform(*PAUSE_S))
                        outcome = await self._kill(load)
                        print(f"kill {number}: {outcome}", flush=True)
            except BaseException as error:
                print(f"{client!r}\n{error!r}", flush=True)
                victim.explain()
                raise
            return await load.judge(client)

    async def _kill(self, load: Load) -> str:
        victim = self._victim
        who = await self._hands.do(partial(victim.kill_one, self._dice))
        began = time.monotonic()
        load.note_disturbance()
        if not victim.is_served_before_restart:
            await self._hands.do(victim.restart)
        served = partial(wait_until_served, victim.http_urls(), load.topic, SERVED_WITHIN_S)
        served_at = await self._hands.do(served)
        await load.until_back()
        back = load.back_after_s(load.disturbances, served_at)
        self.back_s += back.values()
        slowest = max(back, key=lambda name: back[name])
        if victim.is_served_before_restart:
            await self._hands.do(victim.restart)
        return (
            f"{who}, served again after {served_at - began:.1f} s, the last producer back after"
            f" {back[slowest]:.2f} s ({slowest}), {load.confirmed} confirmed"
        )


def main(arguments: Sequence[str]) -> int:
    """0 when every promise was kept."""
    parser = argparse.ArgumentParser(prog="soak", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--broker", choices=sorted(VICTIMS), default="arneb")
    parser.add_argument("--kills", type=int, help="100 of Arneb, 20 in a cluster")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--backend", choices=("trio", "asyncio"), default="trio")
    parser.add_argument("--directory", type=Path, help="for data and logs")
    parser.add_argument("--back-within", type=float, default=BACK_S, metavar="S")
    wanted = parser.parse_args(arguments)
    kills = wanted.kills or {"arneb": 100, "cluster": 20}[wanted.broker]
    seed = wanted.seed if wanted.seed is not None else random.SystemRandom().randrange(10**6)
    directory = wanted.directory or Path(tempfile.mkdtemp(prefix="client-soak-"))
    print(f"seed {seed}, {kills} kills of {wanted.broker}, data in {directory}", flush=True)
    victim = VICTIMS[wanted.broker](directory / "broker")
    soak = Soak(victim, seed)
    began = time.monotonic()
    try:
        outcome = anyio.run(soak.play, kills, backend=wanted.backend)
    except* (PromiseBroken, BrokerFailed, TimeoutError) as failures:
        print(f"FAILED with seed {seed}, data kept in {directory}")
        for failure in failures.exceptions:
            print(failure)
        outcome = ""
    if not outcome:
        return 1
    back = sorted(soak.back_s)
    slowest = back[-1] if back else 0.0
    middle = statistics.median(back) if back else 0.0
    print(f"{outcome}; {kills} kills in {time.monotonic() - began:.0f} s")
    print(f"producers back after: median {middle:.2f} s, slowest {slowest:.2f} s of {len(back)}")
    if slowest > wanted.back_within:
        print(f"FAILED: expected every producer back within {wanted.back_within} s")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
