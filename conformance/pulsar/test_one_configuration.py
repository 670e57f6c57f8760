"""Every way to connect to one broker: plain and TLS, HTTP and HTTPS, with tokens, passwords,
certificates and without credentials. Clients without credentials get a configured role and its
rights.

This is what the official clients' test suites require of their broker, in one configuration.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pulsar
import pytest
from conformance.brokers.arneb import Arneb
from conformance.brokers.guarded import guarded_pulsar, make_files, open_arneb, token
from conformance.brokers.process import free_port
from conformance.pulsar.clients.programs import built_in_go
from conformance.pulsar.conftest import Named
from conformance.pulsar.helpers import WITHIN_MS
from conformance.toolbox import finished

QUIET: Final = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
ANSWERED_WITHIN_S: Final = 30
REFUSED_WITHIN_S: Final = 3
"""The operation timeout of clients that keep retrying until then, whatever the answer."""

RUN_WITHIN_S: Final = 300.0


@dataclass(frozen=True, slots=True)
class Ports:
    """Where one broker is reached, by URL scheme."""

    urls: dict[str, str]
    files: Path

    def connect(self, scheme: str, **options: Any) -> pulsar.Client:
        if scheme in ("pulsar+ssl", "https"):
            options = {"tls_trust_certs_file_path": str(self.files / "root.crt")} | options
        options = {"operation_timeout_seconds": ANSWERED_WITHIN_S, "logger": QUIET} | options
        return pulsar.Client(self.urls[scheme], **options)


@pytest.fixture(scope="module", params=["arneb", "pulsar"])
def ports(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Ports]:
    if request.param not in (request.config.getoption("pulsar") or ["arneb", "pulsar"]):
        pytest.skip("not selected by --pulsar")
    files = make_files(tmp_path_factory.mktemp("files"))
    place = tmp_path_factory.mktemp(request.param)
    if request.param == "arneb":
        broker: Any = open_arneb(place, files)
        assert isinstance(broker, Arneb)
        http, https = broker.admin_url, broker.admin_tls_url
    else:
        port = free_port()
        broker = guarded_pulsar(
            place,
            files,
            webServicePortTls=port,
            authorizationEnabled="true",
            superUserRoles="me,anonymous",
            anonymousUserRole="anonymous",
        )
        http, https = broker.http_url, f"https://127.0.0.1:{port}"
    urls = {"pulsar": broker.pulsar_url, "pulsar+ssl": broker.pulsar_tls_url}
    try:
        yield Ports(urls | {"http": http, "https": https}, files)
    finally:
        broker.stop()


def works(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    client.create_producer(topic).send(b"hello")
    message = consumer.receive(WITHIN_MS)
    assert message.data() == b"hello"
    consumer.acknowledge(message)
    client.close()


def proof(kind: str, files: Path) -> pulsar.Authentication | None:
    """The ways to give the C++ client its credentials."""
    certificate, key = str(files / "me.crt"), str(files / "me.key")
    parameters = f"tlsCertFile:{certificate},tlsKeyFile:{key}"
    return {
        "nothing": lambda: None,
        "token": lambda: pulsar.AuthenticationToken(token()),
        "supplied token": lambda: pulsar.AuthenticationToken(token),
        "named token": lambda: pulsar.Authentication("token", f"token:{token()}"),
        "password": lambda: pulsar.AuthenticationBasic("me", "right"),
        "named password": lambda: pulsar.Authentication(
            "basic", '{"username":"me","password":"right"}'
        ),
        "certificate": lambda: pulsar.AuthenticationTLS(certificate, key),
        "named certificate": lambda: pulsar.Authentication("tls", parameters),
        "certificate by class": lambda: pulsar.Authentication(
            "org.apache.pulsar.client.impl.auth.AuthenticationTls", parameters
        ),
    }[kind]()


SCHEMES: Final = ("pulsar", "pulsar+ssl", "http", "https")
PROOFS: Final = ("nothing", "token", "supplied token", "named token", "password", "named password")
CERTIFICATES: Final = ("certificate", "named certificate", "certificate by class")


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("kind", PROOFS)
def test_every_proof_at_every_port(ports: Ports, name: Named, scheme: str, kind: str) -> None:
    works(ports.connect(scheme, authentication=proof(kind, ports.files)), name("in"))


def test_a_token_may_come_with_the_end_of_its_line(ports: Ports, name: Named) -> None:
    """As when it was read from a file."""
    authentication = pulsar.AuthenticationToken(token() + "\n")
    works(ports.connect("pulsar", authentication=authentication), name("in"))


@pytest.mark.parametrize("scheme", ["pulsar+ssl", "https"])
@pytest.mark.parametrize("kind", CERTIFICATES)
def test_certificates_where_there_is_tls(ports: Ports, name: Named, scheme: str, kind: str) -> None:
    works(ports.connect(scheme, authentication=proof(kind, ports.files)), name("in"))


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize(
    "authentication",
    [
        pulsar.AuthenticationBasic("me", "wrong"),
        pulsar.AuthenticationBasic("nobody", "right"),
        pulsar.AuthenticationToken(token(-10)),
        pulsar.AuthenticationToken(token(secret=bytes(32))),
        pulsar.AuthenticationToken("nonsense"),
    ],
    ids=["password", "user", "expired", "forged", "nonsense"],
)
def test_a_wrong_proof_is_not_nothing(
    ports: Ports, name: Named, scheme: str, authentication: pulsar.Authentication
) -> None:
    """A client with wrong credentials is not treated like one without any."""
    options = {"operation_timeout_seconds": REFUSED_WITHIN_S}
    client = ports.connect(scheme, authentication=authentication, **options)
    with pytest.raises((pulsar.AuthenticationError, pulsar.ConnectError, pulsar.Timeout)):
        client.create_producer(name("out"))
    client.close()


@pytest.mark.parametrize("scheme", ["pulsar+ssl", "https"])
def test_the_brokers_certificate_is_looked_at(
    ports: Ports, name: Named, tmp_path: Path, scheme: str
) -> None:
    for options in (
        {"tls_trust_certs_file_path": str(ports.files / "me.crt")},
        {"tls_trust_certs_file_path": ""},
    ):
        client = ports.connect(scheme, operation_timeout_seconds=REFUSED_WITHIN_S, **options)
        with pytest.raises(pulsar.PulsarException):
            client.create_producer(name("out"))
        client.close()
    works(
        ports.connect(scheme, tls_trust_certs_file_path="", tls_allow_insecure_connection=True),
        name("in"),
    )
    works(ports.connect(scheme, tls_validate_hostname=True), name("in"))


def test_the_same_with_the_client_in_go(ports: Ports) -> None:
    (ports.files / "token").write_text(token())
    first, *others = (ports.urls[scheme] for scheme in SCHEMES)
    command = [*built_in_go(), first, "logins", str(ports.files), *others]
    print(finished(command, ports.files, RUN_WITHIN_S))
