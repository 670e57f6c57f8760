"""Logins by certificate and by token, with clients in three languages, on both brokers side by
side.

The rule: a program obeys one command per line and prints the result, which must be the same for
both brokers. A command is words separated by tabs: ``external`` (host, port, authority,
certificate, key, and the last two packed in one file), ``plain`` (host, port, user, password),
``publish`` (user id, queue), ``renew`` (secret), ``close``.
"""

import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

import jwt
import pytest
from conformance.brokers.arneb import Arneb
from conformance.brokers.certificates import make_certificate
from conformance.brokers.process import Address
from conformance.brokers.rabbitmq import RabbitMQ
from conformance.management.client import Client
from conformance.toolbox import BUILD_WITHIN_S, finished, made_once, own_environment, tool
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

HERE: Final = Path(__file__).parent / "logins"

LOGINS_FROM: Final = {
    "distinguished_name": "CN=known,O=us",
    "common_name": "known",
    "subject_alternative_name": "known.example",
}
"""Which part of a certificate can be the user name, and what that name is in the known
certificate."""

TLS_FIELDS: Final = (
    "user", "auth_mechanism", "ssl", "ssl_protocol", "ssl_key_exchange", "ssl_cipher", "ssl_hash",
    "peer_cert_subject", "peer_cert_issuer", "peer_cert_validity",
)  # fmt: skip

SHOWN_WITHIN_S: Final = 30.0
FIRST_TOKEN_S: Final = 10.0
SECOND_TOKEN_S: Final = 22.0
LONG_S: Final = 600.0
SLACK_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class Place:
    """One broker."""

    amqp: Address
    amqps: Address
    http: Address


class Program:
    """A client program, controlled by commands."""

    def __init__(self, command: Sequence[str]) -> None:
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env=own_environment(), start_new_session=True,
        )  # fmt: skip

    def __repr__(self) -> str:
        return f"<Program {self._process.args!r}>"

    def say(self, *words: object) -> None:
        """Send it a command."""
        assert self._process.stdin is not None
        self._process.stdin.write("\t".join(map(str, words)) + "\n")
        self._process.stdin.flush()

    def heard(self) -> str:
        """The result of the last command, without the missing right, which 3.13 names and 3.10 does
        not."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline().rstrip("\n")
        assert line, f"{self!r} has ended"
        line = re.sub(r"\b(configure|read|write) access to", "access to", line)
        # RabbitMQ tells even strangers which backend refused them, and why.
        line = re.sub(
            r", backend rabbit_auth_backend_oauth2 returned an error: .*validated at "
            r"\d+\)\"?",
            "",
            line,
        )
        return line.rstrip('"\\')

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Close its input, so that it ends."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(30)
        finally:
            self._process.kill()
            self._process.stdout.close()


def go() -> list[str]:
    """The Go program."""
    compiler, place = tool("go", "golang-go"), HERE / "go"

    def make(into: Path) -> None:
        finished([compiler, "build", "-o", str(into / "logins"), "."], place, BUILD_WITHIN_S)

    return [str(made_once("logins-go", place.iterdir(), make) / "logins")]


def java() -> list[str]:
    """The Java program."""
    started, maven, place = (
        tool("java", "default-jdk-headless"),
        tool("mvn", "maven"),
        HERE / "java",
    )
    source = place / "src/main/java/Logins.java"

    def make(into: Path) -> None:
        (into / "src/main/java").mkdir(parents=True)
        (into / "src/main/java/Logins.java").write_bytes(source.read_bytes())
        (into / "pom.xml").write_bytes((place / "pom.xml").read_bytes())
        finished([maven, "--quiet", "--batch-mode", "package"], into, BUILD_WITHIN_S)

    target = made_once("logins-java", [source, place / "pom.xml"], make) / "target"
    return [started, "-cp", f"{target}/classes:{target}/dependency/*", "Logins"]


def with_pika() -> list[str]:
    """The Python program."""
    return [sys.executable, str(HERE / "pika/logins.py")]


CLIENTS: Final = {"pika": with_pika, "go": go, "java": java}


@dataclass(frozen=True, slots=True)
class Secrets:
    """Certificates in a directory, and the key that signs tokens."""

    directory: Path
    key: rsa.RSAPrivateKey

    def token(self, ends_s: float, scopes: str, **claims: object) -> str:
        """A token that expires at that time."""
        claims_made = {
            "sub": "app",
            "aud": ["rabbitmq"],
            "exp": int(ends_s),
            "scope": scopes,
            **claims,
        }
        return jwt.encode(claims_made, self.key, "RS256", headers={"kid": "one"})


@pytest.fixture(scope="module")
def secrets(tmp_path_factory: pytest.TempPathFactory) -> Secrets:
    directory = tmp_path_factory.mktemp("secrets")
    root = make_certificate(directory, "root")
    make_certificate(directory, "server", root)
    for name in ("known", "unknown"):
        make_certificate(directory, name, root, organization="us", dns=[f"{name}.example"])
    key = rsa.generate_private_key(65537, 2048)
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    public = key.public_key().public_bytes(serialization.Encoding.PEM, form)
    (directory / "tokens.pem").write_bytes(public)
    return Secrets(directory, key)


@pytest.fixture(scope="module")
def rabbitmq(
    tmp_path_factory: pytest.TempPathFactory, secrets: Secrets
) -> Iterator[tuple[RabbitMQ, Place]]:
    if not RabbitMQ.installed():
        pytest.skip("expected Debian's rabbitmq-server")
    settings = f"""\
