"""Other servers and tokens identify users: asked as RabbitMQ asks, cached for a while, and nothing
is allowed when they do not answer."""

import json
import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

import jwt
import pika
import pytest
import trio
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st
from tests.broker.http.management.kit import managed

from arneb.http.access.guarded import PRINCIPAL, Guarded
from arneb.http.management.answering import Request, answer
from arneb.logins.backends import Backends
from arneb.logins.http_backend import HttpBackend
from arneb.logins.oauth import OAuthBackend
from arneb.logins.remembered import ANSWERS_MAX, Remembered
from arneb.logins.scopes import glob, parse_scopes
from arneb.logins.settings import HttpLoginTable, LoginTable, OAuthTable
from arneb_amqp.config import AmqpConfig
from arneb_amqp.server import serve_amqp
from arneb_core.access.authority import Authority
from arneb_core.access.principals import Credentials, Kind, LoginRefused, Question
from arneb_core.access.rights import Right
from arneb_core.access.tables import Tables
from arneb_core.engine.engine import open_engine
from arneb_pulsar.authentication.files import Proofs
from arneb_pulsar.services.clients.authenticator import Authenticator

QUEUE = Question(Right.READ, Kind.QUEUE, "q")
TOPIC = Question(Right.WRITE, Kind.TOPIC, "x", "k.1")
Fields = dict[str, str]


class Server:
    """An HTTP server whose answers the test sets."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, Fields]] = []
        self.answer: Callable[[str, Fields], tuple[int, str]] = lambda path, fields: (200, "allow")
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                parts = urlsplit(self.path)
                self.reply(parts.path, parts.query)

            def do_POST(self) -> None:
                size = int(self.headers["content-length"])
                self.reply(self.path, self.rfile.read(size).decode())

            def reply(self, path: str, query: str) -> None:
                fields = {name: values[0] for name, values in parse_qs(query).items()}
                outer.asked.append((self.command, path, fields))
                status, body = outer.answer(path, fields)
                self.send_response(status)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body.encode())

            def log_message(self, *_: object) -> None:
                """Nobody reads it."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = Thread(target=self._server.serve_forever)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.close()


def table(server: Server, **fields: Any) -> HttpLoginTable:
    urls = {
        f"{name}_url": f"{server.url}/{name}" for name in ("user", "vhost", "resource", "topic")
    }
    return HttpLoginTable(**urls | fields)


@pytest.mark.real_time
@pytest.mark.parametrize("post", [False, True])
async def test_the_server_is_asked_as_rabbitmq_asks_and_its_answers_are_remembered(
    server: Server, post: bool
) -> None:
    server.answer = lambda path, fields: (
        (200, " Allow management Monitoring\n") if path == "/user" else (201, "ALLOW")
    )
    backend = HttpBackend(table(server, post=post))
    principal = await backend.log_in(Credentials("u", "p"))
    assert principal.tags == {"management", "monitoring"}
    verdicts = principal.verdicts
    for _ in range(2):
        await backend.log_in(Credentials("u", "p"))
        assert await verdicts.admits("/", "10.0.0.1")
        for question in (QUEUE, TOPIC):
            if verdicts.may("/", question) is None:
                await verdicts.ask("/", question)
            assert verdicts.may("/", question) is True
    assert {method for method, _, _ in server.asked} == {"POST" if post else "GET"}
    tags = "management monitoring"
    assert [(path, fields) for _, path, fields in server.asked] == [
        ("/user", {"username": "u", "password": "p"}),
        ("/vhost", {"username": "u", "vhost": "/", "ip": "10.0.0.1", "tags": tags}),
        ("/resource", {"username": "u", "vhost": "/", "resource": "queue", "name": "q",
                       "permission": "read", "tags": tags}),
        ("/topic", {"username": "u", "vhost": "/", "resource": "topic", "name": "x",
                    "permission": "write", "tags": tags, "routing_key": "k.1",
                    "variable_map.username": "u", "variable_map.vhost": "/"}),
    ]  # fmt: skip
    await backend.close()


