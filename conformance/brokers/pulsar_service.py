"""A Pulsar service for the nodes of a cluster: Apache Pulsar itself, or Arneb in its place.

The rule: the namespace has the policies that nodes require. Arneb speaks Pulsar and starts in a
second, which tests can afford; the soaks cover what only Apache Pulsar does. Clients reach the
servers through addresses of their own, so that the network in between can be cut.
"""

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Final, Self

from conformance.brokers.arneb import Arneb
from conformance.brokers.process import Address, OwnProcess, free_port
from conformance.brokers.pulsar_cluster import PulsarCluster
from conformance.brokers.splitter import Owner, Splitter
from conformance.pulsar.admin import Admin

NAMESPACE: Final = "public/arneb"
KINDS: Final = ("arneb", "cluster")
KEPT: Final = {
    "deleteWhileInactive": False,
    "inactiveTopicDeleteMode": "delete_when_no_subscriptions",
    "maxInactiveDurationSeconds": 3_600,
}
"""Policies of the namespace: topics stay even if nobody uses them."""

PROXIED: Final = "127.0.0.2"
"""The address that all servers advertise. The splitters listen there, at the servers' own ports."""


class PulsarService:
    """A running Pulsar service."""

    def __init__(
        self, url: str, http: str, brokers: Sequence[OwnProcess], bookies: Sequence[OwnProcess]
    ) -> None:
        self.url = url
        self.http = http
        self.brokers = brokers
        """The processes of its brokers, if they are ours."""
        self.bookies = bookies
        self.wires: list[Splitter] = []
        """The splitters through which clients reach the brokers, if the network may be cut."""

    def __repr__(self) -> str:
        return f"<PulsarService {self.url}>"

    def prepare(self) -> Self:
        """Create the namespace and set the policies that nodes require."""
        admin = Admin(self.http)
        if NAMESPACE not in admin.get("/admin/v2/namespaces/public"):
            admin.put(f"/admin/v2/namespaces/{NAMESPACE}")
        admin.post(f"/admin/v2/namespaces/{NAMESPACE}/deduplication", True)
        admin.post(f"/admin/v2/namespaces/{NAMESPACE}/inactiveTopicPolicies", KEPT)
        return self


@contextmanager
def pulsar_service(
    kind: str, url: str = "", http: str = "", owner: Owner | None = None
) -> Iterator[PulsarService]:
    """Start a service of this kind, or use a running one. If the network is to be cut, ``owner``
    tells who owns a connection."""
    if url:
        yield PulsarService(url, http, (), ()).prepare()
        return
    made = Path(mkdtemp(prefix="pulsar-service-"))
    start = _start_cluster if kind == "cluster" else _start_arneb
    service, stop = start(made, owner)
    try:
        yield service.prepare()
    finally:
        for each in service.wires:
            each.close()
        stop()
        shutil.rmtree(made, ignore_errors=True)


def _start_cluster(made: Path, owner: Owner | None) -> tuple[PulsarService, Callable[[], None]]:
    settings: dict[str, Any] = {} if owner is None else {"advertisedAddress": PROXIED}
    cluster = PulsarCluster(made / "cluster", **settings)
    wires: list[Splitter] = []
    if owner is not None:
        # Brokers use these addresses among themselves as well.
        for broker in cluster.brokers:
            wires += [_wire(broker.address, owner), _wire(broker.http_address, owner)]
    cluster.start()
    url = cluster.pulsar_url
    if owner is not None:
        url = "pulsar://" + ",".join(f"{PROXIED}:{each.address.port}" for each in cluster.brokers)
    service = PulsarService(url, cluster.http_url, cluster.brokers, cluster.bookies)
    service.wires = wires
    return service, cluster.stop


def _start_arneb(made: Path, owner: Owner | None) -> tuple[PulsarService, Callable[[], None]]:
    ports = {"pulsar": free_port(), "http-pulsar": free_port()}
    broker = Arneb(made / "arneb", listeners=("pulsar", "http-pulsar"), ports=ports).start()
    service = PulsarService(broker.pulsar_url, broker.admin_url, (broker,), ())
    if owner is not None:
        service.wires = [_wire(broker.pulsar_address, owner)]
        service.url = f"pulsar://{service.wires[0].address}"
    return service, broker.stop


def _wire(server: Address, owner: Owner) -> Splitter:
    return Splitter(lambda: [server], at=Address(PROXIED, server.port), owner=owner).start()
