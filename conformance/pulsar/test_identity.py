"""Client authentication by tokens, passwords and certificates; and TLS."""

import base64
import json
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pulsar
import pytest
from conformance.brokers.arneb import Arneb
from conformance.brokers.certificates import make_certificate
from conformance.brokers.guarded import guarded_arneb, guarded_pulsar, make_files, token
from conformance.brokers.pulsar_standalone import PulsarStandalone
from conformance.pulsar.helpers import WITHIN_MS, assert_gets, take
from conformance.wire.protobuf import data_of, decode, integer
from conformance.wire.pulsar import Command, connect_frame

TOKEN_S = 4.0
"""The lifetime of a token that is to expire during a test. Tokens expire at whole seconds, and on a
busy machine the first connection takes a second."""

ATTEMPTS = 12

AUTHENTICATION_ERROR = 3
"""``ServerError.AuthenticationError``."""

EARLIEST = pulsar.InitialPosition.Earliest
QUIET = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)


@dataclass(frozen=True)
class Guarded:
    """A broker that requires authentication, and the directory with its files."""

    pulsar: str
    pulsar_tls: str
    admin: str
    files: Path

    def connect(self, *, tls: bool = False, **options: Any) -> pulsar.Client:
        if tls:
            trusted = {"tls_trust_certs_file_path": str(self.files / "root.crt")}
            options = trusted | options
        url = self.pulsar_tls if tls else self.pulsar
        return pulsar.Client(url, **{"operation_timeout_seconds": 5, "logger": QUIET} | options)


@pytest.fixture(scope="session")
def guarded(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Guarded]:
    files = make_files(tmp_path_factory.mktemp("files"))
    place = tmp_path_factory.mktemp("guarded")
    broker: Arneb | PulsarStandalone
    if request.param == "pulsar":
        broker = guarded_pulsar(place, files)
        admin = broker.http_url
    else:
        broker = guarded_arneb(place, files)
        admin = broker.admin_url
    yield Guarded(broker.pulsar_url, broker.pulsar_tls_url, admin, files)
    broker.stop()


def answer_to_connect(url: str) -> list[bytes]:
    """The frames that the broker sends before it closes the connection of a client without
    credentials."""
    host, _, port = url.removeprefix("pulsar://").rpartition(":")
    data = b""
    with socket.create_connection((host, int(port)), WITHIN_MS / 1000) as connection:
        connection.sendall(connect_frame())
        while piece := connection.recv(65536):
            data += piece
    frames = []
    while data:
        size = 4 + int.from_bytes(data[:4], "big")
        frames.append(data[:size])
        data = data[size:]
    return frames


