"""Principals: who somebody turned out to be, and whom to ask what that one may do.

The rule: values and protocols only. A frontend has a :class:`Principal` after a login and asks its
:class:`Verdicts`; whether those are the tables of this node, a token or another server, it does not
know. What must be asked elsewhere is not known at once, and then the frontend waits.
"""

from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from arneb_core.access.rights import Right


class Kind(Enum):
    """What a right is on; the values are RabbitMQ's words."""

    QUEUE = "queue"
    EXCHANGE = "exchange"
    TOPIC = "topic"
    """A routing key, with a topic exchange."""


@dataclass(frozen=True, slots=True)
class Question:
    """Something that somebody may do or may not."""

    right: Right
    kind: Kind
    name: str
    """Of the queue or the exchange."""
    routing_key: str = ""
    """Of a topic."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """What somebody says to come in."""

    name: str
    password: str | None = field(repr=False)
    """None: who it is was proved by a certificate already."""
    address: str = ""
    """Where it comes from, without the port."""
    loopback: bool = True
    """It comes from this machine."""
    mechanism: str = "PLAIN"


class LoginRefused(Exception):
    """Nobody comes in so. The text is for the log, and never for the client."""


class Verdicts(Protocol):
    """What one principal may do."""

    @property
    def may_be_kept(self) -> bool:
        """A verdict holds until somebody is told that access has changed; else it must be asked
        for again each time, which costs a look at what is remembered."""
        ...

    def may(self, vhost: str, question: Question) -> bool | None:
        """Whether that is allowed; None: :meth:`ask`."""
        ...

    def limits_keys(self, vhost: str, exchange: str) -> bool:
        """The routing keys that are used with this exchange are to be asked about too."""
        ...

    async def ask(self, vhost: str, question: Question) -> None:
        """Find out; :meth:`may` knows it then."""
        ...

    async def renew(self, user: str, secret: str) -> None:
        """The user brings another secret, in place of one that may run out. Raises
        :class:`LoginRefused`; then what was, holds on."""
        ...

    async def admits(self, vhost: str, address: str) -> bool:
        """Whether the principal has access to a vhost at all."""
        ...


@dataclass(frozen=True, slots=True)
class Principal:
    """Somebody who has come in."""

    name: str
    verdicts: Verdicts = field(repr=False, compare=False)
    tags: frozenset[str] = frozenset()
    secret: str | None = field(default=None, repr=False, compare=False)
    """What must be shown again where verdicts are asked for anew, on another node: a token, or a
    password that only somebody else can look at. None: the name is enough."""


class Backend(Protocol):
    """One place that knows who somebody is."""

    async def log_in(self, credentials: Credentials) -> Principal:
        """Raises :class:`LoginRefused`."""
        ...
