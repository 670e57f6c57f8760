"""Passwords: Apache's htpasswd files.

Checking one costs tenths of a second, on purpose; the caller does it off the event loop.
"""

from typing import Any

from arneb_pulsar.identity.grants import Grant, Unauthentic


class Passwords:
    """The users of one file. Raises :class:`ValueError` for what is no such file."""

    def __init__(self, data: bytes) -> None:
        from passlib.apache import HtpasswdFile

        try:
            self._file: Any = HtpasswdFile.from_string(data)
        except ValueError as error:
            raise ValueError(f"expected lines USER:HASH: {error}") from error
        if not self._file.users():
            raise ValueError("expected at least one line USER:HASH")

    def grant(self, proof: bytes) -> Grant:
        """What ``USER:PASSWORD`` grants. Raises :class:`Unauthentic`."""
        user, colon, password = proof.partition(b":")
        if not colon:
            raise Unauthentic("expected USER:PASSWORD")
        try:
            name = user.decode()
            right = self._file.check_password(name, password)
        except (ValueError, TypeError) as error:
            raise Unauthentic(f"bad password of {user!r}: {error}") from error
        if not right:
            raise Unauthentic(f"wrong user or password: {name!r}")
        return Grant(name)
