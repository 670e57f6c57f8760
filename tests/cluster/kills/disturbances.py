"""Disturbances: the kinds of things that go wrong in a cluster, and how each is undone.

The rule: one thing at a time, of the requested kind; the dice choose where and when. A killed
process is restarted only by the function that was returned for that.
"""

import asyncio
import random
import shutil
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final

from conformance.brokers.arneb_cluster import ArnebCluster, ClusterNode
from conformance.brokers.process import BrokerFailed, OwnProcess
from conformance.brokers.pulsar_service import PulsarService
from tests.cluster.kills.hooked import APPLIED, CONFIRMED, GIVING, RECEIPTED, TAKING, arm
from tests.crash.players.everybody import PromiseBroken

TAKE_OVER_S: Final = (1.0, 3.5)
"""How long after a leader's death another node is in the middle of taking over."""
DIES_WITHIN_S: Final = 20.0
COPIES_WITHIN_S: Final = 60.0
LEADING: Final = "leading"
PIECES_MAX: Final = 4
"""The most pieces of a copy that are taken before something is killed."""
STARTS_MAX: Final = 5
REFUSE_PART: Final = 0.5
POLL_S: Final = 0.01

Restore = Callable[[], Awaitable[None]]
"""Undoes the disturbance."""


class Disturbances:
    """What happens to one cluster, and to the Pulsar service that holds its log."""

    def __init__(
        self, cluster: ArnebCluster, service: PulsarService, points: Path, dice: random.Random
    ) -> None:
        """``points``: the directory that arms the points of :mod:`.hooked` at which nodes die."""
        self._cluster = cluster
        self._service = service
        self._points = points
        self._dice = dice
        self._coming: list[OwnProcess] = []
        """Pulsar servers that were started and are not ready yet."""

    def __repr__(self) -> str:
        return f"<Disturbances of {self._cluster!r}>"

    async def happen(self, kind: str, leader: ClusterNode) -> Restore:
        """One of :data:`KINDS`, while that node leads; returns what undoes it. Raises
        :class:`.PromiseBroken`, :class:`.BrokerFailed`."""
        return await KINDS[kind](self, leader)

    async def kill_leader(self, leader: ClusterNode) -> Restore:
        """SIGKILL."""
        leader.kill()
        return self._start(leader)

    async def stop_leader(self, leader: ClusterNode) -> Restore:
        """SIGSTOP, and SIGCONT when it is undone."""
        leader.stand_still()

        async def go_on() -> None:
            await asyncio.sleep(self._dice.uniform(0, 1))
            leader.go_on()

        return go_on

    async def kill_follower(self, leader: ClusterNode) -> Restore:
        """SIGKILL."""
        follower = self._dice.choice(self._others(leader))
        follower.kill()
        return self._start(follower)

    async def kill_broker(self, _: ClusterNode) -> Restore:
        """SIGKILL of one of Pulsar's brokers."""
        return await self._kill_server(self._service.brokers)

    async def kill_bookie(self, _: ClusterNode) -> Restore:
        """SIGKILL of one."""
        return await self._kill_server(self._service.bookies)

    async def cut_off(self, leader: ClusterNode) -> Restore:
        """Nothing gets from the leader to Pulsar or back, or its connections are refused."""
        how = "refuse" if self._dice.random() < REFUSE_PART else "still"
        for wire in self._service.wires:
            getattr(wire, how)(leader.node)

        async def heal() -> None:
            for wire in self._service.wires:
                wire.heal(leader.node)

        return heal

    async def kill_two(self, leader: ClusterNode) -> Restore:
        """The leader, and the node that takes over."""
        leader.kill()
        await asyncio.sleep(self._dice.uniform(*TAKE_OVER_S))
        left = self._others(leader)
        taking = [each for each in left if each.figure("leads") == 1] or left
        other = self._dice.choice(taking)
        other.kill()
        return self._start(leader, other)

    async def kill_receipted(self, leader: ClusterNode) -> Restore:
        """The leader, between a receipt and its directory."""
        return await self._kill_at(RECEIPTED, leader)

    async def kill_applied(self, leader: ClusterNode) -> Restore:
        """The leader, between its directory and the confirm."""
        return await self._kill_at(APPLIED, leader)

    async def kill_confirmed(self, leader: ClusterNode) -> Restore:
        """The leader, between a confirm and its directory."""
        return await self._kill_at(CONFIRMED, leader)

    async def kill_while_copied(self, leader: ClusterNode) -> Restore:
        """A node has lost its directory and takes a copy. In the middle of that, this node is
        killed, or the one that gives the copy, or the leader."""
        taker = self._dice.choice(self._others(leader))
        number = max(1, leader.figure("number"))
        taker.kill()
        shutil.rmtree(taker.data)
        point = self._dice.choice((TAKING, GIVING, LEADING))
        if point != LEADING:
            arm(self._points, point, self._dice.randrange(PIECES_MAX))
        taker.spawn()
        if point == LEADING:
            await self._until(
                lambda: any(taker.data.glob("arneb.copy/*")) or taker.figure("number") >= number,
                "a copy begins, or is over",
            )
            leader.kill()
        nodes = self._cluster.nodes
        # Early on there is so little data that nothing is copied, or only a few pieces are.
        await self._until(
            lambda: not all(each.running for each in nodes) or taker.figure("number") >= number,
            f"{point} is met, or the copy is over",
        )
        (self._points / point).unlink(missing_ok=True)
        return self._start(*(each for each in nodes if not each.running))

    # Inside

    def _others(self, leader: ClusterNode) -> list[ClusterNode]:
        return [each for each in self._cluster.nodes if each is not leader]

    async def _kill_at(self, point: str, leader: ClusterNode) -> Restore:
        arm(self._points, point)
        await self._until(lambda: not leader.running, f"{leader} came to {point}", DIES_WITHIN_S)
        return self._start(leader)

    async def _until(
        self, holds: Callable[[], bool], what: str, within_s: float = COPIES_WITHIN_S
    ) -> None:
        end = time.monotonic() + within_s
        while not holds():
            if time.monotonic() > end:
                raise PromiseBroken(f"expected within {within_s} s that {what}")
            await asyncio.sleep(POLL_S)

    async def _kill_server(self, servers: Sequence[OwnProcess]) -> Restore:
        if not servers:
            raise BrokerFailed("expected servers that may be killed")
        while self._coming:  # with two gone there would be no log at all
            await self._ready(self._coming.pop())
        chosen = self._dice.choice(list(servers))
        chosen.kill()
        if len(servers) == 1:
            chosen.spawn()  # type: ignore[attr-defined]

        async def start() -> None:
            # It takes its time; what matters is that the others manage without it.
            if not chosen.running:
                chosen.spawn()  # type: ignore[attr-defined]
                self._coming.append(chosen)

        return start

    async def _ready(self, server: OwnProcess) -> None:
        """A server that finds itself still registered from before its death exits, and is started
        again, as by a supervisor."""
        for _ in range(STARTS_MAX):
            if not server.running:
                server.spawn()  # type: ignore[attr-defined]
            try:
                await asyncio.to_thread(server.wait_ready)  # type: ignore[attr-defined]
            except BrokerFailed:
                if server.running:
                    raise
            else:
                return
        raise BrokerFailed(f"expected {server!r} to start, got {STARTS_MAX} ends")

    def _start(self, *nodes: ClusterNode) -> Restore:
        async def start() -> None:
            # From this thread: the kernel ties a child's life to the thread that starts it.
            for each in nodes:
                each.spawn()
            for each in nodes:
                await asyncio.to_thread(each.wait_ready)

        return start


KINDS: Final[dict[str, Callable[[Disturbances, ClusterNode], Awaitable[Restore]]]] = {
    "leader": Disturbances.kill_leader,
    "stop": Disturbances.stop_leader,
    "follower": Disturbances.kill_follower,
    "broker": Disturbances.kill_broker,
    "bookie": Disturbances.kill_bookie,
    "network": Disturbances.cut_off,
    "take-over": Disturbances.kill_two,
    "copy": Disturbances.kill_while_copied,
    RECEIPTED: Disturbances.kill_receipted,
    APPLIED: Disturbances.kill_applied,
    CONFIRMED: Disturbances.kill_confirmed,
}
