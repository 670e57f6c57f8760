"""Passwords: salted hashes as RabbitMQ stores them.

The rule: the stored text is base64 of the salt followed by the digest of salt and password, so that
hashes can move between the brokers. A user without a hash, or an empty password, never logs in by
password.
"""

import hashlib
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from dataclasses import dataclass
from enum import Enum
from hmac import compare_digest
from typing import Final

from arneb_core.access.errors import InvalidAccess

SALT_BYTES: Final = 4
"""RabbitMQ's length; its other tools could not read a longer one."""


class HashingAlgorithm(Enum):
    """How a digest was made; the values are RabbitMQ's names in definitions."""

    SHA256 = "rabbit_password_hashing_sha256"
    SHA512 = "rabbit_password_hashing_sha512"
    MD5 = "rabbit_password_hashing_md5"
    """From definitions exported by versions before 3.6."""


_DIGESTS: Final = {
    HashingAlgorithm.SHA256: "sha256",
    HashingAlgorithm.SHA512: "sha512",
    HashingAlgorithm.MD5: "md5",
}


@dataclass(frozen=True, slots=True)
class PasswordHash:
    """A hash as stored; empty: nobody logs in with a password."""

    text: str = ""
    algorithm: HashingAlgorithm = HashingAlgorithm.SHA256

    def __repr__(self) -> str:
        return f"<PasswordHash {'empty' if not self.text else self.algorithm.name}>"

    def admits(self, password: str) -> bool:
        """Whether that is the password. Takes time with the length of ``password``."""
        if not self.text or not password:
            return False
        try:
            stored = b64decode(self.text, validate=True)
        except NotBase64:
            return False
        salt, digest = stored[:SALT_BYTES], stored[SALT_BYTES:]
        return compare_digest(_digest(salt, password, self.algorithm), digest)


NO_PASSWORD: Final = PasswordHash()


def hash_password(
    password: str, salt: bytes, algorithm: HashingAlgorithm = HashingAlgorithm.SHA256
) -> PasswordHash:
    """Return the hash of ``password``. Raises :class:`InvalidAccess` for an empty one."""
    if not password:
        raise InvalidAccess("expected a password that is not empty")
    assert len(salt) == SALT_BYTES, f"expected {SALT_BYTES} bytes of salt, got {len(salt)}"
    text = b64encode(salt + _digest(salt, password, algorithm)).decode()
    return PasswordHash(text, algorithm)


def parse_hash(
    text: str, algorithm: str | HashingAlgorithm = HashingAlgorithm.SHA256
) -> PasswordHash:
    """Return a hash that was made elsewhere. Raises :class:`InvalidAccess`."""
    try:
        kind = HashingAlgorithm(algorithm)
    except ValueError:
        known = ", ".join(each.value for each in HashingAlgorithm)
        raise InvalidAccess(f"expected a hashing algorithm of {known}, got {algorithm!r}") from None
    try:
        b64decode(text, validate=True)
    except (NotBase64, ValueError):
        raise InvalidAccess("expected a password hash in base64") from None
    return PasswordHash(text, kind)


def _digest(salt: bytes, password: str, algorithm: HashingAlgorithm) -> bytes:
    data = salt + password.encode("utf-8", "surrogateescape")
    return hashlib.new(_DIGESTS[algorithm], data, usedforsecurity=False).digest()
