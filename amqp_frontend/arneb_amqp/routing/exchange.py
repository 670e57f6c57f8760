"""An exchange and a binding: frozen values, as declared."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, TypeAlias

from arneb_amqp.wire.tables import Field, encode_table, lookup_text

DEFAULT_EXCHANGE: Final = ""
"""Routes to the queue named by the routing key; cannot be declared or bound."""

ALTERNATE_EXCHANGE: Final = "alternate-exchange"
"""The argument that names the exchange for messages that cannot be routed."""


RESERVED_PREFIX: Final = "amq."
"""The prefix of names of queues and exchanges that only the broker assigns."""


class DestinationKind(Enum):
    """The kind of a binding's destination."""

    QUEUE = "queue"
    EXCHANGE = "exchange"


Target: TypeAlias = tuple[DestinationKind, str]
"""A destination: its kind and its name."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """An exchange as declared."""

    name: str
    type: str
    durable: bool = False
    auto_delete: bool = False
    internal: bool = False
    arguments: Mapping[str, Field] = field(default_factory=dict)

    @property
    def alternate(self) -> str | None:
        """The exchange for messages that this one cannot route."""
        return lookup_text(self.arguments, ALTERNATE_EXCHANGE)


@dataclass(frozen=True)
class Binding:
    """A binding from ``source`` (an exchange) to ``destination`` (a queue or an exchange).

    Two bindings are the same when all five fields are, whatever the order of the arguments.
    """

    source: str
    destination: str
    routing_key: str = ""
    arguments: Mapping[str, Field] = field(default_factory=dict, compare=False)
    kind: DestinationKind = DestinationKind.QUEUE
    arguments_key: bytes = field(init=False, repr=False)
    """The arguments in comparable and hashable form."""
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        ordered = dict(sorted(self.arguments.items()))
        arguments_key = encode_table(ordered)
        object.__setattr__(self, "arguments_key", arguments_key)
        named = self.source, self.destination, self.routing_key, arguments_key, self.kind
        object.__setattr__(self, "_hash", hash(named))

    def __hash__(self) -> int:
        # Removing a binding looks it up in half a dozen tables.
        return self._hash

    @property
    def target(self) -> Target:
        """The destination with its kind."""
        return self.kind, self.destination
