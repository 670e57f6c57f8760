"""Forged tokens, and servers that answer late, too much or rubbish: they admit nobody, cause
nothing but a refusal, and delay nobody else."""

import gzip
import json
import logging
from base64 import urlsafe_b64encode
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from hmac import digest
from typing import Any

import jwt
import pytest
import trio
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from arneb.logins.fetching import REQUESTS_AT_ONCE, Fetcher, Unanswered
from arneb.logins.http_backend import HttpBackend
from arneb.logins.keys import FETCHED_S_MIN, PATIENCE_S
from arneb.logins.oauth import OAuthBackend
from arneb.logins.settings import HttpLoginTable, OAuthTable
from arneb_core.access.principals import Credentials, LoginRefused

PRIVATE = rsa.generate_private_key(65537, 2048)
NOW_S = 1_700_000_000.0
CLAIMS = {"sub": "u", "aud": "rabbitmq", "scope": "rabbitmq.read:*/*", "exp": NOW_S + 60}
URL = "http://keys.test/jwks"


def part(data: bytes | Any) -> str:
    raw = data if isinstance(data, bytes) else json.dumps(data).encode()
    return urlsafe_b64encode(raw).rstrip(b"=").decode()


def signed(claims: bytes | dict[str, Any], header: bytes | dict[str, Any] | None = None) -> str:
    """A token of ours, with any content."""
    if header is None:
        header = {"alg": "RS256", "typ": "JWT", "kid": "one"}
    signed_part = f"{part(header)}.{part(claims)}"
    signature = jwt.algorithms.RSAAlgorithm(jwt.algorithms.RSAAlgorithm.SHA256).sign(
        signed_part.encode(), PRIVATE
    )
    return f"{signed_part}.{part(signature)}"


def published() -> bytes:
    document = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(PRIVATE.public_key()))
    return json.dumps({"keys": [{**document, "kid": "one"}]}).encode()


class Answers:
    """Replaces the client that asks servers."""

    def __init__(self, answer: Callable[[], bytes] = published) -> None:
        self.asked: list[str] = []
        self.answer = answer
        self.late_s = 0.0

    async def fetch(self, url: str, fields: Any = None, *, post: bool = False) -> bytes:
        self.asked.append(url)
        with trio.move_on_after(self.late_s):
            await trio.sleep_forever()
        return self.answer()

    async def close(self) -> None:
        """There is nothing to close."""


def backend(answers: Answers, **settings: Any) -> OAuthBackend:
    made = OAuthBackend(OAuthTable(jwks_url=URL, **settings), lambda: NOW_S)
    made._keys._fetcher = answers  # type: ignore[assignment]
    return made


def later(seconds: float) -> None:
    """Let so much time pass."""
    clock = trio.lowlevel.current_clock()
    assert isinstance(clock, trio.testing.MockClock)
    clock.jump(seconds)


async def refused(asked: OAuthBackend, token: str) -> str:
    with pytest.raises(LoginRefused) as error:
        await asked.log_in(Credentials("u", token))
    text = str(error.value)
    assert len(text) < 400
    assert "\n" not in text
    return text


def by_public_key() -> str:
    """Signed with the public key, as if it were a secret."""
    pem = PRIVATE.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    signed_part = f"{part({'alg': 'HS256', 'kid': 'one'})}.{part(CLAIMS)}"
    return f"{signed_part}.{part(digest(pem, signed_part.encode(), sha256))}"


FOREIGN = rsa.generate_private_key(65537, 2048)

