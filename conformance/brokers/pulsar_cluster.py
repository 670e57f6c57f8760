"""An Apache Pulsar cluster on one small machine: brokers, bookies and their metadata store.

The rule: every process is a child of ours, on free loopback ports and throw-away data, and only
those processes are ended. Heaps are small: two brokers and three bookies take about 1.3 GiB. Each
entry is written to two of the three bookies, so that one bookie may be lost. If every entry went to
all bookies, losing one would stop all writes.

``python -m conformance.brokers.pulsar_cluster [DIRECTORY]`` starts a cluster, prints its addresses,
and obeys lines such as ``kill broker-2``, ``start broker-2`` and ``status`` until its input ends.
"""

import argparse
import socket
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, Self

from conformance.brokers.java_server import (
    BROKER_FIELDS,
    DISK_FIELDS,
    MESSAGE_FRAME_BYTES,
    JavaServer,
    http_answer,
    installed,
)
from conformance.brokers.process import Address, BrokerFailed, free_port

CLUSTER: Final = "c"
HEALTH_WITHIN_S: Final = 30.0
SESSION_MS: Final = 10_000
"""How long a dead broker keeps its topics: until its session in the metadata store expires."""

METADATA_DRIVER: Final = "org.apache.pulsar.metadata.bookkeeper.PulsarMetadataClientDriver"

_JAVA: Final = (
    "-Xms64m",
    "-Xss512k",
    "-XX:ReservedCodeCacheSize=96m",
    "-XX:ActiveProcessorCount=2",
    f"-Dbookkeeper.metadata.client.drivers={METADATA_DRIVER}",
)


class ClusterBroker(JavaServer):
    """One broker of the cluster, with the same addresses after a restart."""

    def __init__(self, name: str, directory: Path, fields: Mapping[str, object]) -> None:
        self.address = Address("127.0.0.1", free_port())
        self.http_address = Address("127.0.0.1", free_port())
        ports = {"brokerServicePort": self.address.port, "webServicePort": self.http_address.port}
        super().__init__(
            name,
            directory,
            ["org.apache.pulsar.PulsarBrokerStarter", "--broker-conf", f"{directory}/broker.conf"],
            mib=(320, 256),
            options=_JAVA,
            files={"broker.conf": {**fields, **ports}},
            is_ready=self._is_healthy,
        )

    @property
    def pulsar_url(self) -> str:
        """Where it speaks Pulsar."""
        return f"pulsar://{self.address}"

    @property
    def http_url(self) -> str:
        """Where it serves the admin API."""
        return f"http://{self.http_address}"

    def _is_healthy(self) -> bool:
        """Whether it can write to a topic of its own and read the message back."""
        path = "/admin/v2/brokers/health"
        return http_answer(self.http_address, path, {}, HEALTH_WITHIN_S)[0] == 200


