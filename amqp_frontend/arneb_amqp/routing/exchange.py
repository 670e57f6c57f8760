"""An exchange and a binding: frozen values, as declared."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, TypeAlias

from arneb_amqp.wire.tables import Field, encode_table, lookup_text

DEFAULT_EXCHANGE: Final = ""
"""Routes to the queue that is named like the routing key; cannot be declared or bound."""

ALTERNATE_EXCHANGE: Final = "alternate-exchange"
"""The argument that names where an exchange sends what it cannot route."""


RESERVED_PREFIX: Final = "amq."
"""What the names of queues and exchanges begin with that only the broker gives."""


class DestinationKind(Enum):
    """What a binding leads to."""

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
        """Where messages go that this exchange cannot route."""
        return lookup_text(self.arguments, ALTERNATE_EXCHANGE)


@dataclass(frozen=True)
class Binding:
    """From ``source`` (an exchange) to ``destination`` (a queue or an exchange).

    Two bindings are the same when all five fields are, whatever the order of the arguments.
    """

    source: str
    destination: str
    routing_key: str = ""
    arguments: Mapping[str, Field] = field(default_factory=dict, compare=False)
    kind: DestinationKind = DestinationKind.QUEUE
    arguments_key: bytes = field(init=False, repr=False)
    """The arguments in a form that can be compared and hashed."""
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        ordered = dict(sorted(self.arguments.items()))
        arguments_key = encode_table(ordered)
        object.__setattr__(self, "arguments_key", arguments_key)
        named = self.source, self.destination, self.routing_key, arguments_key, self.kind
        object.__setattr__(self, "_hash", hash(named))

    def __hash__(self) -> int:
        # A binding that goes is looked for in half a dozen tables.
        return self._hash

    @property
    def target(self) -> Target:
        """The destination with its kind."""
        return self.kind, self.destination
