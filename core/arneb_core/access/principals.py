"""Principals: who has logged in, and the verdicts on what they may do.

The rule: values and protocols only. A frontend has a :class:`Principal` after a login and asks its
:class:`Verdicts`; it does not know whether those are this node's tables, a token or another server.
An answer that has to be fetched is not known at once, and the frontend waits for it.
"""

from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from arneb_core.access.rights import Right


class Kind(Enum):
    """What a right applies to; the values are RabbitMQ's words."""

    QUEUE = "queue"
    EXCHANGE = "exchange"
    TOPIC = "topic"
    """A routing key of a topic exchange."""


@dataclass(frozen=True, slots=True)
class Question:
    """Something that a principal may or may not be allowed to do."""

    right: Right
    kind: Kind
    name: str
    """The name of the queue or exchange."""
    routing_key: str = ""
    """For a topic."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a client presents to log in."""

    name: str
    password: str | None = field(repr=False)
    """None: a certificate has already proved the name."""
    address: str = ""
    """The client's address, without the port."""
    loopback: bool = True
    """The client is on this machine."""
    mechanism: str = "PLAIN"


class LoginRefused(Exception):
    """The login failed. The text is for the log, and never for the client."""


class Verdicts(Protocol):
    """What one principal may do."""

    @property
    def may_be_kept(self) -> bool:
        """Whether a verdict holds until a change of access is announced; otherwise it must be asked
        for each time, which costs a look-up."""
        ...

    def may(self, vhost: str, question: Question) -> bool | None:
        """Return whether that is allowed; None: :meth:`ask` first."""
        ...

    def limits_keys(self, vhost: str, exchange: str) -> bool:
        """Whether the routing keys used with this exchange must be asked about, too."""
        ...

    async def ask(self, vhost: str, question: Question) -> None:
        """Find out, so that :meth:`may` knows."""
        ...

    async def renew(self, user: str, secret: str) -> None:
        """Replace the secret by another before it expires. Raises :class:`LoginRefused`; then the
        former one still holds."""
        ...

    async def admits(self, vhost: str, address: str) -> bool:
        """Whether the principal has access to the vhost at all."""
        ...


@dataclass(frozen=True, slots=True)
class Principal:
    """A user who has logged in."""

    name: str
    verdicts: Verdicts = field(repr=False, compare=False)
    tags: frozenset[str] = frozenset()
    secret: str | None = field(default=None, repr=False, compare=False)
    """What another node needs to ask for verdicts again: a token, or a password that only another
    server can check. None: the name is enough."""


class Backend(Protocol):
    """One place that knows users."""

    async def log_in(self, credentials: Credentials) -> Principal:
        """Log a user in. Raises :class:`LoginRefused`."""
        ...
