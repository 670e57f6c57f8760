"""Who the client is, and who its broker: tokens, passwords, certificates, OAuth 2, and TLS."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest
from conformance.brokers.certificates import make_certificate
from conformance.brokers.guarded import guarded_arneb, guarded_pulsar, make_files, token
from conformance.brokers.process import free_port
from tests.pulsar_client.web import web

from arneb_pulsar.client import ClientOptions, ConsumerOptions, InitialPosition, TlsOptions, connect
from arneb_pulsar.client.admin import administer
from arneb_pulsar.client.connection.authentication import (
    Authentication,
    BasicAuthentication,
    NoAuthentication,
    OAuth2Authentication,
    TlsAuthentication,
    TokenAuthentication,
)
from arneb_pulsar.client.errors import AdminError, AuthenticationFailed, ServiceNotReady, TlsFailed

pytestmark = pytest.mark.lean("the proofs are the same on both, and it waits for them to run out")

EARLY = ConsumerOptions(initial_position=InitialPosition.EARLIEST)
TOKEN_S = 3.0
"""How long a token is good that is to run out; it says so in whole seconds."""


@dataclass(frozen=True)
class Guarded:
    """A broker that asks who comes, and where its files are."""

    name: str
    url: str
    tls_url: str
    http_url: str
    https_url: str
    """Empty where the broker was not given one."""
    files: Path

    def tls(self, certificate: str = "") -> TlsOptions:
        own = [str(self.files / f"{certificate}.{end}") for end in ("crt", "key")]
        return TlsOptions(str(self.files / "root.crt"), *(own if certificate else ()))


@pytest.fixture(scope="session")
def guarded(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Guarded]:
    files = make_files(tmp_path_factory.mktemp("files"))
    place = tmp_path_factory.mktemp("guarded")
    if request.param == "arneb":
        arneb = guarded_arneb(place, files)
        urls = arneb.pulsar_url, arneb.pulsar_tls_url, arneb.admin_url, arneb.admin_tls_url
        yield Guarded("arneb", *urls, files)
        arneb.stop()
        return
    port = free_port()
    hosts = {"inside": "127.0.0.1", "outside": "localhost"}
    listeners = [f"{name}:pulsar://{host}:{port}" for name, host in hosts.items()]
    apache = guarded_pulsar(
        place,
        files,
        brokerServicePort=port,
        advertisedListeners=",".join(listeners),
        internalListenerName="inside",
    )
    url = f"pulsar://127.0.0.1:{port}"
    yield Guarded("pulsar", url, apache.pulsar_tls_url, apache.http_url, "", files)
    apache.stop()


async def assert_works(url: str, topic: str, **options: Any) -> None:
    """A message goes there and back."""
    async with connect(url, ClientOptions(**options)) as client:
        consumer = await client.subscribe(topic, "s", EARLY)
        producer = await client.create_producer(topic)
        sent = await producer.send(b"hello")
        message = await consumer.receive(10)
        assert (message.id, message.data) == (sent, b"hello")
        await consumer.acknowledge_stored(message)


async def test_a_token_is_let_in_whatever_it_comes_from(
    guarded: Guarded, topic: str, tmp_path: Path
) -> None:
    file = tmp_path / "token"
    file.write_text(token() + "\n")

    async def later() -> str:
        await anyio.sleep(0.01)
        return token()

    for source in (token(), file, token, later):
        by_token = TokenAuthentication(source)
        await assert_works(guarded.url, topic, authentication=by_token)
        assert token() not in repr(by_token)
    await assert_works(
        guarded.tls_url, topic, authentication=TokenAuthentication(token), tls=guarded.tls()
    )


async def test_a_password_is_let_in(guarded: Guarded, topic: str) -> None:
    by_password = BasicAuthentication("me", "right")
    await assert_works(guarded.url, topic, authentication=by_password)
    await assert_works(guarded.http_url, topic, authentication=by_password)
    assert "right" not in repr(by_password)


async def test_a_certificate_is_let_in(guarded: Guarded, topic: str) -> None:
    await assert_works(
        guarded.tls_url, topic, authentication=TlsAuthentication(), tls=guarded.tls("me")
    )


async def test_lookups_by_http_authenticate_too(guarded: Guarded, topic: str) -> None:
    by_token = TokenAuthentication(token)
    await assert_works(guarded.http_url, topic, authentication=by_token)
    if guarded.https_url:
        await assert_works(guarded.https_url, topic, authentication=by_token, tls=guarded.tls())
    with web() as other:
        other.redirect_to = guarded.http_url
        await assert_works(other.url, topic, authentication=by_token)
        assert any(path.startswith("/lookup/") for path in other.redirected)
        async with administer(other.url, by_token) as admin:
            assert topic in await admin.topics("public/default")
    async with administer(guarded.http_url) as admin:
        with pytest.raises(AdminError, match="401"):
            await admin.topics("public/default")


@pytest.mark.parametrize(
    "authentication",
    [NoAuthentication(), TokenAuthentication(lambda: token(-10))],
    ids=["nothing", "expired"],
)
async def test_nobody_else_is_let_in_and_all_learn_why_at_once(
    guarded: Guarded, topic: str, authentication: Authentication
) -> None:
    for url in (guarded.url, guarded.http_url):
        async with connect(url, ClientOptions(authentication=authentication)) as client:
            with anyio.fail_after(10), pytest.raises(AuthenticationFailed, match="127.0.0.1"):
                await client.create_producer(topic)


async def test_what_an_applications_own_credentials_raise_is_reported(
    guarded: Guarded, topic: str, tmp_path: Path
) -> None:
    def raising() -> str:
        raise LookupError("the vault is shut")

    for source, reason in ((raising, "vault is shut"), (tmp_path / "none", "No such file")):
        options = ClientOptions(authentication=TokenAuthentication(source))
        async with connect(guarded.url, options) as client:
            with anyio.fail_after(10), pytest.raises(AuthenticationFailed, match=reason):
                await client.create_producer(topic)


async def test_a_token_that_ends_is_renewed_without_notice(guarded: Guarded, topic: str) -> None:
    given: list[str] = []

    def supply() -> str:
        given.append(token(TOKEN_S))
        return given[-1]

    options = ClientOptions(authentication=TokenAuthentication(supply))
    async with connect(guarded.url, options) as client:
        producer = await client.create_producer(topic)
        began, sent = anyio.current_time(), 0
        while len(given) < 2 or anyio.current_time() < began + TOKEN_S + 0.5:
            await producer.send(b"x")
            sent += 1
            await anyio.sleep(0.05)
        assert producer.statistics().entries_resent == 0
        consumer = await client.subscribe(topic, "s", EARLY)
        assert [(await consumer.receive(10)).data for _ in range(sent)] == [b"x"] * sent


async def test_oauth_2_brings_tokens_of_an_issuer(
    guarded: Guarded, topic: str, tmp_path: Path
) -> None:
    file = tmp_path / "credentials.json"
    file.write_text(json.dumps({"client_id": "me", "client_secret": "hush"}))
    with web() as issuer:
        issuer.give = token
        by_issuer = OAuth2Authentication.from_key_file(file, issuer.url, "pulsar", "all")
        await assert_works(guarded.url, topic, authentication=by_issuer)
        await assert_works(guarded.http_url, topic, authentication=by_issuer)
        wanted = {
            "grant_type": "client_credentials",
            "client_id": "me",
            "client_secret": "hush",
            "audience": "pulsar",
            "scope": "all",
        }
        assert issuer.asked == [wanted]  # and kept until it is about to expire
        assert "hush" not in repr(by_issuer)
        issuer.status = 403
        refused = ClientOptions(authentication=OAuth2Authentication(issuer.url, "me", "other"))
        async with connect(guarded.url, refused) as client:
            with pytest.raises(AuthenticationFailed, match=f"'me' from {issuer.url}.*403"):
                await client.create_producer(topic)


async def test_the_broker_s_certificate_is_looked_at(
    guarded: Guarded, topic: str, tmp_path: Path
) -> None:
    """Who trusts another root, or looks for another name, does not come in, and is told at once."""
    make_certificate(tmp_path, "root")
    by_token = TokenAuthentication(token)
    other = str(tmp_path / "root.crt")
    by_name = guarded.tls_url.replace("127.0.0.1", "localhost")
    for url, tls in (
        (guarded.tls_url, TlsOptions(other)),
        (guarded.tls_url, TlsOptions()),
        (by_name, guarded.tls()),
    ):
        async with connect(url, ClientOptions(authentication=by_token, tls=tls)) as client:
            with anyio.fail_after(10), pytest.raises(TlsFailed, match="(?i)certificate"):
                await client.create_producer(topic)
    careless = TlsOptions(other, allow_insecure=True)
    await assert_works(guarded.tls_url, topic, authentication=by_token, tls=careless)
    trusting = TlsOptions(str(guarded.files / "root.crt"), verify_hostname=False)
    await assert_works(by_name, topic, authentication=by_token, tls=trusting)


async def test_large_messages_go_through_tls(guarded: Guarded, topic: str) -> None:
    large = bytes(range(256)) * (16 * 1024)
    options = ClientOptions(authentication=BasicAuthentication("me", "right"), tls=guarded.tls())
    async with connect(guarded.tls_url, options) as client:
        consumer = await client.subscribe(topic, "s", EARLY)
        await (await client.create_producer(topic)).send(large)
        assert (await consumer.receive(20)).data == large


async def test_a_listeners_name_is_sent_to_the_broker(guarded: Guarded, topic: str) -> None:
    by_token = TokenAuthentication(token)
    if guarded.name == "pulsar":
        await assert_works(guarded.url, topic, authentication=by_token, listener_name="outside")
    unknown = ClientOptions(
        authentication=by_token, listener_name="nowhere", operation_timeout_s=1.0
    )
    async with connect(guarded.url, unknown) as client:
        with pytest.raises(ServiceNotReady, match="nowhere"):
            await client.create_producer(topic)


@pytest.mark.parametrize(
    "authentication",
    [
        TokenAuthentication(token(secret=bytes(32))),
        TokenAuthentication("nonsense"),
        BasicAuthentication("me", "wrong"),
    ],
    ids=["forged", "nonsense", "password"],
)
async def test_a_guess_is_refused(
    guarded: Guarded, topic: str, authentication: Authentication
) -> None:
    async with connect(guarded.url, ClientOptions(authentication=authentication)) as client:
        with anyio.fail_after(20), pytest.raises(AuthenticationFailed):
            await client.create_producer(topic)