class PulsarCluster:
    """Brokers, bookies and a metadata store, started and ended together."""

    name = "cluster"

    def __init__(
        self, directory: Path, *, brokers: int = 2, bookies: int = 3, **settings: object
    ) -> None:
        """``settings`` go into the configuration of every broker. To survive the loss of a bookie
        there must be at least one more of them than copies of each entry."""
        self.directory = directory
        metadata = Address("127.0.0.1", free_port())
        quorum = min(2, bookies)
        fields = {**_broker_fields(metadata, quorum), **settings}
        self.brokers = [
            ClusterBroker(f"broker-{number}", directory / f"broker-{number}", fields)
            for number in range(1, brokers + 1)
        ]
        self.bookies = [_bookie(f"bookie-{n}", directory, metadata) for n in range(1, bookies + 1)]
        self.metadata = _metadata_store(directory, metadata)
        self._setup = _setup(directory, metadata, self.brokers[0])
        self._is_set_up = False

    def __repr__(self) -> str:
        running = sum(each.running for each in self.servers)
        return f"<PulsarCluster in {self.directory}, {running} of {len(self.servers)} running>"

    @staticmethod
    def installed() -> bool:
        """Whether this machine has what it needs to fetch and run it."""
        return installed()

    @property
    def servers(self) -> list[JavaServer]:
        """All its servers, in the order in which they are started."""
        return [self.metadata, *self.bookies, *self.brokers]

    @property
    def pulsar_url(self) -> str:
        """The service URL for clients, with all brokers."""
        return "pulsar://" + ",".join(str(each.address) for each in self.brokers)

    @property
    def http_url(self) -> str:
        """Where one broker serves the admin API, also for topics of the other brokers."""
        return self.brokers[0].http_url

    @property
    def http_service_url(self) -> str:
        """The service URL for clients that look topics up over HTTP, with all brokers."""
        return "http://" + ",".join(str(each.http_address) for each in self.brokers)

    def start(self) -> Self:
        """Start it, on the data of this object's last run if there was one, and wait until it is
        ready. Raises :class:`BrokerFailed`, with nothing left running."""
        if not self._is_set_up and self.metadata.directory.exists():
            # Another run's data is of no use: bookies are identified by their ports, and its ports
            # were different.
            raise BrokerFailed(f"expected no cluster in {self.directory} yet")
        try:
            self.metadata.start()
            if not self._is_set_up:
                self._setup.spawn()
                self._setup.wait_end()
                self._is_set_up = True
            _start_all(self.bookies)
            _start_all(self.brokers)
        except BaseException:
            self.kill()
            raise
        return self

    def stop(self) -> None:
        """Shut all of it down, brokers first. Idempotent."""
        for each in reversed(self.servers):
            each.stop()

    def kill(self) -> None:
        """Send SIGKILL to all of it. Idempotent."""
        for each in (*reversed(self.servers), self._setup):
            each.kill()

    def named(self, name: str) -> JavaServer:
        """The server of that name. Raises :class:`BrokerFailed`."""
        for each in self.servers:
            if each.name == name:
                return each
        names = ", ".join(each.name for each in self.servers)
        raise BrokerFailed(f"expected one of {names}, got {name!r}")

    def resident_bytes(self) -> int:
        """The resident memory of the running servers, in bytes."""
        return sum(each.memory().resident for each in self.servers if each.running)


def _start_all(servers: Iterable[JavaServer]) -> None:
    """Start them all at once, because each spends most of its start waiting."""
    started = list(servers)
    for each in started:
        each.spawn()
    for each in started:
        each.wait_ready()


def _metadata_store(directory: Path, at: Address) -> JavaServer:
    home = directory / "zookeeper"
    fields = {
        "tickTime": 2_000,
        "dataDir": home / "data",
        "clientPort": at.port,
        "clientPortAddress": at.host,
        "admin.enableServer": "false",
        "forceSync": "yes",
    }
    return JavaServer(
        "zookeeper",
        home,
        ["org.apache.zookeeper.server.ZooKeeperServerMain", f"{home}/zoo.cfg"],
        mib=(96, 32),
        options=_JAVA,
        files={"zoo.cfg": fields},
        is_ready=lambda: _accepts(at),
    )


def _setup(directory: Path, metadata: Address, broker: ClusterBroker) -> JavaServer:
    """A process that writes a new cluster's metadata into its metadata store, once, and ends."""
    main = ["org.apache.pulsar.PulsarClusterMetadataSetup", "--cluster", CLUSTER]
    main += ["--metadata-store", f"zk:{metadata}", "--configuration-metadata-store"]
    main += [f"zk:{metadata}", "--web-service-url", broker.http_url]
    main += ["--broker-service-url", broker.pulsar_url]
    main += ["--initial-num-transaction-coordinators", "2"]
    return JavaServer(
        "setup",
        directory / "setup",
        main,
        mib=(160, 64),
        options=_JAVA,
        files={},
        is_ready=lambda: True,
    )


