"""Passwords: Apache's htpasswd files.

The rule: a user without a hash of a known kind never logs in, whether the line has a password in
the clear, a lock, nothing or another program's hash. Such lines are reported by number.

Checking a password takes tenths of a second, on purpose; the caller does it off the event loop.
"""

from dataclasses import dataclass
from typing import Any, Final

from arneb_pulsar.authentication.grants import Grant, Unauthentic

KINDS: Final = (
    "bcrypt", "sha256_crypt", "sha512_crypt", "apr_md5_crypt", "des_crypt", "ldap_sha1",
)  # fmt: skip
"""All kinds of hashes that htpasswd writes, but not passwords in the clear."""

LOCKS: Final = ("!", "*")
"""The beginnings of locked hashes, as in ``/etc/shadow``."""

COMMENT: Final = b"#"


@dataclass(frozen=True, slots=True)
class ShutOut:
    """A line whose user never logs in."""

    line: int
    user: str
    reason: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.user!r} never logs in, {self.reason}"


class Passwords:
    """The users of one file. Raises :class:`ValueError` for a file of another form."""

    def __init__(self, data: bytes) -> None:
        from passlib.context import CryptContext

        self._context: Any = CryptContext(KINDS)
        self._hashes: dict[str, str] = {}
        self.shut_out: list[ShutOut] = []
        seen = set[str]()
        for number, line in enumerate(data.splitlines(), 1):
            if not line.strip() or line.lstrip().startswith(COMMENT):
                continue
            user, hashed = _split(number, line)
            reason = "it was there before" if user in seen else self._flaw(hashed)
            seen.add(user)
            if reason is None:
                self._hashes[user] = hashed
            else:
                self.shut_out.append(ShutOut(number, user, reason))
        if not seen:
            raise ValueError("expected at least one line USER:HASH")

    def __repr__(self) -> str:
        return f"<Passwords of {len(self._hashes)} users, {len(self.shut_out)} shut out>"

    def grant(self, proof: bytes) -> Grant:
        """Grant the user of ``USER:PASSWORD`` as the role. Raises :class:`Unauthentic`."""
        user, colon, password = proof.partition(b":")
        if not colon:
            raise Unauthentic("expected USER:PASSWORD")
        try:
            name = user.decode()
            hashed = self._hashes.get(name)
            right = hashed is not None and self._context.verify(password, hashed)
        except (ValueError, TypeError) as error:
            raise Unauthentic(f"bad password of {user!r}: {error}") from error
        if not right:
            raise Unauthentic(f"wrong user or password: {name!r}")
        return Grant(name)

    def _flaw(self, hashed: str) -> str | None:
        """Return why no password matches this hash; None if one can."""
        if not hashed:
            return "its hash is empty"
        if hashed.startswith(LOCKS):
            return "its hash is locked"
        kind = self._context.identify(hashed)
        if kind is None:
            return "its hash is of no kind that is known"
        try:
            checksum = self._context.handler(kind).from_string(hashed).checksum
        except (ValueError, TypeError) as error:
            return f"its hash is damaged: {error}"
        return None if checksum else "its hash is damaged: it ends before the checksum"


def _split(number: int, line: bytes) -> tuple[str, str]:
    """Split a line into user and hash; further fields are ignored, as in ``/etc/shadow``."""
    user, colon, rest = line.strip().partition(b":")
    if not user or not colon:
        raise ValueError(f"line {number}: expected USER:HASH")
    try:
        return user.decode(), rest.partition(b":")[0].strip().decode("ascii", "replace")
    except UnicodeDecodeError as error:
        raise ValueError(f"line {number}: expected a user in UTF-8") from error
