"""Kills a broker that does a bit of everything, and checks its promises after each kill.

Every :mod:`player <tests.crash.players.player>` has a feature and topics of its own; in each life
some of them are active together. Half of the kills are power cuts: they happen during a write or a
sync of the store, and what it has not flushed is lost. With ``--set-clock`` the broker's wall clock
is set back and forward all the time, but never ahead of ours: nothing may come early by ours. (An
``x-delay`` is counted by the broker's clock, so its player is not active then.) The test suite runs
a short form; by hand, from the repository's root, for as long as you like::

    python -m tests.crash.mixed --kills 100
    python -m tests.crash.mixed --kills 20 --seed 1234 --players stream,keys
    python -m tests.crash.mixed --kills 100 --set-clock
    python -m tests.crash.mixed --kills 10 --players holes --entries 120000 --load 20
"""

import asyncio
import math
import random
import signal
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from conformance.brokers.arneb import Arneb, run_arneb
from conformance.brokers.process import BrokerFailed
from conformance.wire.amqp import AmqpClosed
from conformance.wire.pulsar import PulsarClosed
from tests.crash.command_line import parser_of, play
from tests.crash.failing_disk import FailingDisk, compile_shim
from tests.crash.flush_probe import FlushProbe
from tests.crash.history import ACK_WITHIN_S
from tests.crash.players.delayed_exchange import DelayedExchangePlayer
from tests.crash.players.everybody import PLAYERS, UNLIMITED, PromiseBroken, judge
from tests.crash.players.holes import HolePlayer
from tests.crash.processor_wait import LOOK_EVERY_S, ProcessorWait, waited_s_of
from tests.crash.set_clock import SetClock, compile_clock

from arneb_core.store.format.schema import Table
from arneb_core.store.reading.snapshot_environment import open_snapshot_environment

LOAD_S_MIN = 0.02
LOAD_S_MAX = 1.0
START_S_MAX = 0.8
KILL_IN_START_PART = 0.1
KILL_IN_STOP_PART = 0.1
AT_WORK_PARTS = (0.05, 0.4, 0.9)
"""The smallest of these leaves one player alone in some lives: then the broker's loop commits by
itself, to the journal."""
JUDGED_WITHIN_S = 90.0
SUMMARY_EVERY = 10
WAITED_S_TOLD = 0.1
"""If the broker waited longer than this for a processor, the report says so, because it could
promise little then."""
FLUSHES_OF_AN_ACK = 2
POWER_CUT_PART = 0.5
WRITES_OF_A_LIFE = 150
WRITES_OF_A_START = 12
"""The highest number of writes and syncs before the power is cut; mostly it is far fewer."""
TRIM_LOOKS_MAX = 300
CLOCK_BEHIND_S_MAX = 2 * 60 * 60
CLOCK_SET_PART = 0.03
"""How often the clock is set, as a share of the checks whether the broker has died."""