MADE_UP = {
    "unsigned": f"{part({'alg': 'none', 'kid': 'one'})}.{part(CLAIMS)}.",
    "unsigned, in other letters": f"{part({'alg': 'nOnE', 'kid': 'one'})}.{part(CLAIMS)}.",
    "signed by the public key": by_public_key(),
    "signed by somebody else": jwt.encode(CLAIMS, FOREIGN, "RS256", headers={"kid": "one"}),
    "its key elsewhere": jwt.encode(
        CLAIMS, FOREIGN, "RS256",
        headers={"kid": "http://evil.test/k", "jku": "http://evil.test/jwks", "x5u": "http://evil.test"},
    ),
    "its key in it": jwt.encode(
        CLAIMS, FOREIGN, "RS256",
        headers={
            "kid": "one",
            "jwk": json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(FOREIGN.public_key())),
        },
    ),
    "a key that is a path": jwt.encode(CLAIMS, FOREIGN, "RS256", headers={"kid": "../../dev/null"}),
    "a key that is a list": signed(CLAIMS, {"alg": "RS256", "kid": ["one"]}),
    "a header without end": signed(CLAIMS, b'{"alg":"RS256","kid":"one","x":' + b"[" * 40_000),
    "claims without end": signed(b"[" * 40_000),
    "a header that is no object": signed(CLAIMS, b"[1]"),
    "a header that is no JSON": signed(CLAIMS, b"\xff\xfe"),
    "claims that are no object": signed(b"7"),
    "more than anybody needs": signed({**CLAIMS, "x": "y" * 100_000}),
    "expired": signed({**CLAIMS, "exp": NOW_S - 1}),
    "not yet": signed({**CLAIMS, "nbf": NOW_S + 1000}),
    "an end that is no number": signed(json.dumps({**CLAIMS, "exp": float("nan")}).encode()),
    "an end beyond all": signed(
        json.dumps(CLAIMS).replace(str(NOW_S + 60), "1" + "0" * 400).encode()
    ),
    "a beginning before all": signed(json.dumps({**CLAIMS, "nbf": float("-inf")}).encode()),
    "a name that is half a character": signed({**CLAIMS, "sub": "\ud800"}),
    "for somebody else": signed({**CLAIMS, "aud": "other"}),
    "critical": signed(CLAIMS, {"alg": "RS256", "kid": "one", "crit": ["exp", "x"], "x": 1}),
    "empty": "",
    "dots": ".....",
}  # fmt: skip


@pytest.mark.parametrize("kind", MADE_UP)
async def test_a_forged_token_is_refused_and_nobody_else_is_asked(kind: str) -> None:
    answers = Answers()
    asked = backend(answers)
    await refused(asked, MADE_UP[kind])
    assert set(answers.asked) <= {URL}
    assert (await asked.log_in(Credentials("", signed(CLAIMS)))).name == "u"


