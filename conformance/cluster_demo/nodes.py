"""Nodes of the demo: ``arneb serve``, each with a configuration of its own, as a user would start
them."""

import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import httpx

READY: Final = re.compile(r"(\S+) ready on 127\.0\.0\.1:(\d+)")
SECRET: Final = "a secret of 32 bytes or more, that all nodes of the demo have\n"
WITHIN_S: Final = 120.0
STOP_WITHIN_S: Final = 6.0
NAMESPACE: Final = "public/arneb"

SETTINGS: Final = """data_dir = "data"
{before}[amqp]
listen = "127.0.0.1:{amqp}"
[pulsar]
listen = "{pulsar}"
[http]
listen = "127.0.0.1:{http}"
open_metrics = true
[http_pulsar]
listen = "{http_pulsar}"
[cluster]
node = "{node}"
{own}[cluster.pulsar]
url = "{url}"
admin_url = "{admin_url}"
namespace = "{namespace}"
[cluster.internal]
listen = "127.0.0.1:{internal}"
secret_file = "secret"
{after}"""


class DemoFailed(Exception):
    """An expectation of the demo was not met."""


class NodeProcess:
    """One node, which keeps its ports when it is started again after a kill."""

    def __init__(
        self,
        name: str,
        directory: Path,
        url: str,
        admin_url: str,
        *,
        before: str = "",
        own: str = "",
        after: str = "",
        with_pulsar: bool = False,
    ) -> None:
        """Further settings: ``before`` are keys before all tables, ``own`` are keys of
        ``[cluster]``, and ``after`` is more tables. ``with_pulsar``: Pulsar clients are served
        too."""
        self._more = {"before": before, "own": own, "after": after}
        self._with_pulsar = with_pulsar
        self.name = name
        self.directory = directory / name
        self.directory.mkdir()
        (self.directory / "secret").write_text(SECRET)
        self._url, self._admin_url = url, admin_url
        self.ports: dict[str, int] = {}
        self.lines: list[str] = []
        self._process: subprocess.Popen[str] | None = None

    def __repr__(self) -> str:
        return f"<NodeProcess {self.name}>"

    @property
    def data_dir(self) -> Path:
        """Its data directory."""
        return self.directory / "data"

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start it without waiting; :meth:`wait_ready` waits."""
        ports = {name: self.ports.get(name, 0) for name in ("amqp", "http", "internal")}
        pulsars = {
            name.replace("-", "_"): f"127.0.0.1:{self.ports.get(name, 0)}"
            if self._with_pulsar
            else "off"
            for name in ("pulsar", "http-pulsar")
        }
        settings = SETTINGS.format(
            node=self.name, url=self._url, admin_url=self._admin_url, namespace=NAMESPACE,
            **ports, **pulsars, **self._more,
        )  # fmt: skip
        (self.directory / "arneb.toml").write_text(settings)
        self.lines.clear()
        with (self.directory / "log").open("a") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "arneb", "serve", "--config",
                 str(self.directory / "arneb.toml"), "--log-level", "info"],
                stdout=subprocess.PIPE, stderr=log, text=True,
            )  # fmt: skip
        threading.Thread(target=self._read, args=(self._process,), daemon=True).start()

    def wait_ready(self) -> None:
        """Wait until its listeners are ready. Raises :class:`DemoFailed`."""
        until(lambda: "Server startup complete" in self.lines or not self.is_running, "a start")
        if not self.is_running:
            log = (self.directory / "log").read_text()[-500:]
            raise DemoFailed(f"{self.name} has ended: {log}")

    def kill(self) -> None:
        """Send SIGKILL, then reap the process."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """Send SIGTERM and wait; send SIGKILL if that takes too long. Idempotent."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(STOP_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def figure(self, name: str, labels: str = "") -> int:
        """The value of one of its cluster metrics, ``arneb_cluster_<name>``, with at least these
        labels; -1 while it cannot be read."""
        try:
            text = httpx.get(f"http://127.0.0.1:{self.ports['http']}/metrics", timeout=2).text
        except (httpx.HTTPError, KeyError):
            return -1
        found = re.search(rf"^arneb_cluster_{name}{{.*{labels}.*}} (\S+)$", text, re.MULTILINE)
        return int(float(found[1])) if found else -1

    def _read(self, process: "subprocess.Popen[str]") -> None:
        assert process.stdout is not None
        with process.stdout as output:
            for line in output:
                self.lines.append(line.rstrip())
                if match := READY.match(line):
                    self.ports[match[1]] = int(match[2])


def until(holds: Callable[[], bool], what: str, within_s: float = WITHIN_S) -> None:
    """Wait until ``holds()`` is true. Raises :class:`DemoFailed`."""
    end = time.monotonic() + within_s
    while not holds():
        if time.monotonic() > end:
            raise DemoFailed(f"expected {what} within {within_s:.0f} s")
        time.sleep(0.02)
