"""Apache Pulsar standalone, from its jars on Maven Central, on free loopback ports.

Broker, bookie and RocksDB metadata run in one Java process, with throw-away data. The journal is
synced (``journalSyncData``), which Pulsar's own standalone configuration does not do. Without it,
its receipts would promise less than those they are compared with.

``python -m conformance.brokers.pulsar_standalone [DIRECTORY]`` starts one and prints its addresses.
"""

import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from conformance.brokers.java_server import (
    BROKER_FIELDS,
    DISK_FIELDS,
    JavaServer,
    http_answer,
    installed,
)
from conformance.brokers.process import Address, BrokerFailed, free_port

ANSWER_WITHIN_S: Final = 5.0


class PulsarStandalone(JavaServer):
    """One Apache Pulsar. The same object can be started again on the same data."""

    def __init__(
        self,
        directory: Path,
        *,
        token: str = "",
        tls: bool = False,
        ports: Mapping[str, int] | None = None,
        **settings: object,
    ) -> None:
        """``settings`` go into the broker's configuration. ``token`` authenticates our own calls,
        if the broker requires it. ``tls`` opens a TLS port, for which ``settings`` name the
        certificates. ``ports`` are those that may not be just any: ``pulsar``, ``pulsar-tls``,
        ``http-pulsar`` and ``http-pulsar-tls``, which is closed unless it is there."""
        chosen = dict(ports or {})

        def port(of: str) -> int:
            return chosen.get(of) or free_port()

        self._token = token
        self._tls = Address("127.0.0.1", port("pulsar-tls")) if tls else None
        self._address = Address("127.0.0.1", port("pulsar"))
        self._http = Address("127.0.0.1", port("http-pulsar"))
        bookie_port = free_port()
        fields: dict[str, object] = {
            **BROKER_FIELDS,
            **DISK_FIELDS,
            "clusterName": "standalone",
            "bindAddress": self._address.host,
            "advertisedAddress": self._address.host,
            "brokerServicePort": self._address.port,
            "webServicePort": self._http.port,
            "bookiePort": bookie_port,
            "allowLoopback": "true",
            "managedLedgerDefaultEnsembleSize": 1,
            "managedLedgerDefaultWriteQuorum": 1,
            "managedLedgerDefaultAckQuorum": 1,
            "loadBalancerEnabled": "false",
            "journalSyncData": "true",
        }
        if self._tls is not None:
            fields["brokerServicePortTls"] = self._tls.port
        if "http-pulsar-tls" in chosen:
            fields["webServicePortTls"] = chosen["http-pulsar-tls"]
        host = str(settings.get("advertisedAddress", self._address.host))
        main = ["org.apache.pulsar.PulsarStandaloneStarter", "-c", f"{directory}/standalone.conf"]
        main += ["-a", host, "-nfw", "-nss", "--metadata-dir", f"{directory}/metadata"]
        main += ["--bookkeeper-dir", f"{directory}/bookkeeper"]
        main += ["--bookkeeper-port", str(bookie_port)]
        super().__init__(
            "pulsar",
            directory,
            main,
            mib=(1024, 1024),
            options=("-Xms256m", "-Dio.netty.recycler.maxCapacityPerThread=4096"),
            files={"standalone.conf": {**fields, **settings}},
            is_ready=self._has_default_namespace,
        )

    def __repr__(self) -> str:
        return f"<PulsarStandalone at {self._address}>"

    @staticmethod
    def installed() -> bool:
        """Whether this machine has what it needs to fetch and run it."""
        return installed()

    @property
    def pulsar_url(self) -> str:
        """Where it speaks Pulsar."""
        return f"pulsar://{self._address}"

    @property
    def pulsar_tls_url(self) -> str:
        """Where it speaks Pulsar over TLS."""
        if self._tls is None:
            raise BrokerFailed(f"expected {self!r} to speak TLS")
        return f"pulsar+ssl://{self._tls}"

    @property
    def http_url(self) -> str:
        """Where it serves the admin API."""
        return f"http://{self._http}"

    def _has_default_namespace(self) -> bool:
        """Whether the default namespace exists: it is the last thing that a first start creates."""
        headers = {"Authorization": f"Bearer {self._token}"} if self._token else {}
        _, body = http_answer(self._http, "/admin/v2/namespaces/public", headers, ANSWER_WITHIN_S)
        return b"public/default" in body


def main() -> None:
    """Run one until standard input ends or Ctrl-C is pressed."""
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
