"""An exchange and a binding: frozen values, as declared."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import Final

from arneb_amqp.wire.tables import Field, encode_table, lookup_text

DEFAULT_EXCHANGE: Final = ""
"""Routes to the queue that is named like the routing key; cannot be declared or bound."""

ALTERNATE_EXCHANGE: Final = "alternate-exchange"
"""The argument that names where unroutable messages of an exchange go instead."""


class DestinationKind(Enum):
    """What a binding leads to."""

    QUEUE = "queue"
    EXCHANGE = "exchange"


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

    Two bindings are the same when all five fields are, whatever the order of arguments.
    """

    source: str
    destination: str
    routing_key: str = ""
    arguments: Mapping[str, Field] = field(default_factory=dict, compare=False)
    kind: DestinationKind = DestinationKind.QUEUE
    _arguments_key: bytes = field(init=False, repr=False)

    def __post_init__(self) -> None:
        key = encode_table(dict(sorted(self.arguments.items()))) if self.arguments else b""
        object.__setattr__(self, "_arguments_key", key)

    @cached_property
    def target(self) -> tuple[DestinationKind, str]:
        """The destination with its kind."""
        return self.kind, self.destination
