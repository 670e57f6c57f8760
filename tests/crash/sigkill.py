"""Kills a broker repeatedly under load and checks its promises after each kill.

The test suite runs a short form; by hand, from the repository's root, for as long as you like::

    python -m tests.crash.sigkill --kills 300
    python -m tests.crash.sigkill --kills 50 --seed 1234   # the same plan again
"""

import asyncio
import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from conformance.brokers.arneb import Arneb, arneb_command, arneb_environment
from conformance.brokers.process import BrokerFailed
from tests.crash.audit import Audit, AuditStuck
from tests.crash.command_line import parser_of, play
from tests.crash.history import ACK_WITHIN_S, History
from tests.crash.processor_wait import ProcessorWait, waited_s_of
from tests.crash.verdict import accept, judge
from tests.crash.workload import Names, Workload, prepare, remove

LOG_MESSAGES_MAX = 12_000
"""At this length the topics are deleted and new ones made, so that audits stay short."""

LOAD_S_MIN, LOAD_S_MAX = 0.02, 0.8
START_S_MAX = 0.8
KILL_IN_START_PART = 0.12
KILL_IN_STOP_PART = 0.1
CHECK_BESIDE_PART = 0.5


class PromiseBroken(Exception):
    """Promises were broken; one line for each anomaly."""


class Run:
    """The lives of one broker. A random generator decides everything, so the seed repeats a run's
    plan (but not the machine's timing)."""

    def __init__(self, directory: Path, seed: int) -> None:
        self._broker = Arneb(directory, listeners=("amqp", "pulsar"))
        self._dice = random.Random(seed)
        self._names = Names(0)
        self._history = History()
        self._crashed = True

    async def kill_times(self, kills: int) -> None:
        """Kill the broker that often. Raises :class:`PromiseBroken`, :class:`AuditStuck` or
        :class:`BrokerFailed`."""
        self._broker.start()
        await prepare(self._broker, self._names)
        await self._load(0)
        for life in range(1, kills + 1):
            began = time.monotonic()
            if life < kills and self._dice.random() < KILL_IN_START_PART:
                print(f"kill {life}: {await self._kill_in_start()}", flush=True)
                continue
            found = await self._restart_and_judge()
            if len(self._history.log) > LOG_MESSAGES_MAX:
                await self._next_generation()
            how = "" if life == kills else await self._load(life)
            print(f"kill {life}: {found}; {how}{time.monotonic() - began:.1f} s", flush=True)
        self._broker.stop()
        self._check_alone()

    def end(self) -> None:
        self._broker.kill()

    async def _kill_in_start(self) -> str:
        self._broker.spawn()
        pause = self._dice.uniform(0, START_S_MAX)
        await asyncio.sleep(pause)
        self._broker.kill()
        return f"{pause:.2f} s after the start of the process"

    async def _load(self, life: int) -> str:
        """Run all clients at once, then send SIGKILL at a random instant; the result describes
        it."""
        workload = Workload(self._broker, self._names, self._history, self._dice, life)
        tasks = await workload.start()
        pause = self._dice.uniform(LOAD_S_MIN, LOAD_S_MAX)
        wait = ProcessorWait(partial(waited_s_of, self._broker.pid))
        await wait.look_for(pause)
        how = f"load for {pause:.2f} s, "
        self._crashed = True
        if self._dice.random() < KILL_IN_STOP_PART:
            how += await self._stop_a_little(wait)
        wait.look(now := asyncio.get_running_loop().time())
        now = wait.worked_until(now, ACK_WITHIN_S) + ACK_WITHIN_S
        self._broker.kill()
        await workload.end(tasks)
        self._history.crash(now)
        return how

    async def _stop_a_little(self, wait: ProcessorWait) -> str:
        """Send SIGTERM, so that the kill comes during the orderly stop or just after it."""
        pause = self._dice.uniform(0, 0.2)
        self._broker.signal(signal.SIGTERM)
        await wait.look_for(pause)
        self._crashed = self._broker.running
        return f"SIGTERM {pause:.2f} s before, "

    async def _restart_and_judge(self) -> str:
        beside = self._dice.random() < CHECK_BESIDE_PART
        if not beside:
            self._check_alone()
        self._broker.start()
        checking = _start_check(self._broker.data) if beside else None
        audit = await Audit.open(self._broker, self._names, self._history)
        try:
            recovery = await audit.read(after_crash=self._crashed)
            anomalies = judge(self._history, recovery)
            if checking is not None:
                anomalies += _end_check(checking)
            if anomalies:
                raise PromiseBroken("\n".join(anomalies))
            accept(self._history, recovery)
            await audit.acknowledge_most(self._dice)
        finally:
            await audit.close()
            if checking is not None:
                checking.kill()
                checking.wait()
        return (
            f"{len(self._history.confirmed)} confirmed, {len(recovery.log)} in the log, "
            f"{len(recovery.amqp)} back over AMQP, {len(recovery.pulsar)} over Pulsar, check clean"
        )

    async def _next_generation(self) -> None:
        await remove(self._broker, self._names)
        self._names = Names(self._names.generation + 1)
        self._history = History()
        await prepare(self._broker, self._names)

    def _check_alone(self) -> None:
        if anomalies := _end_check(_start_check(self._broker.data)):
            raise PromiseBroken("\n".join(anomalies))


def _start_check(data: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*arneb_command(), "check", str(data)],
        env=arneb_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def _end_check(checking: subprocess.Popen[str]) -> list[str]:
    output, _ = checking.communicate(timeout=120)
    if checking.returncode:
        return [f"arneb check: exit status {checking.returncode}", *output.splitlines()]
    return []


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it; for the exit status see :func:`.play`."""
    parser = parser_of("sigkill", "SIGKILLs under load, and a verdict after each.")
    options = parser.parse_args(arguments)
    return play(parser, options, Run, (PromiseBroken, AuditStuck, BrokerFailed))


if __name__ == "__main__":
    sys.exit(main())
