"""Plays a suite that finds its broker at fixed ports: ``python -m conformance.suites.fixed_ports
BROKER SOURCE COMMAND...`` starts the broker at Pulsar's ports, with the keys and certificates that
the source of Pulsar's Go client has for its tests, and runs the command there.

The rule: it has a network of its own (``unshare --net``), so several of these run side by side, and
beside whatever else uses these ports. What the suite's own ``pulsar-test-service-start.sh`` sets up
is set up here, too.
"""

import fcntl
import socket
import struct
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from conformance.brokers.arneb import Arneb
from conformance.brokers.pulsar_standalone import PulsarStandalone
from conformance.pulsar.admin import Admin

APART: Final = ("unshare", "--map-root-user", "--net")
"""The command that runs another in a network of its own, in which nothing is up yet."""

PORTS: Final = {"pulsar": 6650, "pulsar-tls": 6651, "http-pulsar": 8080, "http-pulsar-tls": 8443}

# See netdevice(7).
SIOCSIFFLAGS: Final = 0x8914
IFF_UP: Final = 0x1


def bring_loopback_up() -> None:
    """What ``ip link set lo up`` does."""
    with socket.socket() as any_socket:
        request = struct.pack("16sh14x", b"lo", IFF_UP)
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, request)


def arneb_for(place: Path, source: Path) -> Arneb:
    """As ``integration-tests/conf/standalone.conf`` sets up the broker."""
    given = source / "integration-tests"
    tls = f"""
certificate = "{given}/certs/broker-cert.pem"
key = "{given}/certs/broker-key.pem"
client_ca = "{given}/certs/cacert.pem"
"""
    settings = f"""
[pulsar]
message_bytes_max = 1_048_576
backlog_quota_check_s = 5
key_shared_consistent_hashing = false

[pulsar.tls]
listen = "127.0.0.1:{PORTS["pulsar-tls"]}"
{tls}
[http_pulsar.tls]
listen = "127.0.0.1:{PORTS["http-pulsar-tls"]}"
{tls}
[pulsar.authentication]
methods = ["tls", "token", "basic"]
token_secret_key = "{given}/tokens/secret.key"
basic_file = "{given}/conf/.htpasswd"

[access.authorization]
enabled = true
super_user_roles = ["localhost", "superUser", "admin"]
anonymous_role = "anonymous"
"""
    return Arneb(place, listeners=list(PORTS), ports=PORTS, settings=settings)


def pulsar_for(place: Path, source: Path, token: str) -> PulsarStandalone:
    """The same, in Pulsar's words."""
    given = source / "integration-tests"
    providers = "org.apache.pulsar.broker.authentication.AuthenticationProvider"
    return PulsarStandalone(
        place,
        token=token,
        tls=True,
        ports=PORTS,
        advertisedAddress="localhost",
        activeConsumerFailoverDelayTimeMillis=1000,
        maxMessageSize=1_048_576,
        backlogQuotaCheckIntervalInSeconds=5,
        subscriptionKeySharedUseConsistentHashing="false",
        transactionCoordinatorEnabled="true",
        tlsCertificateFilePath=f"{given}/certs/broker-cert.pem",
        tlsKeyFilePath=f"{given}/certs/broker-key.pem",
        tlsTrustCertsFilePath=f"{given}/certs/cacert.pem",
        authenticationEnabled="true",
        authenticationProviders=",".join(providers + kind for kind in ("Tls", "Token", "Basic")),
        tokenSecretKey=f"file://{given}/tokens/secret.key",
        basicAuthConf=f"file://{given}/conf/.htpasswd",
        anonymousUserRole="anonymous",
        authorizationEnabled="true",
        superUserRoles="localhost,superUser,admin",
        brokerClientAuthenticationPlugin="org.apache.pulsar.client.impl.auth.AuthenticationToken",
        brokerClientAuthenticationParameters=f"token:{token}",
    )


def give_rights(admin: Admin) -> None:
    """What the suite's ``scripts/pulsar-test-service-start.sh`` does."""
    clusters = {"allowedClusters": ["standalone"]}
    admin.post("/admin/v2/tenants/public", {"adminRoles": ["anonymous"], **clusters})
    everything = ["produce", "consume"]
    default = "/admin/v2/namespaces/public/default"
    admin.post(f"{default}/permissions/anonymous", everything)
    admin.put("/admin/v2/tenants/private", {"adminRoles": [], **clusters})
    private = "/admin/v2/namespaces/private/auth"
    admin.put(private, {})
    admin.post(f"{private}/permissions/token-principal", everything)


def main(arguments: list[str]) -> int:
    """The exit status of the command."""
    name, source, command = arguments[0], Path(arguments[1]), arguments[2:]
    bring_loopback_up()
    token = (source / "integration-tests/tokens/admin-token").read_text().strip()
    with tempfile.TemporaryDirectory(prefix="fixed-ports-") as made:
        place = Path(made) / "broker"
        broker = arneb_for(place, source) if name == "arneb" else pulsar_for(place, source, token)
        try:
            broker.start()
            give_rights(Admin(f"http://127.0.0.1:{PORTS['http-pulsar']}", token))
            return subprocess.run(command, stdin=subprocess.DEVNULL, check=False).returncode
        finally:
            broker.stop()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
