"""The internal backend: users and permissions of the access catalogue.

The rule: verdicts are read from the tables each time they are asked for, so a change holds for
whoever has logged in long ago. Hashes of what is long are made in threads, a few at a time, and it
takes as long to refuse somebody who is not there as somebody who is.
"""

from typing import Final

import trio

from arneb_core.access.passwords import SALT_BYTES, hash_password
from arneb_core.access.principals import (
    Credentials,
    Kind,
    LoginRefused,
    Principal,
    Question,
)
from arneb_core.access.records import TopicPermission, User
from arneb_core.access.rights import has_access, may, may_use_key
from arneb_core.access.tables import Tables

SHORT_CHARACTERS: Final = 256
"""The hash of a password that is no longer takes five microseconds, and to have a thread make it
would take a hundred of the loop's time, and a place in a line that a crowd makes long."""

HASHES_AT_ONCE: Final = 4
"""Threads that look at longer ones; whoever guesses must not keep all of them busy."""

NOBODY: Final = hash_password("nobody's", bytes(SALT_BYTES))
"""Looked at when there is no such user."""


class InternalVerdicts:
    """What a user of the catalogue may do."""

    may_be_kept = True

    def __init__(self, tables: Tables, user: str) -> None:
        self._tables = tables
        self._user = user

    def __repr__(self) -> str:
        return f"<InternalVerdicts of {self._user!r}>"

    def may(self, vhost: str, question: Question) -> bool:
        """Read from the permissions as they are now."""
        right, name = question.right, question.name
        if question.kind is Kind.TOPIC:
            return may_use_key(self._tables, self._user, vhost, name, right, question.routing_key)
        return may(self._tables, self._user, vhost, right, name)

    def limits_keys(self, vhost: str, exchange: str) -> bool:
        """Somebody wrote a row about it."""
        return self._tables.get(TopicPermission, self._user, vhost, exchange) is not None

    async def ask(self, vhost: str, question: Question) -> None:
        """Everything is known."""
        await trio.lowlevel.checkpoint()

    async def renew(self, user: str, secret: str) -> None:
        """Nothing runs out, so nothing is looked at, as in RabbitMQ."""
        await trio.lowlevel.checkpoint()

    async def admits(self, vhost: str, address: str) -> bool:
        """There is a permission row."""
        await trio.lowlevel.checkpoint()
        return has_access(self._tables, self._user, vhost)


class InternalBackend:
    """Logs in the users of the catalogue."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._crowd = trio.CapacityLimiter(HASHES_AT_ONCE)

    def __repr__(self) -> str:
        return f"<InternalBackend {self._tables!r}>"

    async def log_in(self, credentials: Credentials) -> Principal:
        """Raises :class:`.LoginRefused`. Not each time a checkpoint."""
        name, password = credentials.name, credentials.password
        user = self._tables.get(User, name)
        if password is not None:
            stored = NOBODY if user is None else user.password
            if len(password) <= SHORT_CHARACTERS:
                right = stored.admits(password)
            else:
                right = await trio.to_thread.run_sync(stored.admits, password, limiter=self._crowd)
            # Looked up again: it may have gone or have another password by now.
            if user is None or not right or self._tables.get(User, name) != user:
                raise LoginRefused(f"user '{name}' - invalid credentials")
        elif user is None:
            raise LoginRefused(f"user '{name}' - not found")
        return Principal(name, InternalVerdicts(self._tables, name), frozenset(user.tags))
