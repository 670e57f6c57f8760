"""Tokens: which role they prove, until when, and which are invalid."""

from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st

from arneb_pulsar.authentication.grants import Grant, Unauthentic
from arneb_pulsar.authentication.tokens import TOKEN_BYTES_MAX, grant_token, public_key, secret_key

NOW = 1_700_000_000.0


SECRET = bytes(range(32))


RSA = rsa.generate_private_key(65537, 2048)


CURVE = ec.generate_private_key(ec.SECP256R1())


def token(key: Any = SECRET, algorithm: str = "HS256", **claims: Any) -> bytes:
    return jwt.encode({"sub": "me"} | claims, key, algorithm).encode()


def public(key: Any, encoding: Encoding = Encoding.PEM) -> bytes:
    data: bytes = key.public_key().public_bytes(encoding, PublicFormat.SubjectPublicKeyInfo)
    return data


def test_a_token_grants_its_subject_until_it_expires() -> None:
    key = secret_key(SECRET)
    assert grant_token(token(), key, NOW) == Grant("me", None)
    assert grant_token(token(exp=NOW + 1), key, NOW) == Grant("me", NOW + 1)
    assert grant_token(token(nbf=NOW, iat=NOW + 100, aud="any"), key, NOW) == Grant("me")
    for claims in ({"exp": NOW}, {"exp": NOW - 1}, {"nbf": NOW + 1}):
        with pytest.raises(Unauthentic):
            grant_token(token(**claims), key, NOW)


def test_a_token_may_come_with_the_end_of_its_line() -> None:
    """It was read from a file."""
    key = secret_key(SECRET)
    for written in (token() + b"\n", token() + b"\r\n", b" " + token() + b" \n"):
        assert grant_token(written, key, NOW) == Grant("me", None)


@pytest.mark.parametrize(("private", "algorithm"), [(RSA, "RS256"), (CURVE, "ES256")])
@pytest.mark.parametrize("encoding", [Encoding.PEM, Encoding.DER])
def test_public_keys_check_too(private: Any, algorithm: str, encoding: Encoding) -> None:
    key = public_key(public(private, encoding))
    assert grant_token(token(private, algorithm), key, NOW) == Grant("me")
    with pytest.raises(Unauthentic):
        grant_token(token(), key, NOW)


def test_the_key_decides_which_algorithm_counts() -> None:
    """A token signed with the public key as if that were a secret, and one not signed at all."""
    import base64
    import hashlib
    import hmac

    def part(data: bytes) -> bytes:
        return base64.urlsafe_b64encode(data).rstrip(b"=")

    pem = public(RSA)
    signed = part(b'{"alg":"HS256","typ":"JWT"}') + b"." + part(b'{"sub":"me"}')
    forged = signed + b"." + part(hmac.new(pem, signed, hashlib.sha256).digest())
    unsigned = part(b'{"alg":"none"}') + b"." + part(b'{"sub":"me"}') + b"."
    for each in (forged, unsigned):
        with pytest.raises(Unauthentic):
            grant_token(each, public_key(pem), NOW)
        with pytest.raises(Unauthentic):
            grant_token(each, secret_key(SECRET), NOW)


@pytest.mark.parametrize(
    "bad",
    [
        b"",
        b"a.b.c",
        b"\xff" * 10,
        b"x" * (TOKEN_BYTES_MAX + 1),
        token(sub=""),
        token(sub=3),
        token(exp="soon"),
        token(exp=True),
        token(SECRET + b"x"),
    ],
)
def test_what_is_no_token_grants_nothing(bad: bytes) -> None:
    with pytest.raises(Unauthentic):
        grant_token(bad, secret_key(SECRET), NOW)


@given(cut=st.integers(0, 200), junk=st.binary(max_size=5))
def test_a_damaged_token_grants_nothing(cut: int, junk: bytes) -> None:
    whole = token()
    damaged = whole[:cut] + junk + whole[cut + len(junk) + 1 :]
    meant = damaged.strip()
    if meant.rstrip(b"=") == whole:
        return
    try:
        granted = grant_token(damaged, secret_key(SECRET), NOW)
    except Unauthentic:
        return
    # The last character of a signature has bits that mean nothing.
    assert granted == Grant("me") and meant[:-1] == whole[:-1]


def test_keys_that_are_none_are_refused() -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        secret_key(b"short")
    for data in (b"", b"-----BEGIN NONSENSE-----", b"\x30\x00"):
        with pytest.raises(ValueError, match="public key"):
            public_key(data)
    with pytest.raises(ValueError, match="RSA or elliptic"):
        public_key(public(ed25519.Ed25519PrivateKey.generate()))
