"""Password hashes are interchangeable with RabbitMQ's; nobody logs in without a password."""

from base64 import b64encode
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arneb_core.access.errors import InvalidAccess
from arneb_core.access.passwords import (
    NO_PASSWORD,
    HashingAlgorithm,
    PasswordHash,
    hash_password,
    parse_hash,
)

OF_RABBITMQ = "KfOQms8bmaZS7/fdXsYYgOiSfOgm8oCh1YSKWvl1fLiAIRa3"
"""Made by RabbitMQ of the password ``guest``."""


def test_a_hash_that_rabbitmq_made_admits_its_password_and_no_other() -> None:
    stored = parse_hash(OF_RABBITMQ)
    assert stored.admits("guest")
    assert not stored.admits("Guest")


def test_hashes_have_the_lengths_that_rabbitmq_gives_them() -> None:
    lengths = {kind: len(hash_password("p", b"salt", kind).text) for kind in HashingAlgorithm}
    assert lengths == {
        HashingAlgorithm.SHA256: 48, HashingAlgorithm.SHA512: 92, HashingAlgorithm.MD5: 28,
    }  # fmt: skip


@given(
    st.text(min_size=1),
    st.text(),
    st.binary(min_size=4, max_size=4),
    st.sampled_from(HashingAlgorithm),
)
def test_a_hash_admits_the_password_that_it_was_made_of_alone(
    password: str, other: str, salt: bytes, kind: HashingAlgorithm
) -> None:
    stored = hash_password(password, salt, kind)
    assert stored.admits(password)
    assert stored.admits(other) is (other == password)


def test_an_empty_password_never_admits_anybody() -> None:
    with pytest.raises(InvalidAccess):
        hash_password("", b"salt")
    assert not NO_PASSWORD.admits("")
    # As RabbitMQ would store it for a user who was given an empty password.
    of_nothing = b64encode(b"salt" + sha256(b"salt").digest()).decode()
    assert not PasswordHash(of_nothing).admits("")


@pytest.mark.parametrize("text", ["", "c2FsdA==", "AAAA", "=", "%%", "KfOQms8b"])
def test_a_stored_value_that_is_no_hash_admits_nobody(text: str) -> None:
    assert not PasswordHash(text).admits("guest")


@pytest.mark.parametrize("text", ["%%%", "a", "ü"])
def test_a_hash_that_is_no_base64_is_refused(text: str) -> None:
    with pytest.raises(InvalidAccess, match="base64"):
        parse_hash(text)


def test_an_unknown_algorithm_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(InvalidAccess, match="rabbit_password_hashing_sha512"):
        parse_hash(OF_RABBITMQ, "rot13")


def test_a_hash_does_not_show_itself() -> None:
    assert OF_RABBITMQ not in repr(parse_hash(OF_RABBITMQ))
