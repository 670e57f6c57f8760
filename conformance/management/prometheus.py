"""Prometheus as Debian packages it: scrapes a broker every second and answers queries."""

import json
import shutil
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any, Final, Self

from conformance.brokers.process import Address, Process, environment_without, free_port

READY_WITHIN_S: Final = 30.0
JOB: Final = "broker"

SETTINGS: Final = """\
global:
  scrape_interval: 1s
scrape_configs:
  - job_name: {job}
    metrics_path: {path}
    static_configs:
      - targets: ["{target}"]
"""


class Prometheus:
    """One Prometheus server."""

    def __init__(self, directory: Path, target: Address, path: str = "/metrics") -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._address = Address("127.0.0.1", free_port())
        settings = SETTINGS.format(job=JOB, path=path, target=target)
        (directory / "prometheus.yml").write_text(settings)
        self._process: Process | None = None

    def __repr__(self) -> str:
        return f"<Prometheus at {self._address}>"

    @staticmethod
    def installed() -> bool:
        """Whether this machine has the server and its tool."""
        return shutil.which("prometheus") is not None and shutil.which("promtool") is not None

    def start(self) -> Self:
        """Start the server, which begins to scrape."""
        command = [
            "prometheus", f"--config.file={self._directory / 'prometheus.yml'}",
            f"--storage.tsdb.path={self._directory / 'data'}",
            f"--web.listen-address={self._address}", "--log.level=warn",
        ]  # fmt: skip
        environment = environment_without("PROMETHEUS")
        self._process = Process(command, environment, self._directory / "prometheus.log")
        end = time.monotonic() + READY_WITHIN_S
        while not self._is_ready():
            if time.monotonic() > end or self._process.returncode is not None:
                raise self._process.fail("expected Prometheus to be ready")
            time.sleep(0.05)
        return self

    def stop(self) -> None:
        """Stop the server."""
        if self._process is not None:
            self._process.kill()

    def query(self, text: str) -> list[dict[str, Any]]:
        """The series that a query returns now."""
        asked = urllib.parse.urlencode({"query": text})
        url = f"http://{self._address}/api/v1/query?{asked}"
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                found = json.load(answer)
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{text}: {error.read().decode()}") from None
        series: list[dict[str, Any]] = found["data"]["result"]
        return series

    def wait_for(self, text: str, within_s: float = 20.0) -> list[dict[str, Any]]:
        """The series of a query, as soon as there are any."""
        end = time.monotonic() + within_s
        while not (found := self.query(text)) and time.monotonic() < end:
            time.sleep(0.1)
        return found

    def _is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://{self._address}/-/ready", timeout=2):
                return True
        except OSError:
            return False
