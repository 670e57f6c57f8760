"""A broker as a child process: started, watched, stopped, killed, measured.

The rule: nothing here looks inside a broker. It uses only what is visible from outside: a command
line, a port, a process id, and ``/proc``.
"""

import os
import random
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol, Self

POLL_S = 0.01
TERMINATE_WITHIN_S = 15.0


class BrokerFailed(Exception):
    """The broker process did not do what was asked; the message ends with the last lines of its
    log."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where a listener accepts connections."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Memory:
    """A process's memory in bytes, from ``/proc/PID/status``.

    ``resident`` includes mapped file pages, which the kernel may reclaim at any time; ``anonymous``
    does not.
    """

    resident: int
    peak: int
    anonymous: int


class Broker(Protocol):
    """What tests and benchmarks need from any broker."""

    name: str

    @property
    def address(self) -> Address:
        """Where it listens for AMQP."""
        ...

    @property
    def amqps_address(self) -> Address:
        """Where it listens for AMQP over TLS, if it was configured to."""
        ...

    @property
    def pid(self) -> int: ...

    def start(self) -> Self:
        """Start it, on the data of its last run if there was one, and wait until it is ready."""
        ...

    def stop(self) -> None:
        """Ask it to shut down, and wait until it has ended. Idempotent."""
        ...

    def kill(self) -> None:
        """Send SIGKILL. Idempotent."""
        ...

    def memory(self) -> Memory: ...

    def cpu_s(self) -> float:
        """The CPU seconds that it has used since it was started, all threads together."""
        ...

    def written_bytes(self) -> int:
        """The bytes that it has caused to be written to disk since it was started."""
        ...

    def alarm(self, resource: str, on: bool) -> None:
        """Raise or clear the alarm of ``"memory"`` or ``"disk"``."""
        ...


class Process:
    """One child process, whose output goes to a log file."""

    __slots__ = ("_log", "_popen")

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        self._log = log
        with log.open("ab") as output:
            self._popen = subprocess.Popen(
                [*_die_with_parent(), *command],
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def __repr__(self) -> str:
        return f"<Process {self._popen.args!r} pid {self.pid}>"

    @property
    def pid(self) -> int:
        return self._popen.pid

    @property
    def returncode(self) -> int | None:
        """None while it is running."""
        return self._popen.poll()

    def terminate(self, within_s: float = TERMINATE_WITHIN_S) -> int:
        """Send SIGTERM and wait; the result is the return code. Raises :class:`BrokerFailed` if it
        had to be killed."""
        if self.returncode is None:
            self._popen.send_signal(signal.SIGTERM)
        try:
            return self._popen.wait(within_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise BrokerFailed(
                f"expected pid {self.pid} to end within {within_s} s of SIGTERM\n{self.tail()}"
            ) from None

    def kill(self) -> None:
        """Send SIGKILL, then reap the process."""
        if self.returncode is None:
            self._popen.kill()
        self._popen.wait()

    def tail(self, lines: int = 30) -> str:
        """The last lines of its output."""
        text = self._log.read_text(errors="replace") if self._log.exists() else ""
        return "\n".join(text.splitlines()[-lines:])

    def fail(self, what: str) -> BrokerFailed:
        """An error that says what was expected, whether the process is still running, and what it
        printed last."""
        state = "still runs" if self.returncode is None else f"ended with {self.returncode}"
        return BrokerFailed(f"{what}; pid {self.pid} {state}\n{self.tail()}")

    def memory(self) -> Memory:
        """Its memory now. Raises :class:`BrokerFailed` if the process is gone."""
        try:
            return read_memory(self.pid)
        except (OSError, KeyError):
            raise self.fail("expected a running process to measure") from None


class OwnProcess:
    """What brokers that are a single process have in common: how they end, and what they use."""

    stop_within_s = TERMINATE_WITHIN_S
    """How long it may take to shut down."""

    _process: Process | None = None

    @property
    def pid(self) -> int:
        """The broker's own process id; there is no shell in between."""
        return self._running().pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.returncode is None

    def stop(self) -> None:
        """Ask it to shut down, and wait until it has ended. Idempotent."""
        process, self._process = self._process, None
        if process is not None:
            process.terminate(self.stop_within_s)

    def kill(self) -> None:
        """Send SIGKILL. Idempotent."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()

    def memory(self) -> Memory:
        return self._running().memory()

    def cpu_s(self) -> float:
        """The CPU seconds that it has used since it was started, all threads together."""
        return read_cpu_s(self.pid)

    def written_bytes(self) -> int:
        """The bytes that it has caused to be written to disk since it was started."""
        return read_written_bytes(self.pid)

    def _running(self) -> Process:
        if self._process is None:
            raise BrokerFailed(f"expected {self!r} to be started")
        return self._process


def read_cpu_s(pid: int) -> float:
    """The CPU seconds that a process has used. Raises OSError if there is no such process."""
    # Linux gives each process a clock of its CPU time: clock_getcpuclockid(3).
    return time.clock_gettime((~pid << 3) | 2)


def read_written_bytes(pid: int) -> int:
    """The bytes that a process has caused to be written to disk: ``write_bytes`` of
    ``/proc/PID/io``, see proc(5)."""
    with open(f"/proc/{pid}/io") as counts:
        fields = dict(line.split(":", 1) for line in counts)
    return int(fields["write_bytes"])


def read_memory(pid: int) -> Memory:
    """The memory of one of our processes."""
    with open(f"/proc/{pid}/status") as status:
        fields = dict(line.split(":", 1) for line in status if line.startswith(("Vm", "Rss")))
    kib = {name: int(value.split()[0]) for name, value in fields.items()}
    return Memory(kib["VmRSS"] * 1024, kib["VmHWM"] * 1024, kib["RssAnon"] * 1024)


def free_port() -> int:
    """A loopback port that was free a moment ago, for programs that cannot choose one.

    No port is returned twice, and none in the kernel's range for outgoing connections. An outgoing
    connection could otherwise take the port of a broker that is down for a moment, and the broker
    could not start again.
    """
    for port in random.sample(_PORTS, len(_PORTS)):
        if port in _given:
            continue
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        _given.add(port)
        return port
    raise BrokerFailed(f"expected a free port among {_PORTS}")


def _ports() -> range:
    """The ports below those of outgoing connections."""
    try:
        lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except OSError:
        lowest = 32_768
    return range(max(lowest // 2, 1_024), lowest)


_PORTS: Final = _ports()
_given: Final[set[int]] = set()


def speaks_amqp(address: Address, timeout_s: float = 1.0) -> bool:
    """Whether ``address`` answers the AMQP 0-9-1 protocol header with connection.start."""
    try:
        with socket.create_connection((address.host, address.port), timeout_s) as probe:
            probe.sendall(b"AMQP\x00\x00\x09\x01")
            # A method frame (type 1) on channel 0, and after its size class 10, method 10.
            head = _read_exactly(probe, 11)
    except OSError:
        return False
    return head[:3] == b"\x01\x00\x00" and head[7:11] == b"\x00\x0a\x00\x0a"


def wait_until_ready(process: Process, address: Address, within_s: float) -> None:
    """Wait for the AMQP listener of ``process``. If it does not come, the process is killed and
    :class:`BrokerFailed` raised."""
    end = time.monotonic() + within_s
    while not speaks_amqp(address):
        if process.returncode is not None or time.monotonic() > end:
            failure = process.fail(f"expected AMQP at {address} within {within_s} s")
            process.kill()
            raise failure
        time.sleep(POLL_S)


def _read_exactly(source: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count and (chunk := source.recv(count - len(data))):
        data += chunk
    return data


def _die_with_parent() -> list[str]:
    """A command prefix that kills the child when we die, so that no broker outlives a test run.

    The kernel ties the child to the *thread* that starts it, so start brokers from the main thread.
    """
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "KILL", "--"] if setpriv else []


def environment_without(*prefixes: str) -> dict[str, str]:
    """Our environment without the variables that would reconfigure the broker under test."""
    return {name: value for name, value in os.environ.items() if not name.startswith(prefixes)}
