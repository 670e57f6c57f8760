"""Tokens, passwords and certificates: what holds and what does not."""

from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st
from passlib.hash import apr_md5_crypt, bcrypt

from arneb_pulsar.authentication.files import read_proofs
from arneb_pulsar.authentication.grants import Grant, Unauthentic, grant_certificate
from arneb_pulsar.authentication.passwords import Passwords
from arneb_pulsar.authentication.tokens import TOKEN_BYTES_MAX, grant_token, public_key, secret_key
from arneb_pulsar.config import AuthenticationConfig

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
    if damaged.rstrip(b"=") == whole:
        return
    try:
        granted = grant_token(damaged, secret_key(SECRET), NOW)
    except Unauthentic:
        return
    # The last character of a signature has bits that mean nothing.
    assert granted == Grant("me") and damaged[:-1] == whole[:-1]


def test_keys_that_are_none_are_refused() -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        secret_key(b"short")
    for data in (b"", b"-----BEGIN NONSENSE-----", b"\x30\x00"):
        with pytest.raises(ValueError, match="public key"):
            public_key(data)
    with pytest.raises(ValueError, match="RSA or elliptic"):
        public_key(public(ed25519.Ed25519PrivateKey.generate()))


def test_passwords_are_those_of_the_file() -> None:
    lines = [f"a:{apr_md5_crypt.hash('secret')}", f"b:{bcrypt.using(rounds=4).hash('pass:word')}"]
    passwords = Passwords("\n".join(lines).encode())
    assert passwords.grant(b"a:secret") == Grant("a")
    assert passwords.grant(b"b:pass:word") == Grant("b")
    for proof in (b"a:wrong", b"a:", b"c:secret", b"a", b"", b"\xff:x", b"a:\xff\x00", b":secret"):
        with pytest.raises(Unauthentic):
            passwords.grant(proof)
    for data in (b"", b"no colon"):
        with pytest.raises(ValueError, match="USER:HASH"):
            Passwords(data)


@pytest.mark.parametrize(
    ("hashed", "reason"),
    [
        ("!", "locked"), ("!!", "locked"), ("*", "locked"), ("", "empty"), (" ", "empty"),
        ("secret", "no kind"), ("$9$salt$hash", "no kind"), ("{SSHA}c2VjcmV0", "no kind"),
        ("!" + apr_md5_crypt.hash("secret"), "locked"), ("$2y$05$short", "damaged"),
        ("$apr1$salt$short", "damaged"), ("$5$", "damaged"), ("\u00fc", "no kind"),
    ],
)  # fmt: skip
def test_what_is_no_hash_never_logs_in(hashed: str, reason: str) -> None:
    right = apr_md5_crypt.hash("right")
    passwords = Passwords(f"# a comment\n\nlocked:{hashed}\nme:{right}:more\n".encode())
    assert passwords.grant(b"me:right") == Grant("me")
    for password in (hashed, hashed.lstrip("!*"), "", "secret", "!", "right"):
        with pytest.raises(Unauthentic):
            passwords.grant(f"locked:{password}".encode())
    [told] = passwords.shut_out
    assert str(told).startswith("line 3: 'locked' never logs in, its hash is")
    assert reason in str(told)


@given(st.text(), st.binary(max_size=60))
def test_no_text_is_the_password_of_itself(user: str, hashed: bytes) -> None:
    """Whatever stands in a file, it is not what opens the broker."""
    line = user.encode("utf-8", "replace") + b":" + hashed
    try:
        passwords = Passwords(line + b"\nme:x\n")
    except ValueError:
        return
    for proof in (line, line.strip(), b"me:x", b"me:"):
        with pytest.raises(Unauthentic):
            passwords.grant(proof)


def test_of_two_lines_the_first_counts() -> None:
    first, second = apr_md5_crypt.hash("first"), apr_md5_crypt.hash("second")
    for lines in (("a:!", f"a:{second}"), (f"a:{first}", f"a:{second}")):
        passwords = Passwords("\n".join(lines).encode())
        with pytest.raises(Unauthentic):
            passwords.grant(b"a:second")
        assert "line 2" in str(passwords.shut_out[-1])


def test_a_certificate_grants_its_common_name() -> None:
    subject = ((("organizationName", "o"),), (("commonName", "me"),))
    assert grant_certificate({"subject": subject}) == Grant("me")
    for bad in ({}, {"subject": ()}, {"subject": ((("commonName", ""),),)}):
        with pytest.raises(Unauthentic):
            grant_certificate(bad)


def test_files_are_read_where_methods_ask_for_them(tmp_path: Path) -> None:
    secret, users = tmp_path / "secret", tmp_path / "users"
    secret.write_bytes(SECRET)
    users.write_text(f"a:{apr_md5_crypt.hash('x')}\n")
    assert not read_proofs(AuthenticationConfig(token_secret_key=secret)).required
    config = AuthenticationConfig(("token", "basic"), token_secret_key=secret, basic_file=users)
    proofs = read_proofs(config)
    assert proofs.token and proofs.passwords and not proofs.certificates
    missing = AuthenticationConfig(("token",), token_public_key=tmp_path / "none")
    with pytest.raises(ValueError, match="token_public_key: cannot read"):
        read_proofs(missing)
    with pytest.raises(ValueError, match="token_public_key: .*expected a public key"):
        read_proofs(AuthenticationConfig(("token",), token_public_key=secret))


@pytest.mark.parametrize(
    "settings",
    [
        {"methods": ("kerberos",)},
        {"methods": ("token",)},
        {"methods": ("token",), "token_secret_key": Path("a"), "token_public_key": Path("b")},
        {"methods": ("basic",)},
    ],
)
def test_settings_that_cannot_be_are_refused(settings: Any) -> None:
    with pytest.raises(ValueError, match="expected"):
        AuthenticationConfig(**settings)