class Run:
    """The lives of one broker. The seed repeats a run's plan, but not the machine's timing."""

    def __init__(
        self,
        directory: Path,
        seed: int,
        names: Sequence[str],
        load_s_max: float,
        *,
        sets_clock: bool = False,
    ) -> None:
        self._load_s_max = load_s_max
        listeners = ("amqp", "pulsar", "http-pulsar")
        shim = compile_shim(directory)
        self._disk = shim and FailingDisk(shim, directory / "control", directory / "data")
        extra = dict(self._disk.environment) if self._disk else {}
        clock = compile_clock(directory) if sets_clock else None
        self._clock = clock and SetClock(clock, directory / "clock")
        self._clock_dice = random.Random(seed)
        if self._clock is not None:
            preloaded = [extra.get("LD_PRELOAD"), self._clock.environment["LD_PRELOAD"]]
            extra |= self._clock.environment
            extra["LD_PRELOAD"] = ":".join(each for each in preloaded if each)
        self._broker = Arneb(directory, listeners=listeners, settings=UNLIMITED, extra=extra)
        self._alive_at = 0.0
        """When the broker was last seen running, on the event loop's clock."""
        self._wait = ProcessorWait(lambda: 0.0)
        """The waits for a processor in the current life."""
        self._dice = random.Random(seed)
        self._players = [
            PLAYERS[name](self._broker, random.Random(self._dice.random())) for name in names
        ]

    async def kill_times(self, kills: int) -> None:
        """Kill the broker that often. Raises :class:`PromiseBroken` or :class:`BrokerFailed`."""
        self._broker.start()
        for player in self._players:
            await player.prepare()
            await player.end()
        how = await self._load()
        for life in range(1, kills + 1):
            began = time.monotonic()
            if life < kills and self._dice.random() < KILL_IN_START_PART:
                print(f"kill {life}: {how}; {await self._kill_in_start()}", flush=True)
                continue
            self._check()
            if self._disk is not None:
                self._disk.heal()
            if self._clock is not None:
                self._clock.set(0)
            self._broker.start()
            await judge(self._players, JUDGED_WITHIN_S)
            done = how
            if life < kills:
                how = await self._load()
            print(f"kill {life}: {done}; {time.monotonic() - began:.1f} s", flush=True)
            if life % SUMMARY_EVERY == 0 or life == kills:
                for player in self._players:
                    print(f"  {player.name}: {player.summary()}", flush=True)
        await self._delete_all()
        self._broker.stop()
        self._check()

    def end(self) -> None:
        self._broker.kill()

    async def _kill_in_start(self) -> str:
        cut = self._may_cut_power(WRITES_OF_A_START)
        self._broker.spawn()
        pause = self._dice.uniform(0, START_S_MAX)
        died = await self._dies_within(pause)
        self._broker.kill()
        self._check()
        how = ", the power went" if died and cut else ""
        return f"{pause:.2f} s after the start of the process{how}"

    def _may_cut_power(self, writes_max: int) -> bool:
        """Perhaps have the disk lose its power soon; the result is whether it will."""
        if self._disk is None:
            return False
        self._disk.heal()
        if self._dice.random() > POWER_CUT_PART:
            return False
        after = int(math.exp(self._dice.uniform(0, math.log(writes_max))))
        self._disk.cut(after, self._dice.randrange(1 << 31))
        return True

    async def _dies_within(self, seconds: float) -> bool:
        """Whether the broker ends before that time is over."""
        loop = asyncio.get_running_loop()
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            now = loop.time()
            if not self._broker.running:
                return True
            self._alive_at = now
            self._wait.look(now)
            if self._clock is not None and self._clock_dice.random() < CLOCK_SET_PART:
                self._clock.set(-self._clock_dice.choice([0, 1, CLOCK_BEHIND_S_MAX]))
            await asyncio.sleep(min(LOOK_EVERY_S, left))
        return not self._broker.running

    async def _load(self) -> str:
        """Run some players at once, then send SIGKILL at a random instant; the result describes
        it."""
        part = self._dice.choice(AT_WORK_PARTS)
        chosen = [each for each in self._players if self._dice.random() < part]
        chosen = chosen or [self._dice.choice(self._players)]
        tasks = [
            asyncio.create_task(loop, name=player.name)
            for player in chosen
            for loop in await player.start()
        ]
        pause = self._dice.uniform(LOAD_S_MIN, self._load_s_max)
        how = f"{' '.join(each.name for each in chosen)} for {pause:.2f} s"
        cut = self._may_cut_power(WRITES_OF_A_LIFE)
        self._wait = ProcessorWait(partial(waited_s_of, self._broker.pid))
        with FlushProbe(self._broker.directory) as probe:
            died = await self._dies_within(pause)
        # An ack may have had to wait for a flush that was under way, and then for its own.
        waited_s = FLUSHES_OF_AN_ACK * probe.slowest_s
        if died and not cut:
            raise PromiseBroken(
                f"the broker ended by itself under {how}\n{self._broker.log[-2_000:]}"
            )
        if died:
            how += ", the power went"
        elif self._dice.random() < KILL_IN_STOP_PART:
            self._broker.signal(signal.SIGTERM)
            await asyncio.sleep(self._dice.uniform(0, 0.2))
            how += ", SIGTERM first"
        if self._wait.waited_s > WAITED_S_TOLD:
            how += f", {self._wait.waited_s:.2f} s without a processor"
        # A broker whose power was cut may have been dead for as long as this loop was busy
        # elsewhere.
        now = self._alive_at if died else asyncio.get_running_loop().time()
        if not died:
            self._wait.look(now)
        now = self._wait.worked_until(now - waited_s, ACK_WITHIN_S) + ACK_WITHIN_S
        self._broker.kill()
        _, pending = await asyncio.wait(tasks, timeout=20)
        if pending:
            raise PromiseBroken(f"a fault of the test: still at work are {pending}")
        await asyncio.gather(*tasks)
        for player in self._players:
            player.crash(now)
            await player.end()
        return how

    async def _delete_all(self) -> None:
        """Delete everything and check that no bodies shared by several queues are left."""
        for player in self._players:
            await player.clear()
            await player.end()
        for _ in range(TRIM_LOOKS_MAX):
            if not (bodies := _bodies_in(self._broker.data)):
                return
            await asyncio.sleep(0.1)
        raise PromiseBroken(f"{bodies} bodies are left of queues that are gone")

    def _check(self) -> None:
        done = run_arneb("check", str(self._broker.data))
        if done.returncode:
            raise PromiseBroken(f"arneb check: {done.returncode}\n{done.stdout}{done.stderr}")


def _bodies_in(data: Path) -> int:
    """The number of bodies that are stored apart from the queues that share them."""
    with open_snapshot_environment(data) as environment, environment.snapshot() as snapshot:
        return snapshot.rows(Table.BODIES)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it; for the exit status see :func:`.play`."""
    parser = parser_of("mixed", "SIGKILLs of a broker that does a bit of everything.")
    parser.add_argument(
        "--players", default=",".join(PLAYERS), help="comma-separated, of: %(default)s"
    )
    parser.add_argument(
        "--entries",
        type=int,
        default=HolePlayer.entries,
        help="how many entries the player holes uses",
    )
    parser.add_argument(
        "--load", type=float, default=LOAD_S_MAX, help="at most this many seconds before a kill"
    )
    parser.add_argument(
        "--set-clock",
        action="store_true",
        help="set the broker's clock forward and back all the time",
    )
    options = parser.parse_args(arguments)
    names = options.players.split(",")
    if options.set_clock:
        names = [name for name in names if name != DelayedExchangePlayer.name]
    if strange := set(names) - PLAYERS.keys():
        parser.error(f"expected players out of {', '.join(PLAYERS)}, got {', '.join(strange)}")
    HolePlayer.entries = options.entries

    def lives(directory: Path, seed: int) -> Run:
        return Run(directory, seed, names, options.load, sets_clock=options.set_clock)

    failures = (PromiseBroken, BrokerFailed, AmqpClosed, PulsarClosed, OSError)
    return play(parser, options, lives, failures)


if __name__ == "__main__":
    sys.exit(main())
