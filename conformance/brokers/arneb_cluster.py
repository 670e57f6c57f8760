"""A cluster of Arneb nodes, each a process, behind one address that passes each new connection to
the next node, as a TCP load balancer does.

The rule: it can be used like any single broker. Only callers that ask for its nodes see that there
are several, of which one leads.
"""

import http.client
import os
import re
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, Self

from conformance.brokers.arneb import ALL_PROTOCOLS, PROTOCOLS, Arneb, Listening, run_arneb
from conformance.brokers.process import Address, BrokerFailed, Memory, free_port
from conformance.brokers.pulsar_service import NAMESPACE, PulsarService
from conformance.brokers.splitter import Splitter

LEADS_WITHIN_S: Final = 60.0
POLL_S: Final = 0.02
ASK_WITHIN_S: Final = 5.0
SCHEMES: Final = (("pulsar", "pulsar"), ("http", "http-pulsar"))
ESTABLISHED: Final = "01"
SECURED: Final = "amqp-tls"
ANY_PORT: Final = '"127.0.0.1:0"'
"""How ``settings`` write the address of the one listener that has no command-line option."""
SECRET: Final = "a secret of 32 bytes or more, that all nodes of a test have\n"

SETTINGS: Final = """
[cluster]
node = "{node}"
shard = "{shard}"
[cluster.pulsar]
url = "{url}"
admin_url = "{admin_url}"
namespace = "{namespace}"
[cluster.internal]
listen = "127.0.0.1:{internal}"
secret_file = "secret"
"""


