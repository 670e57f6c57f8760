"""Exchange types as the router sees them: checks, and an index of bindings.

The rule: a type knows nothing of other exchanges, queues or vhosts. The router asks one index at a
time and follows its answers.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from arneb_amqp.routing.exchange import Binding, Exchange, Target
from arneb_amqp.wire.tables import Field

Headers = Mapping[str, Field]


class BindingIndex(Protocol):
    """The bindings of one exchange, arranged for fast matching.

    The router adds a binding once and removes only what it added.
    """

    def add(self, binding: Binding) -> None: ...

    def remove(self, binding: Binding) -> None: ...

    def match(self, routing_keys: Sequence[str], headers: Headers) -> Iterable[Target | None]:
        """Yield the destinations of a message with these routing keys, possibly repeated, and None
        after each further 20 us or so of work. Void once the index changes."""
        ...


class ExchangeType(Protocol):
    """A type of exchange; one value serves all exchanges of the type."""

    @property
    def name(self) -> str: ...

    def reads_headers(self, exchange: Exchange) -> bool:
        """Whether its routes depend on more than the routing key, so that they must not be cached
        by it."""
        ...

    def check(self, exchange: Exchange) -> None:
        """Raise RabbitMQ's error when the type refuses the exchange's arguments."""
        ...

    def check_binding(self, binding: Binding) -> None:
        """Raise RabbitMQ's error when the type refuses the binding."""
        ...

    def index(self, exchange: Exchange) -> BindingIndex:
        """Return an empty index for ``exchange``."""
        ...


class AnyArguments:
    """Base of the types that accept every exchange and binding."""

    def reads_headers(self, exchange: Exchange) -> bool:
        """Return False: only the routing key matters."""
        return False

    def check(self, exchange: Exchange) -> None:
        """Accept all arguments."""

    def check_binding(self, binding: Binding) -> None:
        """Accept all bindings."""