ssl_options.verify = verify_peer
ssl_options.fail_if_no_peer_cert = false
auth_mechanisms.1 = PLAIN
auth_mechanisms.2 = AMQPLAIN
auth_mechanisms.3 = EXTERNAL
auth_backends.1 = internal
auth_backends.2 = rabbit_auth_backend_oauth2
auth_oauth2.resource_server_id = rabbitmq
auth_oauth2.default_key = one
auth_oauth2.signing_keys.one = {secrets.directory}/tokens.pem
"""
    node = RabbitMQ(
        tmp_path_factory.mktemp("rabbitmq"), secrets.directory, management=True,
        plugins=("rabbitmq_auth_mechanism_ssl", "rabbitmq_auth_backend_oauth2"), settings=settings,
    )  # fmt: skip
    node.start()
    assert node.management_address is not None
    place = Place(node.address, node.amqps_address, node.management_address)
    set_up(place)
    yield node, place
    node.stop()


def arneb(directory: Path, secrets: Secrets, login_from: str) -> Arneb:
    """An Arneb that takes the user name from that part of a certificate, and accepts tokens."""
    settings = f"""
[amqp]
external_login = true
certificate_login = "{login_from}"

[amqp.tls]
listen = "127.0.0.1:0"
certificate = "{secrets.directory}/server.crt"
key = "{secrets.directory}/server.key"
client_ca = "{secrets.directory}/root.crt"

[logins]
backends = ["internal", "oauth"]

[logins.oauth]
public_key = "{secrets.directory}/tokens.pem"
"""
    return Arneb(directory, listeners=["amqp", "amqp-tls", "http"], settings=settings)


def set_up(place: Place) -> None:
    """Create a user without a password for each name that the known certificate may yield."""
    api = Client(place.http)
    for user in LOGINS_FROM.values():
        assert api.call("PUT", f"users/{user}", {"tags": ""}).status in (201, 204)
        rights = dict.fromkeys(("configure", "write", "read"), ".*")
        assert api.call("PUT", f"permissions/%2F/{user}", rights).status in (201, 204)


def shown(place: Place, user: str) -> Mapping[str, Any]:
    """The TLS fields of the user's connection, as the management API shows them."""
    end = time.monotonic() + SHOWN_WITHIN_S
    while time.monotonic() < end:
        for each in Client(place.http).call("GET", "connections").json:
            if each.get("user") == user:
                found = {name: each.get(name) for name in TLS_FIELDS}
                # Which cipher of a family is chosen depends on the TLS libraries' preferences.
                found["ssl_cipher"] = re.sub("aes_(128|256)_", "aes_", found["ssl_cipher"])
                return found
        time.sleep(0.3)
    raise AssertionError(f"expected a connection of {user}")


def by_certificate(
    program: Program, place: Place, files: Path, certificate: str, name: str
) -> list[Any]:
    """The results of a login by certificate, and of publishing messages with user ids."""
    crt, key, packed = (f"{files}/{certificate}.{each}" for each in ("crt", "key", "p12"))
    if certificate == "-":
        crt = key = packed = "-"
    observed: list[Any] = []
    address = place.amqps
    program.say("external", address.host, address.port, f"{files}/root.crt", crt, key, packed)
    observed.append(program.heard())
    if observed == ["in"]:
        for user in (name, "somebody else"):
            program.say("publish", user, "logins")
            observed.append(program.heard())
        observed.append(shown(place, name))
        program.say("close")
        observed.append(program.heard())
    return observed