class ClusterNode(Arneb):
    """One node, with the same ports after a restart."""

    def __init__(
        self,
        name: str,
        shard: str,
        directory: Path,
        service: PulsarService,
        *,
        listeners: Sequence[str],
        settings: str = "",
        command: Sequence[str] = (),
        extra: Mapping[str, str] | None = None,
    ) -> None:
        self.node = name
        self.is_still = False
        """Whether it is stopped by SIGSTOP."""
        table = SETTINGS.format(
            node=name, shard=shard, url=service.url, admin_url=service.http, namespace=NAMESPACE,
            internal=free_port(),
        )  # fmt: skip
        ports = {each: free_port() for each in listeners}
        if SECURED in ports:
            settings = settings.replace(ANY_PORT, f'"127.0.0.1:{ports[SECURED]}"')
        super().__init__(
            directory,
            listeners=listeners,
            ports=ports,
            settings=settings + table,
            command=command,
            extra=extra,
        )
        directory.mkdir(parents=True)
        (directory / "secret").write_text(SECRET)

    def __repr__(self) -> str:
        return f"<ClusterNode {self.node} in {self.directory}>"

    def port(self, listener: str) -> Address:
        """Where the listener is, whether the node is running or not."""
        return Address("127.0.0.1", self._ports[listener])

    def figure(self, name: str) -> float:
        """The value of one of its cluster metrics, ``arneb_cluster_<name>``; -1 while it cannot be
        read."""
        if not self.running or self.is_still:
            return -1
        try:
            connection = http.client.HTTPConnection(
                "127.0.0.1", self._ports["http"], timeout=ASK_WITHIN_S
            )
            connection.request("GET", "/metrics")
            text = connection.getresponse().read().decode()
            connection.close()
        except (OSError, http.client.HTTPException):
            return -1
        found = re.search(rf"^arneb_cluster_{name}{{.*}} (\S+)$", text, re.MULTILINE)
        return float(found[1]) if found else -1

    def kill(self) -> None:
        super().kill()
        self.is_still = False

    def stand_still(self) -> None:
        """Stop the process with SIGSTOP."""
        self.is_still = True
        self.signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Continue the process with SIGCONT."""
        self.signal(signal.SIGCONT)
        self.is_still = False


class ArnebCluster(Listening):
    """Nodes of one shard. The same object can be started again on the same data."""

    name = "arneb"

    def __init__(
        self,
        directory: Path,
        service: PulsarService,
        *,
        nodes: int = 3,
        listeners: Sequence[str] = ALL_PROTOCOLS,
        ports: Mapping[str, int] | None = None,
        settings: str = "",
        command: Sequence[str] = (),
        extra: Mapping[str, str] | None = None,
    ) -> None:
        """``ports`` are those of the splitters, by listener. ``settings`` are used by every node.
        ``command``, if not empty, is run instead of ``arneb``."""
        self.directory = directory
        shard = f"main-{os.getpid()}-{free_port()}"
        self.nodes = [
            ClusterNode(
                f"n{number}", shard, directory / f"n{number}", service, listeners=listeners,
                settings=_with_metrics(settings), command=command, extra=extra,
            )
            for number in range(1, nodes + 1)
        ]  # fmt: skip
        given = dict(ports or {})
        self._addresses = {
            each: Address("127.0.0.1", given.get(each) or free_port()) for each in listeners
        }
        self.splitters: dict[str, Splitter] = {}
        """The splitters by listener, while the cluster runs."""

    def __repr__(self) -> str:
        running = sum(each.running for each in self.nodes)
        return f"<ArnebCluster {self.directory}, {running} of {len(self.nodes)} run>"

    # What it shares with other brokers

    @property
    def pid(self) -> int:
        """The leader's process id."""
        return self.leader().pid

    @property
    def data(self) -> Path:
        """The leader's data directory."""
        return self.leader().data

    @property
    def log(self) -> str:
        """The output of all nodes."""
        return "\n".join(each.log for each in self.nodes)

    @property
    def running(self) -> bool:
        return any(each.running for each in self.nodes)

    def start(self) -> Self:
        """Start the nodes that are not running; one node leads when this returns."""
        for each in self.nodes:
            if not each.running:
                each.spawn()
        for each in self.nodes:
            each.wait_ready()
        self.leader()
        for listener, address in self._addresses.items():
            if listener not in self.splitters:
                splitter = Splitter(self._servers(listener), at=address)
                self.splitters[listener] = splitter.start()
        return self

    def stop(self) -> None:
        """Stop all nodes and accept no more clients. Idempotent."""
        for each in self.nodes:
            if each.is_still:
                each.go_on()
            each.stop()
        self._close()

    def kill(self) -> None:
        """Send SIGKILL to all nodes. Idempotent."""
        for each in self.nodes:
            each.kill()
        self._close()

    def memory(self) -> Memory:
        return self.leader().memory()

    def cpu_s(self) -> float:
        return self.leader().cpu_s()

    def written_bytes(self) -> int:
        return self.leader().written_bytes()

    def alarm(self, resource: str, on: bool) -> None:
        """Raise or clear an alarm on the leader."""
        self.leader().alarm(resource, on)

    def signal(self, number: int) -> None:
        """Send the leader a signal."""
        self.leader().signal(number)

    # The nodes

    def leader(
        self, other_than: ClusterNode | None = None, within_s: float = LEADS_WITHIN_S
    ) -> ClusterNode:
        """Wait until a node serves, and return it. Raises :class:`BrokerFailed`."""
        end = time.monotonic() + within_s
        while True:
            for each in self.nodes:
                if each is not other_than and each.figure("serves") == 1:
                    return each
            if time.monotonic() > end:
                raise BrokerFailed(f"expected a node that serves within {within_s} s, got none")
            time.sleep(POLL_S)

    def move_leader(self) -> ClusterNode:
        """Have the leader hand over, as an operator would; the result is the new leader. Raises
        :class:`BrokerFailed`."""
        leader = self.leader()
        done = run_arneb("ctl", "--data-dir", str(leader.data), "cluster", "hand-over")
        if done.returncode:
            output = f"{done.stdout}{done.stderr}"
            gone = [f"{each!r} has ended: {each.log}" for each in self.nodes if not each.running]
            raise BrokerFailed(
                "\n".join([f"expected {leader!r} to hand over, got {output}", *gone])
            )
        return self.leader(leader)

    def wait_equal(self, within_s: float = LEADS_WITHIN_S) -> None:
        """Wait until every node has applied the commits that the leader has now. Raises
        :class:`BrokerFailed`."""
        number = self.leader().figure("number")
        end = time.monotonic() + within_s
        while not all(each.figure("number") >= number for each in self.nodes):
            if time.monotonic() > end:
                found = {each.node: each.figure("number") for each in self.nodes}
                raise BrokerFailed(f"expected all at {number} within {within_s} s, got {found}")
            time.sleep(POLL_S)

    def owner_of(self, port: int) -> str:
        """The name of the node whose process has this loopback port as its own end of a connection,
        or ``nobody``."""
        inode = _inode_of(port)
        for each in self.nodes:
            if each.running and inode and inode in _sockets_of(each.pid):
                return each.node
        return "nobody"

    def _servers(self, listener: str) -> Callable[[], list[Address]]:
        return lambda: [
            each.port(listener) for each in self.nodes if each.running and not each.is_still
        ]

    def _close(self) -> None:
        while self.splitters:
            self.splitters.popitem()[1].close()


