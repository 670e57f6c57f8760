"""Clients that guess tokens or passwords of Pulsar's roles are answered later and later."""

from contextlib import suppress

import jwt
import trio

from arneb_pulsar.authentication.files import Proofs
from arneb_pulsar.authentication.grants import Unauthentic
from arneb_pulsar.authentication.tokens import TOKEN_BYTES_MAX, secret_key
from arneb_pulsar.authorization.callers import Caller
from arneb_pulsar.services.clients.authenticator import Authenticator

SECRET = bytes(range(32))
RIGHT = jwt.encode({"sub": "me"}, SECRET, "HS256").encode()


async def took_s(authenticator: Authenticator, address: str, proof: bytes) -> float:
    began = trio.current_time()
    with suppress(Unauthentic):
        await authenticator.grant("token", proof, {}, address)
    return trio.current_time() - began


async def test_every_refusal_of_an_address_is_later_than_the_one_before() -> None:
    authenticator = Authenticator(Proofs(secret_key(SECRET)))
    guesses = [b"guess", b"x" * (TOKEN_BYTES_MAX + 1), b"", b"a.b.c"] * 2
    late = [await took_s(authenticator, "10.0.0.1", each) for each in guesses]
    assert late == [0, 0, 0, 0.25, 0.5, 1.0, 2.0, 3.0]
    assert await took_s(authenticator, "10.0.0.2", b"guess") == 0, "it is another address"
    assert await took_s(authenticator, "10.0.0.1", RIGHT) == 0, (
        "a correct login must not be delayed"
    )
    assert await took_s(authenticator, "10.0.0.1", b"guess") == 0, (
        "a correct login must reset the delay"
    )


async def test_guesses_over_http_are_held_up_too() -> None:
    authenticator = Authenticator(Proofs(secret_key(SECRET)))
    for _ in range(4):
        assert await authenticator.caller("Bearer x", address="10.0.0.1") is None
    assert trio.current_time() > 0
    began = trio.current_time()
    assert await authenticator.caller("Bearer x", address="10.0.0.1") is None
    assert trio.current_time() - began == 0.5
    proof = f"Bearer {RIGHT.decode()}"
    assert await authenticator.caller(proof, address="10.0.0.1") == Caller("me")


async def test_a_client_without_credentials_is_refused_at_once_however_often() -> None:
    authenticator = Authenticator(Proofs(secret_key(SECRET)))
    for method in ("", "none", "tls") * 4:
        with suppress(Unauthentic):
            await authenticator.grant(method, b"", {}, "10.0.0.1")
    assert trio.current_time() == 0
    assert [await took_s(authenticator, "10.0.0.1", b"guess") for _ in range(4)] == [0, 0, 0, 0.25]


async def test_an_anonymous_role_forgives_no_guesses() -> None:
    authenticator = Authenticator(Proofs(secret_key(SECRET)), anonymous="visitor")
    for _ in range(3):
        await took_s(authenticator, "10.0.0.1", b"guess")
    grant = await authenticator.grant("", b"", {}, "10.0.0.1")
    assert grant.role == "visitor"
    assert await took_s(authenticator, "10.0.0.1", b"guess") == 0.25
