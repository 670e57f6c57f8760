"""Clients prove who they are: tokens, passwords, certificates; and TLS."""

import base64
import datetime as dt
import hashlib
import hmac
import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import bcrypt
import pulsar
import pytest
from conformance.brokers.arneb import Arneb
from conformance.pulsar.helpers import drain
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

SECRET = bytes(range(32))
EARLIEST = pulsar.InitialPosition.Earliest
QUIET = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)


def token(expires_in_s: float | None = None, secret: bytes = SECRET) -> str:
    """A JSON Web Token, made by hand."""

    def part(data: bytes) -> str:
        return base64.urlsafe_b64encode(data).rstrip(b"=").decode()

    claims: dict[str, Any] = {"sub": "me"}
    if expires_in_s is not None:
        claims["exp"] = int(time.time() + expires_in_s)
    signed = part(b'{"alg":"HS256"}') + "." + part(json.dumps(claims).encode())
    return f"{signed}.{part(hmac.new(secret, signed.encode(), hashlib.sha256).digest())}"


def make_certificate(directory: Path, name: str, issuer: "tuple[Any, Any] | None" = None) -> Any:
    """Write a certificate and its key; the pair."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = dt.datetime.now(dt.UTC)
    signer, above = (key, subject) if issuer is None else (issuer[1], issuer[0].subject)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(above)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(hours=1))
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
        .sign(signer, hashes.SHA256())
    )
    encoding, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    kind = serialization.PrivateFormat.PKCS8
    (directory / f"{name}.crt").write_bytes(certificate.public_bytes(encoding))
    (directory / f"{name}.key").write_bytes(key.private_bytes(encoding, kind, plain))
    return certificate, key


@dataclass(frozen=True)
class Guarded:
    """A broker that asks who comes, and where its files are."""

    broker: Arneb
    files: Path

    def connect(self, *, tls: bool = False, **options: Any) -> pulsar.Client:
        url = self.broker.pulsar_tls_url if tls else self.broker.pulsar_url
        if tls:
            options["tls_trust_certs_file_path"] = str(self.files / "root.crt")
        return pulsar.Client(url, operation_timeout_seconds=5, logger=QUIET, **options)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    files = tmp_path_factory.mktemp("files")
    (files / "secret.key").write_bytes(SECRET)
    hashed = bcrypt.hashpw(b"right", bcrypt.gensalt(4)).decode()
    (files / "users").write_text(f"me:{hashed}\n")
    root = make_certificate(files, "root")
    make_certificate(files, "server", root)
    make_certificate(files, "me", root)
    settings = f"""
[pulsar.authentication]
methods = ["token", "basic", "tls"]
token_secret_key = "{files}/secret.key"
basic_file = "{files}/users"

[pulsar.tls]
listen = "127.0.0.1:0"
certificate = "{files}/server.crt"
key = "{files}/server.key"
client_ca = "{files}/root.crt"
"""
    listeners = ["pulsar", "pulsar-tls", "http-pulsar"]
    broker = Arneb(tmp_path_factory.mktemp("guarded"), listeners=listeners, settings=settings)
    broker.start()
    yield Guarded(broker, files)
    broker.stop()


def assert_works(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s", initial_position=EARLIEST)
    client.create_producer(topic).send(b"hello")
    assert drain(consumer) == [b"hello"]
    client.close()


def test_a_token_opens_the_door(guarded: Guarded) -> None:
    authentication = pulsar.AuthenticationToken(token())
    assert_works(guarded.connect(authentication=authentication), "by-token")
    assert_works(guarded.connect(tls=True, authentication=authentication), "by-token-and-tls")


def test_a_password_opens_the_door(guarded: Guarded) -> None:
    authentication = pulsar.AuthenticationBasic("me", "right")
    assert_works(guarded.connect(authentication=authentication), "by-password")


def test_a_certificate_opens_the_door(guarded: Guarded) -> None:
    files = guarded.files
    mine = pulsar.AuthenticationTLS(str(files / "me.crt"), str(files / "me.key"))
    assert_works(guarded.connect(tls=True, authentication=mine), "by-certificate")


@pytest.mark.parametrize(
    "authentication",
    [
        None,
        pulsar.AuthenticationToken(token(-10)),
        pulsar.AuthenticationToken(token(secret=bytes(32))),
        pulsar.AuthenticationToken("nonsense"),
        pulsar.AuthenticationBasic("me", "wrong"),
    ],
    ids=["nothing", "expired", "forged", "nonsense", "password"],
)
def test_nothing_else_does(guarded: Guarded, authentication: pulsar.Authentication | None) -> None:
    client = guarded.connect(authentication=authentication)
    # Clients keep on trying for a while with some of these.
    with pytest.raises((pulsar.AuthenticationError, pulsar.ConnectError, pulsar.Timeout)):
        client.create_producer("closed")
    client.close()


def test_a_token_that_expires_is_renewed_without_notice(guarded: Guarded) -> None:
    given: list[str] = []

    def supply() -> str:
        given.append(token(2))
        return given[-1]

    client = guarded.connect(authentication=pulsar.AuthenticationToken(supply))
    producer = client.create_producer("renewed")
    end = time.monotonic() + 5
    sent = 0
    while time.monotonic() < end:
        producer.send(b"x")
        sent += 1
    assert len(given) >= 2
    consumer = client.subscribe("renewed", "s", initial_position=EARLIEST)
    assert len(drain(consumer)) == sent
    client.close()


def test_administrators_need_a_proof_too(guarded: Guarded) -> None:
    url = f"{guarded.broker.admin_url}/admin/v2/namespaces/public"
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(url)
    asking = urllib.request.Request(url, headers={"Authorization": f"Bearer {token()}"})
    with urllib.request.urlopen(asking) as answer:
        assert "public/default" in json.load(answer)