class OwnCluster(ArnebCluster):
    """A cluster whose log is kept by an Arneb broker instead of Apache Pulsar. That broker is
    started, stopped and killed together with the cluster."""

    def __init__(
        self,
        directory: Path,
        *,
        nodes: int = 3,
        listeners: Sequence[str] = PROTOCOLS,
        ports: Mapping[str, int] | None = None,
        settings: str = "",
    ) -> None:
        own = {"pulsar": free_port(), "http-pulsar": free_port()}
        self._log = Arneb(directory / "log", listeners=tuple(own), ports=own)
        url, http_url = (f"{scheme}://127.0.0.1:{own[each]}" for scheme, each in SCHEMES)
        self._service = PulsarService(url, http_url, (self._log,), ())
        # The leader is found by asking over HTTP.
        listeners = tuple(dict.fromkeys((*listeners, "http")))
        super().__init__(
            directory, self._service, nodes=nodes, listeners=listeners, ports=ports,
            settings=settings,
        )  # fmt: skip
        RUNNING.append(self)

    def start(self) -> Self:
        """Start what is not running; one node leads when this returns."""
        if not self._log.running:
            self._log.start()
            self._service.prepare()
        return super().start()

    def stop(self) -> None:
        """Stop all nodes, and then the broker that keeps their log. Idempotent."""
        super().stop()
        self._log.stop()

    def kill(self) -> None:
        """Send SIGKILL to all of it. Idempotent."""
        super().kill()
        self._log.kill()


class MovingCluster(OwnCluster):
    """A cluster of which only the leader is stopped or killed: another node takes over, and the
    lost one follows when it is started again."""

    def stop(self) -> None:
        """Stop the leader if all nodes are running. Idempotent."""
        if all(each.running for each in self.nodes):
            self.leader().stop()

    def kill(self) -> None:
        """Send SIGKILL to the leader if all nodes are running. Idempotent."""
        if all(each.running for each in self.nodes):
            self.leader().kill()

    def end(self) -> None:
        """Send SIGKILL to all of it."""
        super().kill()


RUNNING: Final[list[OwnCluster]] = []
"""All clusters made in this process, running or not."""


def move_leaders() -> None:
    """Have each running cluster hand over to another leader."""
    for each in RUNNING:
        if each.running:
            each.move_leader()


def _with_metrics(settings: str) -> str:
    """Settings with metrics, which show who leads, readable without a password."""
    if "[http]" in settings:
        return settings.replace("[http]", "[http]\nopen_metrics = true")
    return f"{settings}\n[http]\nopen_metrics = true\n"


def _inode_of(port: int) -> str:
    """The inode of the socket whose own end is this loopback port, from ``/proc/net/tcp``: see
    proc(5). Empty if there is none."""
    end = f":{port:04X}"
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[1].endswith(end) and fields[3] == ESTABLISHED:
            return fields[9]
    return ""


def _sockets_of(pid: int) -> set[str]:
    """The inodes of the process's sockets."""
    found = set()
    for each in Path(f"/proc/{pid}/fd").iterdir():
        try:
            name = str(each.readlink())
        except OSError:
            continue  # closed in the meantime
        if name.startswith("socket:["):
            found.add(name[len("socket:[") : -1])
    return found
