"""Passwords: those of the file, whatever else is in it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from passlib.hash import apr_md5_crypt, bcrypt

from arneb_pulsar.authentication.grants import Grant, Unauthentic
from arneb_pulsar.authentication.passwords import Passwords


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
        ("!$apr1$salt$Xxd1irWT9ycqoYxGFn4cb.", "locked"), ("$2y$05$short", "damaged"),
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
    [entry] = passwords.shut_out
    assert str(entry).startswith("line 3: 'locked' never logs in, its hash is")
    assert reason in str(entry)


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