def _bookie(name: str, directory: Path, metadata: Address) -> JavaServer:
    home = directory / name
    at = Address("127.0.0.1", free_port())
    fields = {
        "bookiePort": at.port,
        "allowLoopback": "true",
        "listeningInterface": "lo",
        "advertisedAddress": at.host,
        "journalDirectories": home / "journal",
        "ledgerDirectories": home / "ledgers",
        "metadataServiceUri": f"zk+null://{metadata}/ledgers",
        "ledgerStorageClass": "org.apache.bookkeeper.bookie.storage.ldb.DbLedgerStorage",
        "dbStorage_writeCacheMaxSizeMb": 32,
        "dbStorage_readAheadCacheMaxSizeMb": 16,
        "dbStorage_rocksDB_blockCacheSize": 8_388_608,
        "journalSyncData": "true",
        "journalMaxGroupWaitMSec": 1,
        "journalPreAllocSizeMB": 4,
        "nettyMaxFrameSizeBytes": MESSAGE_FRAME_BYTES,
        **DISK_FIELDS,
        "minUsableSizeForIndexFileCreation": 0,
        "minUsableSizeForEntryLogCreation": 0,
        "httpServerEnabled": "false",
        "autoRecoveryDaemonEnabled": "true",
        "numAddWorkerThreads": 1,
        "numReadWorkerThreads": 1,
        "serverNumIOThreads": 2,
    }
    return JavaServer(
        name,
        home,
        ["org.apache.bookkeeper.server.Main", "--conf", f"{home}/bookie.conf"],
        mib=(128, 192),
        options=_JAVA,
        files={"bookie.conf": fields},
        is_ready=lambda: _accepts(at),
    )


def _broker_fields(metadata: Address, quorum: int) -> dict[str, object]:
    return {
        **BROKER_FIELDS,
        "metadataStoreUrl": f"zk:{metadata}",
        "configurationMetadataStoreUrl": f"zk:{metadata}",
        "metadataStoreSessionTimeoutMillis": SESSION_MS,
        "clusterName": CLUSTER,
        "bindAddress": "127.0.0.1",
        "advertisedAddress": "127.0.0.1",
        "managedLedgerCacheSizeMB": 64,
        # By default, readers that have caught up learn of new entries only after this delay.
        "managedLedgerNewEntriesCheckDelayInMillis": 0,
        "managedLedgerDefaultEnsembleSize": quorum,
        "managedLedgerDefaultWriteQuorum": quorum,
        "managedLedgerDefaultAckQuorum": quorum,
        "systemTopicEnabled": "true",
        "topicLevelPoliciesEnabled": "true",
        "brokerDeleteInactiveTopicsEnabled": "false",
    }


def _accepts(address: Address) -> bool:
    try:
        socket.create_connection((address.host, address.port), timeout=1).close()
    except OSError:
        return False
    return True


def _obey(cluster: PulsarCluster, line: str) -> str:
    """Carry out one command line; the result is what to print."""
    match line.split():
        case ["status"]:
            return ", ".join(
                f"{each.name} {'runs' if each.running else 'is down'}" for each in cluster.servers
            )
        case ["kill", name]:
            cluster.named(name).kill()
            return f"{name} was killed"
        case ["start", name]:
            began = time.monotonic()
            cluster.named(name).start()
            return f"{name} is ready after {time.monotonic() - began:.1f} s"
    return f"expected status, kill NAME or start NAME, got {line.strip()!r}"


def main() -> None:
    """Run a cluster until standard input ends or Ctrl-C is pressed."""
    parser = argparse.ArgumentParser(
        prog="pulsar_cluster", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("directory", nargs="?", type=Path, help="an empty directory for its data")
    parser.add_argument("--brokers", type=int, default=2)
    parser.add_argument("--bookies", type=int, default=3)
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pulsar-cluster-") as made:
        cluster = PulsarCluster(
            wanted.directory or Path(made), brokers=wanted.brokers, bookies=wanted.bookies
        )
        began = time.monotonic()
        cluster.start()
        try:
            mib = cluster.resident_bytes() // (1 << 20)
            print(f"{cluster.pulsar_url} {cluster.http_service_url}", end="  ")
            print(f"ready after {time.monotonic() - began:.1f} s, {mib} MiB", flush=True)
            for line in sys.stdin:
                try:
                    print(_obey(cluster, line), flush=True)
                except BrokerFailed as error:
                    print(error, flush=True)
        except KeyboardInterrupt:
            pass
        finally:
            cluster.stop()


if __name__ == "__main__":
    main()
