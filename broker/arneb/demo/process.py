"""The demo's broker: ``arneb serve`` as a user would start it, and kill it."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Final, Self

from arneb.config import Address

READY: Final = re.compile(r"(amqp|pulsar|http) ready on (\S+):(\d+)")
DOORS: Final = 3
STOP_WITHIN_S: Final = 5.0


class BrokerProcess:
    """One broker process and where its doors are."""

    def __init__(self, data_dir: Path) -> None:
        """Start it, and return when every door is open."""
        self.started_in_s = -time.perf_counter()
        options = [f"--{door}=127.0.0.1:0" for door in ("amqp", "pulsar", "http")]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "arneb", "serve", f"--data-dir={data_dir}", *options],
            stdout=subprocess.PIPE,
            text=True,
        )
        self.addresses = self._read_addresses()
        self.started_in_s += time.perf_counter()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self.stop()

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
        """Resident memory now."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6

    def kill(self) -> None:
        """SIGKILL: the process gets no chance to write anything more."""
        self._process.send_signal(signal.SIGKILL)
        self._wait()

    def stop(self) -> float:
        """SIGTERM; returns how many seconds the orderly stop took."""
        begin = time.perf_counter()
        self._process.terminate()
        self._wait()
        return time.perf_counter() - begin

    def _wait(self) -> None:
        try:
            self._process.wait(STOP_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise
        finally:
            assert self._process.stdout is not None
            self._process.stdout.close()

    def _read_addresses(self) -> dict[str, Address]:
        found: dict[str, Address] = {}
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if match := READY.match(line):
                found[match[1]] = Address(match[2], int(match[3]))
            if len(found) == DOORS:
                return found
        self._wait()
        raise RuntimeError(f"the broker ended with exit status {self._process.returncode}")