async def test_a_library_that_fails_on_endless_brackets_refuses_the_token(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """PyJWT now reports this itself; older supported versions let the error through."""

    def give_up(token: str) -> None:
        raise RecursionError

    monkeypatch.setattr(jwt, "get_unverified_header", give_up)
    assert "nested too deeply" in await refused(backend(Answers()), signed(CLAIMS))


async def test_invented_key_names_delay_nobody_and_cause_no_requests() -> None:
    answers = Answers()
    asked = backend(answers)
    await asked.log_in(Credentials("", signed(CLAIMS)))
    answers.late_s = 9.0
    later(FETCHED_S_MIN)
    async with trio.open_nursery() as nursery:
        for number in range(200):
            made_up = signed(CLAIMS, {"alg": "RS256", "kid": f"k{number}"})
            nursery.start_soon(refused, asked, made_up)
        await trio.testing.wait_all_tasks_blocked()
        began = trio.current_time()
        await asked.log_in(Credentials("", signed(CLAIMS)))
        assert trio.current_time() == began
    assert len(answers.asked) == 2


async def test_a_long_fetch_for_others_does_not_delay_users_of_a_known_key() -> None:
    answers = Answers()
    asked = backend(answers, keys_s=60.0)
    await asked.log_in(Credentials("", signed(CLAIMS)))
    answers.late_s = 10 * FETCHED_S_MIN
    later(61)  # it is time to ask again
    async with trio.open_nursery() as nursery:
        made_up = signed(CLAIMS, {"alg": "RS256", "kid": "other"})
        nursery.start_soon(refused, asked, made_up)
        await trio.testing.wait_all_tasks_blocked()
        later(2 * FETCHED_S_MIN)  # and again, while the fetch is not over
        began = trio.current_time()
        await asked.log_in(Credentials("", signed(CLAIMS)))
        assert trio.current_time() == began


async def test_a_user_of_a_known_key_waits_only_a_moment_for_a_server_that_hangs() -> None:
    answers = Answers()
    asked = backend(answers, keys_s=60.0)
    await asked.log_in(Credentials("", signed(CLAIMS)))
    answers.late_s = 1e9
    later(61)
    for waited_s in (PATIENCE_S, 0, 0):
        began = trio.current_time()
        await asked.log_in(Credentials("", signed(CLAIMS)))
        assert trio.current_time() - began == pytest.approx(waited_s)


RUBBISH = {
    "brackets": b"[" * 1_000_000,
    "numbers": b'{"keys": [' + b"1," * 10_000 + b"1]}",
    "a number without end": b'{"keys": [' + b"9" * 100_000 + b"]}",
    "no text": b"\xff" * 1000,
    "a page": b"<html>" + b"x" * 100_000,
    "an RSA key without end": json.dumps(
        {"keys": [{"kty": "RSA", "kid": "two", "n": "f" * 500_000, "e": "AQAB"}]}
    ).encode(),
    "keys that are no keys": json.dumps(
        {"keys": [{"kty": kind, "n": [], "x": {}, "crv": 7} for kind in ("RSA", "EC", "OKP")]}
    ).encode(),
}  # fmt: skip


@pytest.mark.parametrize("kind", RUBBISH)
async def test_rubbish_keys_cause_a_refusal(kind: str) -> None:
    answers = Answers(lambda: RUBBISH[kind])
    asked = backend(answers)
    for name in ("one", "two"):
        await refused(asked, signed(CLAIMS, {"alg": "RS256", "kid": name}))
    answers.answer = published
    later(FETCHED_S_MIN)
    await asked.log_in(Credentials("", signed(CLAIMS)))


async def test_a_server_that_hangs_delays_nobody_longer_than_its_timeout(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    asked = HttpBackend(HttpLoginTable(timeout_s=5.0))

    class Hanging:
        def build_request(self, *_: Any, **__: Any) -> None:
            """Nobody reads it."""

        async def send(self, *_: Any, **__: Any) -> None:
            await trio.sleep_forever()

        async def aclose(self) -> None:
            """Nothing is open."""

    monkeypatch.setattr(asked._fetcher, "_made", Hanging())
    began = trio.current_time()

    async def one(name: str) -> None:
        with pytest.raises(LoginRefused, match="did not answer within 5 s"):
            await asked.log_in(Credentials(name, "secret"))

    async with trio.open_nursery() as nursery:
        for number in range(REQUESTS_AT_ONCE * 10):
            nursery.start_soon(one, f"u{number}")
    assert trio.current_time() - began == pytest.approx(5.0)
    assert "secret" not in caplog.text


@pytest.mark.real_time
async def test_a_few_bytes_that_decompress_to_very_many_are_not_decompressed() -> None:
    packed = gzip.compress(b" " * 100_000_000 + b"allow")

    async def serve(stream: trio.SocketStream) -> None:
        await stream.receive_some(65536)
        head = f"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: {len(packed)}\r\n\r\n"
        await stream.send_all(head.encode() + packed)

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(trio.serve_tcp, serve, 0)
        port = listeners[0].socket.getsockname()[1]
        fetcher = Fetcher(20.0)
        with suppress(Unanswered):
            assert await fetcher.fetch(f"http://127.0.0.1:{port}/") == packed
        await fetcher.close()
        nursery.cancel_scope.cancel()