@pytest.mark.real_time
async def test_what_a_server_is_asked_is_in_no_log(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    backend = HttpBackend(table(server))
    await backend.log_in(Credentials("u", "unspeakable"))
    await backend.close()
    assert [fields["password"] for _, _, fields in server.asked] == ["unspeakable"]
    assert "unspeakable" not in caplog.text


@pytest.mark.real_time
@pytest.mark.parametrize(
    ("status", "body"), [(200, "deny"), (200, ""), (200, "yes"), (403, "allow"), (500, "allow")]
)
async def test_every_answer_but_allow_is_a_refusal(server: Server, status: int, body: str) -> None:
    server.answer = lambda path, fields: (status, body)
    backend = HttpBackend(table(server))
    with pytest.raises(LoginRefused, match="user 'u' - ") as refused:
        await backend.log_in(Credentials("u", "secret"))
    assert "secret" not in str(refused.value)
    server.answer = lambda path, fields: (200, "allow")
    verdicts = (await backend.log_in(Credentials("u", "secret"))).verdicts
    server.answer = lambda path, fields: (status, body)
    assert not await verdicts.admits("/", "a")
    await verdicts.ask("/", QUEUE)
    assert verdicts.may("/", QUEUE) is False
    await backend.close()


@pytest.mark.real_time
async def test_a_server_that_cannot_be_reached_admits_nobody(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    backend = HttpBackend(table(server))
    verdicts = (await backend.log_in(Credentials("u", "secret"))).verdicts
    await backend.close()
    settings = HttpLoginTable(resource_url="http://127.0.0.1:1/x", user_url="http://127.0.0.1:1/u")
    backend = verdicts._backend = HttpBackend(settings)  # type: ignore[attr-defined]
    with pytest.raises(LoginRefused, match="http://127.0.0.1:1/u did not answer: ConnectError"):
        await backend.log_in(Credentials("u", "secret"))
    await verdicts.ask("/", QUEUE)
    assert verdicts.may("/", QUEUE) is False
    assert "refusing user 'u' in vhost '/': http://127.0.0.1:1/x" in caplog.text
    assert "secret" not in caplog.text
    await backend.close()


def test_answers_are_forgotten_after_a_time_and_when_there_are_too_many() -> None:
    now = 0.0
    answers: Remembered[bool] = Remembered(10, lambda: now)
    answers.put("a", False)
    answers.put("b", True, 1)
    now = 9.9
    assert answers.get("a") is False
    assert answers.get("b") is None
    now = 10
    assert answers.get("a") is None
    for number in range(ANSWERS_MAX + 1):
        answers.put(number, True)
    assert answers.get(0) is None
    assert answers.get(ANSWERS_MAX)


# Tokens

PRIVATE = rsa.generate_private_key(65537, 2048)
OTHER = rsa.generate_private_key(65537, 2048)
NOW_S = 1_700_000_000.0


def token(key: rsa.RSAPrivateKey = PRIVATE, kid: str | None = "one", **claims: Any) -> str:
    whole = {"sub": "u", "aud": ["rabbitmq", "other"], "exp": NOW_S + 60,
             "scope": "rabbitmq.read:*/* rabbitmq.tag:monitoring"}  # fmt: skip
    whole |= claims
    headers = {} if kid is None else {"kid": kid}
    left = {name: value for name, value in whole.items() if value is not None}
    return jwt.encode(left, key, algorithm="RS256", headers=headers)


def published(**keys: rsa.RSAPrivateKey) -> str:
    listed = []
    for name, key in keys.items():
        document = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(key.public_key()))
        listed.append({**document, "kid": name, "use": "sig"})
    return json.dumps({"keys": listed})


@pytest.fixture
def pem(tmp_path: Path) -> Path:
    file = tmp_path / "key.pem"
    file.write_bytes(
        PRIVATE.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    )
    return file


def oauth(now: Callable[[], float] = lambda: NOW_S, **fields: Any) -> OAuthBackend:
    return OAuthBackend(OAuthTable(**fields), now)


async def test_a_token_admits_by_its_scopes_until_it_expires(pem: Path) -> None:
    now = [NOW_S]
    backend = oauth(lambda: now[0], public_key=pem)
    principal = await backend.log_in(Credentials("whoever", token()))
    assert (principal.name, principal.tags) == ("u", {"monitoring"})
    verdicts = principal.verdicts
    assert await verdicts.admits("/", "a")
    assert verdicts.may("/", QUEUE)
    assert not verdicts.may("/", TOPIC)
    now[0] += 60
    assert not verdicts.may("/", QUEUE)
    assert not await verdicts.admits("/", "a")
    await verdicts.renew("u", token(exp=now[0] + 60))
    assert verdicts.may("/", QUEUE)
    for wrong in (token(sub="v", exp=now[0] + 60), token(exp=now[0]), "rubbish"):
        with pytest.raises(LoginRefused):
            await verdicts.renew("u", wrong)
    assert verdicts.may("/", QUEUE)


@pytest.mark.parametrize(
    "wrong",
    [
        {"key": OTHER},
        {"aud": "other"},
        {"aud": None},
        {"exp": NOW_S},
        {"exp": "soon"},
        {"nbf": NOW_S + 1},
        {"iss": "else"},
        {"sub": None},
        {"sub": 7},
    ],
)
async def test_an_invalid_token_is_refused(pem: Path, wrong: dict[str, Any]) -> None:
    backend = oauth(public_key=pem, issuer="us")
    await backend.log_in(Credentials("", token(iss="us")))
    with pytest.raises(LoginRefused) as refused:
        await backend.log_in(Credentials("", token(**{"iss": "us"} | wrong)))
    assert "eyJ" not in str(refused.value)


async def test_the_algorithm_is_that_of_the_key_and_never_of_the_token(pem: Path) -> None:
    backend = oauth(public_key=pem)
    claims = {"sub": "u", "aud": "rabbitmq"}
    forged = jwt.encode(claims, b"x" * 64, algorithm="HS512")
    unsigned = jwt.encode(claims, None, algorithm="none")
    for each in (forged, unsigned, "", "a.b.c", "x" * 100_000):
        with pytest.raises(LoginRefused):
            await backend.log_in(Credentials("", each))
    with pytest.raises(LoginRefused):
        await backend.log_in(Credentials("u", None))


@pytest.mark.real_time
async def test_keys_are_fetched_once_and_again_for_a_new_one(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.answer = lambda path, fields: (200, published(one=PRIVATE))
    backend = oauth(jwks_url=f"{server.url}/jwks")
    for _ in range(3):
        await backend.log_in(Credentials("", token()))
    await backend.log_in(Credentials("", token(kid=None)))
    assert len(server.asked) == 1
    server.answer = lambda path, fields: (200, published(one=PRIVATE, two=OTHER))
    for _ in range(3):
        with pytest.raises(LoginRefused, match="no key 'two'"):
            await backend.log_in(Credentials("", token(OTHER, "two")))
    assert len(server.asked) == 1, "invented key names must not cause requests"
    monkeypatch.setattr("arneb.logins.keys.FETCHED_S_MIN", 0)
    await backend.log_in(Credentials("", token(OTHER, "two")))
    server.answer = lambda path, fields: (500, "")
    with pytest.raises(LoginRefused):
        await backend.log_in(Credentials("", token(kid="three")))
    await backend.log_in(Credentials("", token()))
    await backend.close()


@pytest.mark.parametrize(
    "body", ["", "[]", "{}", '{"keys": [1, {"kty": "oct", "k": "eA"}, {"kty": "RSA"}]}']
)
@pytest.mark.real_time
async def test_a_malformed_key_set_admits_nobody(server: Server, body: str) -> None:
    server.answer = lambda path, fields: (200, body)
    backend = oauth(jwks_url=server.url)
    with pytest.raises(LoginRefused, match="no key"):
        await backend.log_in(Credentials("", token()))
    await backend.close()


async def test_names_and_scopes_may_be_in_other_claims(pem: Path) -> None:
    backend = oauth(
        public_key=pem, username_claims=("preferred", "sub"), additional_scopes_key="roles",
        verify_audience=False,
    )  # fmt: skip
    text = token(preferred="p", aud=None, scope=["rabbitmq.write:*/x"], roles="rabbitmq.read:v/q")
    principal = await backend.log_in(Credentials("", text))
    assert principal.name == "p"
    assert principal.verdicts.may("v", QUEUE)
    assert principal.verdicts.may("v", TOPIC)
    assert not principal.verdicts.may("/", QUEUE)


@pytest.mark.parametrize(
    ("scope", "vhost", "question", "allowed"),
    [
        ("r.read:*/*", "/", QUEUE, True),
        ("r.read:%2F/q", "/", QUEUE, True),
        ("r.read:%2F/q", "x", QUEUE, False),
        ("r.read:%2F/q*", "/", QUEUE, True),
        ("r.read:%2F/*qq", "/", QUEUE, False),
        ("r.write:%2F/q", "/", QUEUE, False),
        ("r.read:/q", "/", QUEUE, False),
        ("r.read:%2F", "/", QUEUE, False),
        ("r.read:a/b/c/d", "a", QUEUE, False),
        ("other.read:*/*", "/", QUEUE, False),
        ("read:*/*", "/", QUEUE, False),
        ("xr.read:*/*", "/", QUEUE, False),
        ("r.write:*/x/k.*", "/", TOPIC, True),
        ("r.write:*/x/k%2E1", "/", TOPIC, True),
        ("r.write:*/x/kx1", "/", TOPIC, False),
        ("r.write:*/x", "/", TOPIC, True),
        ("r.write:*/y/*", "/", TOPIC, False),
        ("r.own:*/*", "/", QUEUE, False),
        (f"r.read:*/{'q' * 2000}", "/", QUEUE, False),
    ],
)
def test_scopes_mean_what_they_mean_to_rabbitmq(
    scope: str, vhost: str, question: Question, allowed: bool
) -> None:
    assert parse_scopes([scope], "r").allows(vhost, question) is allowed


@given(st.text(max_size=20), st.text(max_size=20))
def test_a_star_matches_anything_and_nothing_else_is_special(one: str, other: str) -> None:
    quoted = one.replace("%", "%25").replace("*", "%2A")
    assert glob(quoted)(one)
    assert glob(quoted)(other) is (one == other)
    assert glob(f"{quoted}*")(one + other)


def test_incomplete_settings_say_what_is_missing() -> None:
    with pytest.raises(ValueError, match="jwks_url or oauth.public_key"):
        LoginTable(("oauth",))
    for backends in ((), ("ldap",)):
        with pytest.raises(ValueError, match="expected backends of internal, http, oauth"):
            LoginTable(backends)
    with pytest.raises(ValueError, match="user_url"):
        HttpLoginTable(user_url="ftp://x")


@pytest.mark.real_time
async def test_over_http_a_token_is_enough_by_itself(pem: Path, tmp_path: Path) -> None:
    """The management API and what is served beside it, as in RabbitMQ."""
    backend = oauth(public_key=pem)
    authority = Authority([backend], lambda _: False)
    monitor = token(kid=None)
    async with managed(tmp_path / "data") as call:
        site = replace(call.site, authority=authority)

        async def asked(proof: str) -> tuple[int, Any]:
            request = Request("GET", "/api/whoami", headers={"authorization": proof})
            reply = await answer(site, request)
            return reply.status, reply.body

        status, who = await asked(f"Bearer {monitor}")
        assert (status, who["name"], list(who["tags"])) == (200, "u", ["monitoring"])
        for wrong in (f"Bearer {monitor}x", "Bearer", "Bearer x"):
            assert (await asked(wrong))[0] == 401
        seen = []

        async def app(scope: Any, receive: Any, send: Any) -> None:
            seen.append(scope[PRINCIPAL].name)

        guarded = Guarded(app, Authenticator(Proofs()), (), authority)
        answered: list[Any] = []

        async def send(message: Any) -> None:
            answered.append(message)

        for proof in (monitor, "x"):
            headers = [(b"authorization", f"bearer {proof}".encode())]
            scope = {"type": "http", "path": "/metrics", "headers": headers, "client": None}
            await guarded(scope, send, send)
        assert (seen, answered[0]["status"]) == (["u"], 401)


def test_amqp_clients_can_use_both(server: Server, pem: Path, tmp_path: Path) -> None:
    """One client is known by the server, one by a token; what they have no right to is refused over
    AMQP."""

    def answer(path: str, fields: Fields) -> tuple[int, str]:
        if path == "/user":
            return 200, "allow" if fields["password"] == "p" else "deny"
        return 200, "deny" if fields.get("name") == "secret" else "allow"

    server.answer = answer
    logins = LoginTable(("http", "oauth"), table(server), OAuthTable(public_key=pem))

    def clients(port: int) -> None:
        def connect(user: str, password: str) -> Any:
            return pika.BlockingConnection(
                pika.ConnectionParameters(
                    "127.0.0.1", port, credentials=pika.PlainCredentials(user, password)
                )
            )

        by_http = connect("u", "p")
        channel = by_http.channel()
        channel.queue_declare("open")
        for _ in range(3):
            channel.basic_publish("", "open", b"x")
        assert channel.basic_get("open", auto_ack=True)[2] == b"x"
        with pytest.raises(
            pika.exceptions.ChannelClosedByBroker, match="configure access to queue"
        ):
            channel.queue_declare("secret")
        with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="read access to queue"):
            by_http.channel().basic_get("secret")
        by_http.close()
        by_token = connect("", token(kid=None, exp=time.time() + 60))
        channel = by_token.channel()
        assert channel.basic_get("open", auto_ack=True)[2] == b"x"
        with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="refused for user 'u'"):
            channel.queue_declare("new")
        by_token.update_secret(token(kid=None, exp=time.time() + 90), "longer")
        by_token.channel()
        by_token.close()
        with pytest.raises(pika.exceptions.ProbableAuthenticationError):
            connect("u", "wrong")

    async def main() -> None:
        backends = Backends(logins, Tables(), time.time)
        authority = Authority(backends.in_order, lambda _: False)
        async with open_engine(tmp_path / "data") as core, trio.open_nursery() as nursery:
            listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")

            async def serve(task_status: trio.TaskStatus[None]) -> None:
                await serve_amqp(
                    core, listeners, config=AmqpConfig(), authority=authority,
                    task_status=task_status,
                )  # fmt: skip

            await nursery.start(serve)
            port = listeners[0].socket.getsockname()[1]
            await trio.to_thread.run_sync(clients, port)
            nursery.cancel_scope.cancel()
        for listener in listeners:
            await listener.aclose()
        await backends.close()

    trio.run(main)