@pytest.mark.parametrize("login_from", LOGINS_FROM)
def test_a_certificate_identifies_a_client(
    rabbitmq: tuple[RabbitMQ, Place], secrets: Secrets, tmp_path: Path, login_from: str
) -> None:
    node, theirs = rabbitmq
    name, files = LOGINS_FROM[login_from], secrets.directory
    node.control("eval", f"application:set_env(rabbit, ssl_cert_login_from, {login_from}).")
    with_arneb = arneb(tmp_path, secrets, login_from).start()
    ours = Place(with_arneb.address, with_arneb.amqps_address, with_arneb.http_address)
    try:
        set_up(ours)
        for client, command in CLIENTS.items():
            with Program(command()) as program:
                for certificate in ("known", "unknown", "-"):
                    got, wanted = (
                        by_certificate(program, place, files, certificate, name)
                        for place in (ours, theirs)
                    )
                    assert got == wanted, (client, certificate)
                    assert (got[:2] == ["in", "confirmed"]) == (certificate == "known"), got
                    if certificate == "known":
                        assert "user_id property set to 'somebody else'" in got[2]
                        assert got[3]["ssl_protocol"] == "tlsv1.3"
                        assert got[3]["peer_cert_subject"] == "CN=known,O=us"
    finally:
        with_arneb.stop()


EVERYTHING: Final = "rabbitmq.configure:*/* rabbitmq.write:*/* rabbitmq.read:*/*"


@pytest.mark.parametrize("client", CLIENTS)
def test_a_token_is_a_password_for_as_long_as_it_counts(
    rabbitmq: tuple[RabbitMQ, Place], secrets: Secrets, tmp_path: Path, client: str
) -> None:
    _, theirs = rabbitmq
    with_arneb = arneb(tmp_path, secrets, "common_name").start()
    ours = Place(with_arneb.address, with_arneb.amqps_address, with_arneb.http_address)
    programs = [Program(CLIENTS[client]()) for _ in range(2)]
    begun = ExitStack()
    for each in programs:
        begun.enter_context(each)

    def both(*words: object, by_place: bool = False) -> str:
        for program, place in zip(programs, (ours, theirs), strict=True):
            address = (place.amqp.host, place.amqp.port) if by_place else ()
            program.say(words[0], *address, *words[1:])
        got, wanted = (program.heard() for program in programs)
        assert got == wanted, words[0]
        return got

    def wait_until(at_s: float) -> None:
        time.sleep(max(0.0, at_s + SLACK_S - time.time()))

    try:
        assert both("close") == "closed", "they have started"
        later_s = time.time() + LONG_S
        expired = secrets.token(time.time() - 60, EVERYTHING)
        for refused in (
            expired,
            secrets.token(later_s, EVERYTHING, aud="others"),
            secrets.token(later_s, EVERYTHING)[:-8] + "AAAAAAAA",
            "no token",
        ):
            assert both("plain", "x", refused, by_place=True) != "in"
        reader = secrets.token(later_s, "rabbitmq.read:*/* rabbitmq.configure:*/*")
        assert both("plain", "x", reader, by_place=True) == "in"
        assert "ACCESS_REFUSED" in both("publish", "app", "tokens")
        both("close")
        elsewhere = secrets.token(later_s, "rabbitmq.read:elsewhere/*")
        assert both("plain", "x", elsewhere, by_place=True) != "in"
        first_s, second_s = time.time() + FIRST_TOKEN_S, time.time() + SECOND_TOKEN_S
        first = secrets.token(first_s, EVERYTHING)
        assert both("plain", "x", first, by_place=True) == "in"
        assert both("publish", "app", "tokens") == "confirmed"
        assert both("renew", secrets.token(second_s, EVERYTHING)) == "renewed"
        assert time.time() < first_s, "the machine was too slow for the first token"
        wait_until(first_s)
        assert both("publish", "app", "tokens") == "confirmed", "for the second token counts"
        wait_until(second_s)
        assert both("publish", "app", "tokens") != "confirmed"
        both("close")
        latest = secrets.token(time.time() + 60, EVERYTHING)
        assert both("plain", "x", latest, by_place=True) == "in"
        assert both("renew", "no token") != "renewed"
    finally:
        begun.close()
        with_arneb.stop()
