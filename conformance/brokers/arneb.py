"""Arneb as its users start it: ``arneb serve``, on ports that it chooses itself."""

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Self

from conformance.brokers.process import (
    POLL_S,
    Address,
    OwnProcess,
    Process,
    environment_without,
)

REPOSITORY: Final = Path(os.environ.get("ARNEB_CHECKOUT") or Path(__file__).resolve().parents[2])
"""The code that brokers run: this checkout, or a copy of it with deliberate mistakes."""
SOURCE_ROOTS: Final = (
    "core",
    "amqp_frontend",
    "pulsar_frontend",
    "spark_connector",
    "cluster",
    "broker",
)

PROTOCOLS: Final = ("amqp", "pulsar", "http")
"""The listeners of a broker by default."""
ALL_PROTOCOLS: Final = (*PROTOCOLS, "http-pulsar")
READY_LINE: Final = re.compile(
    r"\b(?P<protocol>amqp-tls|amqp|http-pulsar-tls|http-pulsar|http-tls|pulsar-tls|pulsar|http|metrics)\b.*?(?P<host>127\.0\.0\.1|localhost|\[::1\]):(?P<port>\d+)",
    re.IGNORECASE,
)
"""The line that ``arneb serve`` prints when a listener is ready."""

READY_WITHIN_S: Final = 90.0


def arneb_command() -> list[str]:
    """The installed ``arneb``, or the same entry point in this checkout."""
    script = shutil.which("arneb", path=str(Path(sys.executable).parent)) or shutil.which("arneb")
    return [script] if script else [sys.executable, "-c", "from arneb.cli import main; main()"]


def arneb_environment(checkout: Path = REPOSITORY) -> dict[str, str]:
    """Our environment, with ``checkout`` importable and unbuffered output."""
    roots = ":".join(str(checkout / root) for root in SOURCE_ROOTS)
    return environment_without("ARNEB", "PYTHONPATH") | {
        "PYTHONPATH": roots,
        "PYTHONUNBUFFERED": "1",
        "NO_COLOR": "1",
        "COLUMNS": "200",
    }


def run_arneb(*arguments: str, timeout_s: float = 120.0) -> subprocess.CompletedProcess[str]:
    """Run one ``arneb`` command until it ends; its output is captured. Raises
    subprocess.TimeoutExpired."""
    return subprocess.run(
        [*arneb_command(), *arguments],
        env=arneb_environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )


class Listening:
    """The addresses of a broker's listeners, or of the splitters in front of its nodes."""

    _addresses: dict[str, Address]

    @property
    def address(self) -> Address:
        """Where it listens for AMQP."""
        return self._addresses["amqp"]

    @property
    def amqps_address(self) -> Address:
        """Where it listens for AMQP over TLS."""
        return self._addresses["amqp-tls"]

    @property
    def pulsar_address(self) -> Address:
        return self._addresses["pulsar"]

    @property
    def http_address(self) -> Address:
        return self._addresses["http"]

    @property
    def admin_url(self) -> str:
        """The URL of Pulsar's admin API."""
        return f"http://{self._addresses['http-pulsar']}"

    @property
    def url(self) -> str:
        return f"amqp://guest:guest@{self.address}/%2F"

    @property
    def pulsar_url(self) -> str:
        return f"pulsar://{self.pulsar_address}"


