"""The internal backend: users and permissions of the access catalogue.

The rule: verdicts are read from the tables each time, so a change also holds for those logged in
long ago. Long passwords are hashed in threads, a few at a time, and refusing an unknown user takes
as long as refusing a known one.
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
"""The longest password hashed in the loop, in five microseconds; a thread would take a hundred of
the loop's time, and a place in a queue that many logins make long."""

HASHES_AT_ONCE: Final = 4
"""Threads that check longer passwords; guessing must not keep all threads busy."""

NOBODY: Final = hash_password("nobody's", bytes(SALT_BYTES))
"""Checked when there is no such user."""


class InternalVerdicts:
    """What a user of the catalogue may do."""

    may_be_kept = True

    def __init__(self, tables: Tables, user: str) -> None:
        self._tables = tables
        self._user = user

    def __repr__(self) -> str:
        return f"<InternalVerdicts of {self._user!r}>"

    def may(self, vhost: str, question: Question) -> bool:
        """Answer from the current permissions."""
        right, name = question.right, question.name
        if question.kind is Kind.TOPIC:
            return may_use_key(self._tables, self._user, vhost, name, right, question.routing_key)
        return may(self._tables, self._user, vhost, right, name)

    def limits_keys(self, vhost: str, exchange: str) -> bool:
        """Whether there is a row for this exchange."""
        return self._tables.get(TopicPermission, self._user, vhost, exchange) is not None

    async def ask(self, vhost: str, question: Question) -> None:
        """Return at once: every answer is known."""
        await trio.lowlevel.checkpoint()

    async def renew(self, user: str, secret: str) -> None:
        """Accept without a check, as RabbitMQ does: nothing expires."""
        await trio.lowlevel.checkpoint()

    async def admits(self, vhost: str, address: str) -> bool:
        """Whether there is a permission row."""
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
        """Log a user in. Raises :class:`.LoginRefused`. Not always a checkpoint."""
        name, password = credentials.name, credentials.password
        user = self._tables.get(User, name)
        if password is not None:
            stored = NOBODY if user is None else user.password
            if len(password) <= SHORT_CHARACTERS:
                right = stored.admits(password)
            else:
                right = await trio.to_thread.run_sync(stored.admits, password, limiter=self._crowd)
            # Looked up again: the user may be gone, or have another password, by now.
            if user is None or not right or self._tables.get(User, name) != user:
                raise LoginRefused(f"user '{name}' - invalid credentials")
        elif user is None:
            raise LoginRefused(f"user '{name}' - not found")
        return Principal(name, InternalVerdicts(self._tables, name), frozenset(user.tags))
