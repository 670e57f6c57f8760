"""Clients that must prove who they are, over a real core; and TLS."""

import datetime as dt
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import jwt
import pytest
import trio
import trio.testing
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import NameOID
from passlib.hash import apr_md5_crypt
from tests.pulsar_frontend.conftest import OpenBroker
from tests.pulsar_frontend.raw_client import Closed, RawClient

from arneb.listening.handshakes import Handshakes
from arneb.settings.tls import TlsConfig, read_tls
from arneb_core.api.connections.verification import make_context
from arneb_pulsar.authorization.callers import NOBODY, Caller
from arneb_pulsar.config import AuthenticationConfig
from arneb_pulsar.server.listener import PulsarServer, serve_connection
from arneb_pulsar.services.context import BrokerContext
from arneb_pulsar.wire.proto import pulsar_pb2 as pb

pytestmark = pytest.mark.real_time

SECRET = bytes(range(32))


@pytest.fixture
def authentication(tmp_path: Path) -> AuthenticationConfig:
    secret, users = tmp_path / "secret", tmp_path / "users"
    secret.write_bytes(SECRET)
    users.write_text(f"me:{apr_md5_crypt.hash('right')}\n")
    methods = ("token", "basic", "tls")
    return AuthenticationConfig(methods, token_secret_key=secret, basic_file=users)


def token(**claims: object) -> bytes:
    return jwt.encode({"sub": "me"} | claims, SECRET, "HS256").encode()


@asynccontextmanager
async def stranger(context: BrokerContext) -> AsyncIterator[RawClient]:
    """A client that has said nothing yet."""
    ours, theirs = trio.testing.memory_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve_connection, context, theirs, "pulsar://here:1", "connection")
        yield RawClient(ours)
        await ours.aclose()


def connect(method: str, proof: bytes, *, refreshes: bool = True) -> pb.CommandConnect:
    return pb.CommandConnect(
        client_version="test",
        protocol_version=20,
        auth_method_name=method,
        auth_data=proof,
        feature_flags=pb.FeatureFlags(supports_auth_refresh=refreshes),
    )


@pytest.mark.parametrize(
    ("method", "proof", "holds"),
    [
        ("token", token(), True),
        ("token", token(exp=4_000_000_000), True),
        ("token", token(exp=1), False),
        ("token", b"", False),
        ("basic", b"me:right", True),
        ("basic", b"me:wrong", False),
        ("tls", b"", False),
        ("none", b"", False),
        ("", b"", False),
    ],
)
async def test_only_a_good_proof_opens_a_connection(
    open_broker: OpenBroker,
    authentication: AuthenticationConfig,
    method: str,
    proof: bytes,
    holds: bool,
) -> None:
    async with (
        open_broker(authentication=authentication) as running,
        stranger(running.context) as client,
    ):
        await client.send(connect(method, proof))
        if holds:
            await client.expect(pb.CommandConnected)
            await client.producer()
            return
        refusal = await client.expect(pb.CommandError)
        assert (refusal.error, refusal.message) == (
            pb.AuthenticationError,
            "Failed to authenticate",
        )
        with pytest.raises(Closed):
            await client.reply()


async def test_a_token_that_expires_is_renewed(
    open_broker: OpenBroker, authentication: AuthenticationConfig
) -> None:
    async with (
        open_broker(authentication=authentication) as running,
        stranger(running.context) as client,
    ):
        await client.send(connect("token", token(exp=time.time() + 0.2)))
        await client.expect(pb.CommandConnected)
        await client.expect(pb.CommandAuthChallenge)
        response = pb.AuthData(auth_method_name="token", auth_data=token())
        await client.send(pb.CommandAuthResponse(response=response))
        await client.producer()
        await client.publish(b"x")
        await client.expect(pb.CommandSendReceipt)


