"""The demo's broker: starts ``arneb serve`` as a user would, and kills it."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Self

from arneb.settings.config import Address

READY: Final = re.compile(r"(amqp|pulsar|http|http-pulsar) ready on (\S+):(\d+)")
LISTENERS: Final = ("amqp", "pulsar", "http")
ALL_LISTENERS: Final = (*LISTENERS, "http-pulsar")
STOP_WITHIN_S: Final = 5.0


class BrokerProcess:
    """One broker process and the addresses of its listeners."""

    def __init__(
        self, data_dir: Path, listeners: Sequence[str] = LISTENERS, options: Sequence[str] = ()
    ) -> None:
        """Start the process, and return when every port is open."""
        self.started_in_s = -time.perf_counter()
        ports = [f"--{d}=127.0.0.1:0" if d in listeners else f"--{d}=off" for d in ALL_LISTENERS]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "arneb", "serve", f"--data-dir={data_dir}", *ports, *options],
            stdout=subprocess.PIPE,
            text=True,
        )
        self._listeners = listeners
        self.last_words = ""
        """The output after its addresses, once it has ended."""
        self.addresses = self._read_addresses()
        self.started_in_s += time.perf_counter()

    def __repr__(self) -> str:
        return f"<BrokerProcess {self._process.pid}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self.stop()

    @property
    def returncode(self) -> int | None:
        """The exit status; None while it runs."""
        return self._process.poll()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def amqp_port(self) -> int:
        return self.addresses["amqp"].port

    @property
    def pulsar_url(self) -> str:
        return f"pulsar://{self.addresses['pulsar']}"

    @property
    def memory_mb(self) -> float:
        """The resident memory now."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6

    def kill(self) -> None:
        """Send SIGKILL, after which the process cannot write anything more."""
        self._process.send_signal(signal.SIGKILL)
        self._wait()

    def stop(self, number: signal.Signals = signal.SIGTERM) -> float:
        """Stop it by a signal that it handles; return how many seconds it took."""
        begin = time.perf_counter()
        self._process.send_signal(number)
        self._wait()
        return time.perf_counter() - begin

    def _wait(self) -> None:
        assert self._process.stdout is not None
        try:
            self._process.wait(timeout=STOP_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            raise
        finally:
            # Not communicate(): with a timeout it skips the file's buffer, which may hold lines
            # that came together with the last address.
            with self._process.stdout as left:
                self.last_words = left.read()
            self._process.wait()

    def _read_addresses(self) -> dict[str, Address]:
        found: dict[str, Address] = {}
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if match := READY.match(line):
                found[match[1]] = Address(match[2], int(match[3]))
            if len(found) == len(self._listeners):
                return found
        self._wait()
        raise RuntimeError(f"the broker ended with exit status {self._process.returncode}")