class Arneb(Listening, OwnProcess):
    """One Arneb broker. The same object can be started again on the same data.

    ``prefix`` is a command under which to run it (to set a resource limit, say), and ``extra`` is
    additional environment. ``ports`` are those of listeners that must have the same port after a
    restart. ``settings`` is the text of the configuration file, ``checkout`` the code to run, and
    ``command`` the program to run instead of ``arneb``.
    """

    name = "arneb"

    def __init__(
        self,
        directory: Path,
        *,
        listeners: Sequence[str] = PROTOCOLS,
        prefix: Sequence[str] = (),
        extra: Mapping[str, str] | None = None,
        ports: Mapping[str, int] | None = None,
        settings: str = "",
        checkout: Path = REPOSITORY,
        command: Sequence[str] = (),
    ) -> None:
        self.directory = directory
        self.data = directory / "data"
        self._listeners = tuple(listeners)
        self._prefix = list(prefix)
        self._extra = dict(extra or {})
        self._ports = dict(ports or {})
        self._settings = settings
        self._checkout = checkout
        self._command = list(command)
        self._addresses: dict[str, Address] = {}
        self._log_offset = 0

    def __repr__(self) -> str:
        return f"<Arneb {self.data} at {self._addresses.get('amqp', 'no address')}>"

    @property
    def metrics_address(self) -> Address:
        return self._addresses["metrics"]

    @property
    def https_address(self) -> Address:
        return self._addresses["http-tls"]

    @property
    def pulsar_tls_url(self) -> str:
        return f"pulsar+ssl://{self._addresses['pulsar-tls']}"

    @property
    def admin_tls_url(self) -> str:
        return f"https://{self._addresses['http-pulsar-tls']}"

    @property
    def log(self) -> str:
        """Everything printed since the object was made."""
        return self._log_path.read_text(errors="replace") if self._log_path.exists() else ""

    def start(self) -> Self:
        self.spawn()
        self.wait_ready()
        return self

    def spawn(self) -> None:
        """Start the process without waiting; :meth:`wait_ready` waits."""
        self.directory.mkdir(parents=True, exist_ok=True)
        self._log_offset = self._log_path.stat().st_size if self._log_path.exists() else 0
        program = self._command or arneb_command()
        command = [*self._prefix, *program, "serve", "--data-dir", str(self.data)]
        for protocol in ALL_PROTOCOLS:
            wanted = f"127.0.0.1:{self._ports.get(protocol, 0)}"
            command += [f"--{protocol}", wanted if protocol in self._listeners else "off"]
        if self._settings:
            file = self.directory / "arneb.toml"
            file.write_text(self._settings)
            command += ["--config", str(file)]
        environment = arneb_environment(self._checkout) | self._extra
        self._process = Process(command, environment, self._log_path)

    def wait_ready(self) -> None:
        """Wait for every listener's ready line. Raises :class:`BrokerFailed`."""
        self._addresses = self._wait_for_listeners(self._running())

    def signal(self, number: int) -> None:
        """Send the process a signal."""
        os.kill(self.pid, number)

    def alarm(self, resource: str, on: bool) -> None:
        """Raise or clear an alarm by changing its threshold."""
        watermark = {
            "memory": "--memory-high-watermark=" + ("0" if on else "0.9"),
            "disk": "--disk-free-min-bytes=" + (str(1 << 60) if on else "0"),
        }
        run_arneb("alarms", f"http://{self.http_address}", watermark[resource]).check_returncode()

    @property
    def _log_path(self) -> Path:
        return self.directory / "arneb.log"

    def _wait_for_listeners(self, process: Process) -> dict[str, Address]:
        end = time.monotonic() + READY_WITHIN_S
        while True:
            found = self._ready_lines()
            if len(found) == len(self._listeners):
                return found
            if process.returncode is not None or time.monotonic() > end:
                failure = process.fail(f"expected ready lines of {', '.join(self._listeners)}")
                process.kill()
                raise failure
            time.sleep(POLL_S)

    def _ready_lines(self) -> dict[str, Address]:
        with self._log_path.open("rb") as log:
            log.seek(self._log_offset)
            text = log.read().decode(errors="replace")
        found: dict[str, Address] = {}
        # An incomplete line may still lack the last digits of the port.
        for line in text[: text.rfind("\n") + 1].splitlines():
            if (match := READY_LINE.search(line)) and match["protocol"].lower() in self._listeners:
                host = match["host"].strip("[]")
                found[match["protocol"].lower()] = Address(host, int(match["port"]))
        return found
