"""Apache Pulsar, standalone, from its jars on Maven Central, on free loopback ports.

Broker, bookie and RocksDB metadata in one Java process, with throw-away data. The journal is
synced (``journalSyncData``), which Pulsar's own standalone configuration leaves out: without
that its receipts would promise less than those they are compared with.

``python -m conformance.brokers.pulsar_standalone [DIRECTORY]`` starts one and says where.
"""

import http.client
import shutil
import subprocess
import sys
import tempfile
import time
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
    free_port,
)

JARS: Final = Path(__file__).parent / "pulsar_jars"
"""What Maven has to fetch: 200 MB, once a machine."""

CLASSPATH_WITHIN_S: Final = 1_200
READY_WITHIN_S: Final = 120.0
STOP_WITHIN_S: Final = 60.0

OPENED: Final = (
    "java.base/java.io",
    "java.base/java.lang",
    "java.base/java.nio",
    "java.base/java.util.zip",
    "java.base/jdk.internal.misc",
    "java.base/jdk.internal.platform",
    "java.management/sun.management",
    "jdk.management/com.sun.management.internal",
)
"""Modules that Pulsar's own start script opens."""

_JAVA: Final = (
    "-Xms256m",
    "-Xmx1g",
    "-XX:MaxDirectMemorySize=1g",
    "-Djava.net.preferIPv4Stack=true",
    "-Djute.maxbuffer=10485760",
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dio.netty.recycler.maxCapacityPerThread=4096",
)


class PulsarStandalone(OwnProcess):
    """One Apache Pulsar. The same object can be started again on the same data."""

    name = "pulsar"
    stop_within_s = STOP_WITHIN_S

    def __init__(
        self, directory: Path, *, token: str = "", tls: bool = False, **settings: object
    ) -> None:
        """``settings`` go into the broker's configuration; ``token`` proves who calls, to a broker
        that asks; ``tls`` opens another port, for which ``settings`` name the certificates."""
        self.directory = directory
        self._token = token
        self._tls = Address("127.0.0.1", free_port()) if tls else None
        self._address = Address("127.0.0.1", free_port())
        self._http = Address("127.0.0.1", free_port())
        self._bookie_port = free_port()
        self._settings = settings

    def __repr__(self) -> str:
        return f"<PulsarStandalone at {self._address}>"

    @staticmethod
    def installed() -> bool:
        """Whether this machine could fetch and run it."""
        return shutil.which("java") is not None and shutil.which("mvn") is not None

    @property
    def pulsar_url(self) -> str:
        """Where it speaks Pulsar."""
        return f"pulsar://{self._address}"

    @property
    def pulsar_tls_url(self) -> str:
        """Where it speaks Pulsar by TLS."""
        if self._tls is None:
            raise BrokerFailed(f"expected {self!r} to speak TLS")
        return f"pulsar+ssl://{self._tls}"

    @property
    def http_url(self) -> str:
        """Where its admin calls are answered."""
        return f"http://{self._http}"

    def start(self) -> Self:
        """Start it; ready when this returns. Raises :class:`BrokerFailed`."""
        home = self.directory
        home.mkdir(parents=True, exist_ok=True)
        (home / "standalone.conf").write_text(self._configuration())
        opened = [part for each in OPENED for part in ("--add-opens", f"{each}=ALL-UNNAMED")]
        command = ["java", *_JAVA, *opened, "-cp", classpath()]
        command += ["org.apache.pulsar.PulsarStandaloneStarter", "-c", f"{home}/standalone.conf"]
        command += ["-a", "127.0.0.1", "-nfw", "-nss", "--metadata-dir", f"{home}/metadata"]
        command += ["--bookkeeper-dir", f"{home}/bookkeeper"]
        command += ["--bookkeeper-port", str(self._bookie_port)]
        without = environment_without("PULSAR", "BOOKIE", "_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS")
        self._process = Process(command, without, home / "console.log")
        self._wait_until_ready()
        return self

    def _configuration(self) -> str:
        fields: dict[str, object] = {
            "clusterName": "standalone",
            "bindAddress": self._address.host,
            "advertisedAddress": self._address.host,
            "brokerServicePort": self._address.port,
            "webServicePort": self._http.port,
            "bookiePort": self._bookie_port,
            "allowLoopback": "true",
            "managedLedgerDefaultEnsembleSize": 1,
            "managedLedgerDefaultWriteQuorum": 1,
            "managedLedgerDefaultAckQuorum": 1,
            "loadBalancerEnabled": "false",
            # Off in Pulsar unless asked for; the comparison is about what it can do.
            "acknowledgmentAtBatchIndexLevelEnabled": "true",
            "journalSyncData": "true",
            # As in Pulsar's own configuration: a message of 5 MiB and what stands around it.
            "nettyMaxFrameSizeBytes": 5_253_120,
            # By default it waits for a second before another consumer becomes the active one.
            "activeConsumerFailoverDelayTimeMillis": 0,
            # By default what is due within a tick, a second, is delivered at once.
            "isDelayedDeliveryDeliverAtTimeStrict": "true",
            "delayedDeliveryTickTimeMillis": 100,
            # A machine whose disk is nearly full is no reason to refuse a few messages.
            "diskUsageThreshold": 0.99,
            "diskUsageWarnThreshold": 0.98,
        }
        if self._tls is not None:
            fields["brokerServicePortTls"] = self._tls.port
        return "".join(f"{name}={value}\n" for name, value in {**fields, **self._settings}.items())

    def _wait_until_ready(self) -> None:
        process = self._running()
        end = time.monotonic() + READY_WITHIN_S
        while not self._has_default_namespace():
            if process.returncode is not None or time.monotonic() > end:
                failure = process.fail(f"expected a namespace within {READY_WITHIN_S} s")
                process.kill()
                raise failure
            time.sleep(POLL_S)

    def _has_default_namespace(self) -> bool:
        """The last thing that it makes when it starts for the first time."""
        connection = http.client.HTTPConnection(self._http.host, self._http.port, timeout=5)
        try:
            headers = {"Authorization": f"Bearer {self._token}"} if self._token else {}
            connection.request("GET", "/admin/v2/namespaces/public", headers=headers)
            return b"public/default" in connection.getresponse().read()
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()


@cache
def classpath() -> str:
    """The jars, fetched if they are not on this machine. Raises :class:`BrokerFailed`."""
    with tempfile.TemporaryDirectory() as made:
        found = Path(made) / "classpath"
        command = ["mvn", "--batch-mode", "--quiet", "--settings", str(JARS / "settings.xml")]
        command += ["--file", str(JARS / "pom.xml"), "dependency:build-classpath"]
        done = subprocess.run(
            [*command, f"-Dmdep.outputFile={found}"],
            capture_output=True,
            text=True,
            timeout=CLASSPATH_WITHIN_S,
            check=False,
        )
        if done.returncode:
            raise BrokerFailed(f"Maven did not find Pulsar's jars:\n{done.stdout}{done.stderr}")
        return found.read_text()


def main() -> None:
    """Run one until standard input ends or Ctrl-C."""
    with tempfile.TemporaryDirectory() as made:
        broker = PulsarStandalone(Path(sys.argv[1] if len(sys.argv) > 1 else made))
        began = time.monotonic()
        broker.start()
        took_s = time.monotonic() - began
        mib = broker.memory().resident // (1 << 20)
        print(f"{broker.pulsar_url} {broker.http_url}  ready after {took_s:.1f} s, {mib} MiB")
        try:
            sys.stdin.read()
        except KeyboardInterrupt:
            pass
        finally:
            broker.stop()


if __name__ == "__main__":
    main()
