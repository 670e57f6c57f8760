"""EXTERNAL: a certificate names the client, if TLS has verified it and there is such a user."""

import ipaddress
import ssl
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pika
import pytest
import trio
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from arneb.listening.handshakes import Handshakes
from arneb.settings.tls import TlsConfig, read_tls
from arneb_amqp.config import AmqpConfig, CertificateLogin, SanType
from arneb_amqp.server import serve_amqp
from arneb_amqp.server.admission.certificates import NoName, name_of
from arneb_amqp.server.transport.tls import SecuredListener
from arneb_amqp.topology.seeding import open_catalogue
from arneb_amqp.topology.topology import Topology
from arneb_core.api.connections.verification import make_context
from arneb_core.engine.engine import open_engine

DN = CertificateLogin.DISTINGUISHED_NAME
CN = CertificateLogin.COMMON_NAME
SAN = CertificateLogin.SUBJECT_ALTERNATIVE_NAME
ALTERNATIVES: list[x509.GeneralName] = [
    x509.DNSName("first.example"),
    x509.DNSName("second.example"),
    x509.IPAddress(ipaddress.ip_address("10.0.0.1")),
    x509.RFC822Name("u@example"),
    x509.UniformResourceIdentifier("urn:u"),
]


class Authority:
    """Signs certificates."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "authority")])
        self.file = self._write("ca", self._name, self._key, [], ca=True)

    def sign(self, name: str, alternatives: list[x509.GeneralName]) -> Path:
        """A file with a certificate for ``CN=name,O=us`` and its key."""
        subject = x509.Name(
            [
                x509.NameAttribute(NameOID.ORGANIZATION_NAME, "us"),
                x509.NameAttribute(NameOID.COMMON_NAME, name),
            ]
        )
        return self._write(name, subject, ec.generate_private_key(ec.SECP256R1()), alternatives)

    def _write(
        self,
        file: str,
        subject: x509.Name,
        key: ec.EllipticCurvePrivateKey,
        alternatives: list[x509.GeneralName],
        *,
        ca: bool = False,
    ) -> Path:
        now = datetime.now(UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        )
        if alternatives:
            builder = builder.add_extension(
                x509.SubjectAlternativeName(alternatives), critical=False
            )
        made = builder.sign(self._key, hashes.SHA256())
        path = self._directory / f"{file}.pem"
        private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        path.write_bytes(made.public_bytes(Encoding.PEM) + private)
        return path


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def certificate(authority: Authority) -> bytes:
    file = authority.sign("u", ALTERNATIVES)
    return x509.load_pem_x509_certificate(file.read_bytes()).public_bytes(Encoding.DER)


@pytest.mark.parametrize(
    ("login", "kind", "index", "name"),
    [
        (DN, SanType.DNS, 0, "CN=u,O=us"),
        (CN, SanType.DNS, 0, "u"),
        (SAN, SanType.DNS, 0, "first.example"),
        (SAN, SanType.DNS, 1, "second.example"),
        (SAN, SanType.IP, 0, "10.0.0.1"),
        (SAN, SanType.EMAIL, 0, "u@example"),
        (SAN, SanType.URI, 0, "urn:u"),
    ],
)
def test_a_certificate_names_its_owner_in_the_configured_way(
    certificate: bytes, login: CertificateLogin, kind: SanType, index: int, name: str
) -> None:
    assert name_of(certificate, login, kind, index) == name


def test_a_certificate_without_a_name_admits_nobody(
    certificate: bytes, authority: Authority
) -> None:
    for kind, index in ((SanType.DNS, 2), (SanType.OTHER_NAME, 0)):
        with pytest.raises(NoName):
            name_of(certificate, SAN, kind, index)
    bare = x509.load_pem_x509_certificate(authority.sign("bare", []).read_bytes())
    with pytest.raises(NoName, match="subject_alternative_name"):
        name_of(bare.public_bytes(Encoding.DER), SAN, SanType.DNS, 0)
    with pytest.raises(NoName):
        name_of(b"rubbish", DN, SanType.DNS, 0)


def serve(path: Path, authority: Authority, clients: Callable[[int], None]) -> None:
    """Serve AMQP over TLS while ``clients`` run in a thread."""
    server = authority.sign("localhost", [x509.DNSName("localhost")])
    context = read_tls(TlsConfig(certificate=server, client_ca=authority.file))
    config = AmqpConfig(external_login=True, certificate_login=CN)

    async def main() -> None:
        async with open_engine(path) as core, trio.open_nursery() as nursery:
            catalogue = await open_catalogue(core, config)
            async with catalogue.changing() as edit:
                edit.put_user("known")
                edit.set_permissions("known", "/", "", "", "")
            topology = await Topology.open(core, catalogue, config)
            plain = await trio.open_tcp_listeners(0, host="127.0.0.1")
            secure = Handshakes(context).records

            async def start(task_status: trio.TaskStatus[None]) -> None:
                listeners = [SecuredListener(each, secure) for each in plain]
                await serve_amqp(
                    core, listeners, config=config, topology=topology, task_status=task_status
                )

            await nursery.start(start)
            port = plain[0].socket.getsockname()[1]
            await trio.to_thread.run_sync(clients, port)
            nursery.cancel_scope.cancel()
        for each in plain:
            await each.aclose()

    trio.run(main)


@pytest.fixture
def contexts(authority: Authority) -> Callable[[str | None], ssl.SSLContext]:
    def make(name: str | None) -> ssl.SSLContext:
        context = make_context(cafile=authority.file)
        if name is not None:
            context.load_cert_chain(authority.sign(name, []))
        return context

    return make


@pytest.mark.real_time
def test_a_verified_certificate_is_a_login_without_a_password(
    tmp_path: Path, authority: Authority, contexts: Callable[[str | None], ssl.SSLContext]
) -> None:
    def connect(port: int, name: str | None) -> Any:
        return pika.BlockingConnection(
            pika.ConnectionParameters(
                "127.0.0.1",
                port,
                credentials=pika.credentials.ExternalCredentials(),
                ssl_options=pika.SSLOptions(contexts(name), "localhost"),
            )
        )

    def clients(port: int) -> None:
        connection = connect(port, "known")
        with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="for user 'known'"):
            connection.channel().queue_declare("q")
        connection.close()
        with pytest.raises(pika.exceptions.ProbableAuthenticationError):
            connect(port, "stranger")
        # A client that has shown none is not even offered it.
        with pytest.raises(pika.exceptions.AMQPConnectionError):
            connect(port, None)

    serve(tmp_path / "data", authority, clients)