async def test_administrators_prove_themselves_too(
    open_broker: OpenBroker, authentication: AuthenticationConfig
) -> None:
    async with open_broker() as running:
        assert await running.context.authenticator.caller("") == NOBODY
    async with open_broker(authentication=authentication) as running:
        who = running.context.authenticator.caller
        assert await who(f"Bearer {token().decode()}") == Caller("me")
        assert await who("Basic bWU6cmlnaHQ=", "ann") == Caller("me", "ann")
        assert await who("Basic bWU6cmlnaHQ=", "me") == Caller("me")
        for bad in ("", "Bearer x", "Basic bWU6d3Jvbmc=", "Basic !", "tls", "Digest x"):
            assert await who(bad) is None


def make_certificate(directory: Path, name: str, issuer: str | None = None) -> Path:
    """Write a certificate with its key; issued by another of the directory, or by itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    signer, signed_by = key, subject
    if issuer is not None:
        data = (directory / f"{issuer}.pem").read_bytes()
        signed_by = x509.load_pem_x509_certificate(data).subject
        loaded = load_pem_private_key(data, None)
        assert isinstance(loaded, ec.EllipticCurvePrivateKey)
        signer = loaded
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(signed_by)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
        .sign(signer, hashes.SHA256())
    )
    file = directory / f"{name}.pem"
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    file.write_bytes(private + certificate.public_bytes(Encoding.PEM))
    return file


@asynccontextmanager
async def secured(context: BrokerContext, config: TlsConfig) -> AsyncIterator[int]:
    """The broker behind TLS; its port."""
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with trio.open_nursery() as nursery:
        handshakes = Handshakes(read_tls(config))
        server = PulsarServer(context)
        await nursery.start(server.serve_tls, listeners, handshakes.secure)
        yield listeners[0].socket.getsockname()[1]
        nursery.cancel_scope.cancel()


async def dial(port: int, trusted: Path, mine: Path | None = None) -> RawClient:
    context = make_context(cafile=trusted)
    if mine is not None:
        context.load_cert_chain(mine)
    plain = await trio.open_tcp_stream("127.0.0.1", port)
    stream = trio.SSLStream(plain, context, server_hostname="localhost", https_compatible=True)
    return RawClient(stream)


async def test_a_certificate_is_a_proof(
    open_broker: OpenBroker, authentication: AuthenticationConfig, tmp_path: Path
) -> None:
    ours = make_certificate(tmp_path, "root")
    server = make_certificate(tmp_path, "server", "root")
    client_file = make_certificate(tmp_path, "me", "root")
    make_certificate(tmp_path, "elsewhere")
    foreign = make_certificate(tmp_path, "other", "elsewhere")
    config = TlsConfig(certificate=server, client_ca=ours)
    async with (
        open_broker(authentication=authentication) as running,
        secured(running.context, config) as port,
    ):
        known = await dial(port, ours, client_file)
        await known.send(connect("tls", b""))
        await known.expect(pb.CommandConnected)
        await known.send(pb.CommandLookupTopic(topic="t", request_id=3))
        found = await known.expect(pb.CommandLookupTopicResponse)
        assert found.brokerServiceUrlTls == f"pulsar+ssl://127.0.0.1:{port}"
        assert not found.HasField("brokerServiceUrl")

        unknown = await dial(port, ours)
        await unknown.send(connect("tls", b""))
        assert (await unknown.expect(pb.CommandError)).error == pb.AuthenticationError

        with_token = await dial(port, ours)
        await with_token.send(connect("token", token()))
        await with_token.expect(pb.CommandConnected)

        foreigner = await dial(port, ours, foreign)
        with pytest.raises((trio.BrokenResourceError, Closed)):
            await foreigner.send(connect("tls", b""))
            await foreigner.reply()

        plain = RawClient(await trio.open_tcp_stream("127.0.0.1", port))
        with pytest.raises((trio.BrokenResourceError, Closed)):
            await plain.send(connect("token", token()))
            while True:
                if not await plain.stream.receive_some():
                    raise Closed
        for client in (known, unknown, with_token, foreigner, plain):
            await trio.aclose_forcefully(client.stream)
