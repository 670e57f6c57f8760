"""What every type of exchange offers the router: checks, and an index of bindings.

The rule: a type knows nothing of other exchanges, queues or vhosts. The router asks one index
at a time and follows what it answers.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from arneb_amqp.routing.exchange import Binding, Exchange, Target
from arneb_amqp.wire.tables import Field

Headers = Mapping[str, Field]


class BindingIndex(Protocol):
    """The bindings of one exchange, arranged so that matches are found fast.

    The router adds a binding once and removes only what it added.
    """

    def add(self, binding: Binding) -> None: ...

    def remove(self, binding: Binding) -> None: ...

    def match(self, routing_keys: Sequence[str], headers: Headers) -> Iterable[Target | None]:
        """The destinations of a message with these routing keys, repetitions allowed; between two
        of them None, as often as what was done to find the next one costs some 20 us. Void once
        the index is changed."""
        ...


class ExchangeType(Protocol):
    """A type of exchange; one value serves all exchanges of the type."""

    @property
    def name(self) -> str: ...

    def reads_headers(self, exchange: Exchange) -> bool:
        """Its routes depend on more than the routing key, so they must not be cached by it."""
        ...

    def check(self, exchange: Exchange) -> None:
        """Raise RabbitMQ's error when the type refuses the exchange's arguments."""
        ...

    def check_binding(self, binding: Binding) -> None:
        """Raise RabbitMQ's error when the type refuses the binding."""
        ...

    def index(self, exchange: Exchange) -> BindingIndex:
        """An empty index for ``exchange``."""
        ...


class AnyArguments:
    """Base of the types that accept every exchange and binding."""

    def reads_headers(self, exchange: Exchange) -> bool:
        """The routing key says all."""
        return False

    def check(self, exchange: Exchange) -> None:
        """All arguments are fine."""

    def check_binding(self, binding: Binding) -> None:
        """All bindings are fine."""
