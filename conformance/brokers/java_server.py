"""Servers of Apache Pulsar: Java processes started from its jars, and the answers of running ones
over HTTP.

The rule: every process is a child of ours, with its configuration and its log in one directory.
"""

import http.client
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final, Self

from conformance.brokers.process import (
    POLL_S,
    Address,
    BrokerFailed,
    OwnProcess,
    Process,
    environment_without,
)

JARS: Final = Path(__file__).parent / "pulsar_jars"
"""The Maven project that fetches the jars: 200 MB, once per machine."""

CLASSPATH_WITHIN_S: Final = 1_200
READY_WITHIN_S: Final = 180.0
"""Long enough for a busy machine."""

STOP_WITHIN_S: Final = 60.0

_OPENED: Final = (
    "java.base/java.io",
    "java.base/java.lang",
    "java.base/java.nio",
    "java.base/java.util.zip",
    "java.base/jdk.internal.misc",
    "java.base/jdk.internal.platform",
    "java.management/sun.management",
    "jdk.management/com.sun.management.internal",
)
"""The modules that Pulsar's own start script opens."""

_JAVA: Final = (
    "-Djava.net.preferIPv4Stack=true",
    "-Djute.maxbuffer=10485760",
    "-Dio.netty.tryReflectionSetAccessible=true",
)

MESSAGE_FRAME_BYTES: Final = 5_253_120
"""As in Pulsar's own configuration: a message of 5 MiB and its overhead."""

BROKER_FIELDS: Final[Mapping[str, object]] = {
    # Off by default in Pulsar. It is enabled here because the comparison is with what Pulsar can
    # do.
    "acknowledgmentAtBatchIndexLevelEnabled": "true",
    "nettyMaxFrameSizeBytes": MESSAGE_FRAME_BYTES,
    # By default another consumer becomes the active one only after a second.
    "activeConsumerFailoverDelayTimeMillis": 0,
    # By default, messages that become due within one tick, a second, are delivered immediately.
    "isDelayedDeliveryDeliverAtTimeStrict": "true",
    "delayedDeliveryTickTimeMillis": 100,
}
"""The configuration of every broker."""

DISK_FIELDS: Final[Mapping[str, object]] = {
    # A nearly full disk on this machine is no reason to refuse a few messages.
    "diskUsageThreshold": 0.99,
    "diskUsageWarnThreshold": 0.98,
}
"""The configuration of every bookie."""


def installed() -> bool:
    """Whether this machine has what it needs to fetch and run them."""
    return shutil.which("java") is not None and shutil.which("mvn") is not None


class JavaServer(OwnProcess):
    """One Java process. The same object can be started again on the same data."""

    stop_within_s = STOP_WITHIN_S
    ready_within_s = READY_WITHIN_S

    def __init__(
        self,
        name: str,
        directory: Path,
        main: Sequence[str],
        *,
        mib: tuple[int, int],
        options: Sequence[str],
        files: Mapping[str, Mapping[str, object]],
        is_ready: Callable[[], bool],
    ) -> None:
        """``main`` is the class with its arguments, ``mib`` the sizes of its heap and its direct
        memory in MiB, and ``options`` are further options of the virtual machine. ``files`` are its
        configuration files by name, written when it starts."""
        self.name = name
        self.directory = directory
        self._main = list(main)
        self._mib = mib
        self._options = list(options)
        self._files = files
        self._is_ready = is_ready

    def __repr__(self) -> str:
        return f"<JavaServer {self.name}, {'running' if self.running else 'down'}>"

    def start(self) -> Self:
        """Start it and wait until it is ready. Raises :class:`BrokerFailed`."""
        self.spawn()
        self.wait_ready()
        return self

    def command(self) -> list[str]:
        """The command line."""
        heap, direct = self._mib
        opened = [part for each in _OPENED for part in ("--add-opens", f"{each}=ALL-UNNAMED")]
        sizes = [f"-Xmx{heap}m", f"-XX:MaxDirectMemorySize={direct}m"]
        return ["java", *_JAVA, *self._options, *sizes, *opened, "-cp", classpath(), *self._main]

    def spawn(self) -> None:
        """Start the process without waiting; :meth:`wait_ready` waits."""
        if self.running:
            raise BrokerFailed(f"expected {self!r} to be down before it is started")
        self.directory.mkdir(parents=True, exist_ok=True)
        for file, fields in self._files.items():
            text = "".join(f"{name}={value}\n" for name, value in fields.items())
            (self.directory / file).write_text(text)
        without = environment_without("PULSAR", "BOOKIE", "_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS")
        self._process = Process(self.command(), without, self.directory / "console.log")

    def wait_ready(self) -> None:
        """Wait until it can be used. Raises :class:`BrokerFailed`."""
        process, within_s = self._running(), self.ready_within_s
        end = time.monotonic() + within_s
        while not self._is_ready():
            if process.returncode is not None or time.monotonic() > end:
                failure = process.fail(f"expected {self.name} to be ready within {within_s} s")
                process.kill()
                raise failure
            time.sleep(POLL_S)

    def wait_end(self, within_s: float = READY_WITHIN_S) -> None:
        """Wait until it has done its work and ended. Raises :class:`BrokerFailed`."""
        process = self._running()
        end = time.monotonic() + within_s
        while process.returncode is None and time.monotonic() < end:
            time.sleep(POLL_S)
        if process.returncode != 0:
            failure = process.fail(f"expected {self.name} to end well within {within_s} s")
            process.kill()
            raise failure
        self._process = None


@cache
def classpath(project: Path = JARS / "pom.xml") -> str:
    """The jars of a Maven project, by default Pulsar's; they are fetched if this machine does not
    have them. Raises :class:`BrokerFailed`."""
    with tempfile.TemporaryDirectory() as made:
        found = Path(made) / "classpath"
        command = ["mvn", "--batch-mode", "--quiet", "--settings", str(JARS / "settings.xml")]
        command += ["--file", str(project), "dependency:build-classpath"]
        done = subprocess.run(
            [*command, f"-Dmdep.outputFile={found}"],
            capture_output=True,
            text=True,
            timeout=CLASSPATH_WITHIN_S,
            check=False,
        )
        if done.returncode:
            raise BrokerFailed(
                f"Maven did not find the jars of {project}:\n{done.stdout}{done.stderr}"
            )
        return found.read_text()


def http_answer(
    address: Address, path: str, headers: Mapping[str, str], within_s: float
) -> tuple[int, bytes]:
    """The status and body of an answer over HTTP; 0 and empty if there is no answer."""
    connection = http.client.HTTPConnection(address.host, address.port, timeout=within_s)
    try:
        connection.request("GET", path, headers=dict(headers))
        answer = connection.getresponse()
        return answer.status, answer.read()
    except (OSError, http.client.HTTPException):
        return 0, b""
    finally:
        connection.close()