def assert_works(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s", initial_position=EARLIEST)
    client.create_producer(topic).send(b"hello")
    assert_gets(consumer, [b"hello"])
    client.close()


def test_a_token_is_let_in(guarded: Guarded) -> None:
    authentication = pulsar.AuthenticationToken(token())
    assert_works(guarded.connect(authentication=authentication), "by-token")
    assert_works(guarded.connect(tls=True, authentication=authentication), "by-token-and-tls")


def test_a_password_is_let_in(guarded: Guarded) -> None:
    authentication = pulsar.AuthenticationBasic("me", "right")
    assert_works(guarded.connect(authentication=authentication), "by-password")


def test_a_certificate_is_let_in(guarded: Guarded) -> None:
    files = guarded.files
    mine = pulsar.AuthenticationTLS(str(files / "me.crt"), str(files / "me.key"))
    assert_works(guarded.connect(tls=True, authentication=mine), "by-certificate")


def test_a_certificate_may_be_the_clients_and_not_its_proofs(guarded: Guarded) -> None:
    files = guarded.files
    client = guarded.connect(
        tls=True,
        tls_certificate_file_path=str(files / "me.crt"),
        tls_private_key_file_path=str(files / "me.key"),
        authentication=pulsar.AuthenticationToken(token()),
    )
    assert_works(client, "by-both")


def test_the_brokers_certificate_is_looked_at(guarded: Guarded, tmp_path: Path) -> None:
    """Clients that trust another root, or expect another name, do not connect."""
    options = {"authentication": pulsar.AuthenticationToken(token())}
    assert_works(guarded.connect(tls=True, tls_validate_hostname=True, **options), "by-name")
    make_certificate(tmp_path, "root")
    other_root = {"tls_trust_certs_file_path": str(tmp_path / "root.crt")}
    other_name = guarded.pulsar_tls.replace("127.0.0.1", "localhost")
    for client in (
        guarded.connect(tls=True, **options, **other_root),
        pulsar.Client(
            other_name,
            operation_timeout_seconds=5,
            logger=QUIET,
            tls_validate_hostname=True,
            tls_trust_certs_file_path=str(guarded.files / "root.crt"),
            **options,
        ),
    ):
        with pytest.raises((pulsar.ConnectError, pulsar.Timeout)):
            client.create_producer("closed")
        client.close()
    careless = guarded.connect(
        tls=True, tls_allow_insecure_connection=True, **options, **other_root
    )
    assert_works(careless, "by-carelessness")


def test_large_messages_go_through_tls(guarded: Guarded) -> None:
    client = guarded.connect(tls=True, authentication=pulsar.AuthenticationBasic("me", "right"))
    consumer = client.subscribe("large-by-tls", "s")
    producer = client.create_producer("large-by-tls", chunking_enabled=True)
    large = bytes(range(256)) * (48 * 1024)
    producer.send(large)
    assert consumer.receive(WITHIN_MS).data() == large
    client.close()


def test_a_provider_brings_its_proof(guarded: Guarded) -> None:
    info = pulsar.ServiceInfo(
        guarded.pulsar_tls, pulsar.AuthenticationToken(token()), str(guarded.files / "root.crt")
    )
    nowhere = pulsar.ServiceInfo("pulsar://127.0.0.1:1")
    choice = pulsar.AutoClusterFailover(info, [nowhere])
    client = pulsar.Client(choice, operation_timeout_seconds=5, logger=QUIET)
    assert client.get_service_info().use_tls
    assert_works(client, "by-provider")


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
    # With some of these, clients keep retrying for a while.
    with pytest.raises((pulsar.AuthenticationError, pulsar.ConnectError, pulsar.Timeout)):
        client.create_producer("closed")
    client.close()


def test_a_client_without_credentials_is_refused_at_once(guarded: Guarded) -> None:
    """Every attempt is answered at once. The C++ client retries until its timeout, with either
    broker, because it does not treat this error as final."""
    began = time.monotonic()
    for _ in range(ATTEMPTS):
        (frame,) = answer_to_connect(guarded.pulsar)  # and then the connection is closed
        base = decode(frame[8:])
        assert integer(base, 1) == Command.ERROR
        assert integer(decode(data_of(base, Command.ERROR)), 2) == AUTHENTICATION_ERROR
    assert time.monotonic() - began < ATTEMPTS


@pytest.mark.parametrize(
    ("method", "expected"), [("", 200), ("basic", 200), ("token", 401), ("unheard-of", 401)]
)
def test_a_lookup_over_http_names_its_authentication_method(
    guarded: Guarded, method: str, expected: int
) -> None:
    proof = base64.b64encode(b"me:right").decode()
    headers = {"Authorization": f"Basic {proof}"} | (
        {"X-Pulsar-Auth-Method-Name": method} if method else {}
    )
    url = f"{guarded.admin}/lookup/v2/topic/persistent/public/default/looked-up"
    asking = urllib.request.Request(url, headers=headers)
    try:
        with urllib.request.urlopen(asking) as answer:
            status = answer.status
    except urllib.error.HTTPError as error:
        status = error.code
    assert status == expected


def test_a_token_that_expires_is_renewed_without_notice(guarded: Guarded) -> None:
    given: list[str] = []

    def supply() -> str:
        given.append(token(TOKEN_S))
        return given[-1]

    client = guarded.connect(authentication=pulsar.AuthenticationToken(supply))
    producer = client.create_producer("renewed")
    began = time.monotonic()
    sent = 0
    while len(given) < 2 or time.monotonic() - began < TOKEN_S + 2:
        assert time.monotonic() - began < WITHIN_MS / 1000, "nobody asked for another token"
        producer.send(b"x")
        sent += 1
    consumer = client.subscribe("renewed", "s", initial_position=EARLIEST)
    take(consumer, sent)
    client.close()


def test_administrators_need_a_proof_too(guarded: Guarded) -> None:
    url = f"{guarded.admin}/admin/v2/namespaces/public"
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(url)
    asking = urllib.request.Request(url, headers={"Authorization": f"Bearer {token()}"})
    with urllib.request.urlopen(asking) as answer:
        assert "public/default" in json.load(answer)
