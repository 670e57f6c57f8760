"""The exchanges and bindings of one vhost, and the routes that they make."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from arneb_amqp.routing.exchange import Binding, DestinationKind, Exchange
from arneb_amqp.wire.tables import Field


@dataclass(frozen=True, slots=True)
class RouteResult:
    """Where a message goes: names of queues, each once, sorted.

    ``depends_on_headers``: an exchange on the way looked at the headers, so the result must
    not be cached by route.
    """

    queues: tuple[str, ...]
    depends_on_headers: bool = False

    @property
    def routed(self) -> bool:
        """At least one queue takes the message."""
        return bool(self.queues)


@dataclass(frozen=True, slots=True)
class Removed:
    """What went: the exchange asked for, auto-delete exchanges that lost their last binding,
    and all bindings from and to them."""

    exchanges: tuple[Exchange, ...] = ()
    bindings: tuple[Binding, ...] = ()


class Router:
    """The topology of one vhost. Starts with the predeclared exchanges.

    ``generation`` grows with every change that can change a route: cached routes of an older
    generation are void. Queues are known to the router by :meth:`add_queue`.
    """

    generation: int

    def __init__(self, vhost: str = "/") -> None:
        self.vhost = vhost
        self.generation = 0

    @property
    def exchanges(self) -> Mapping[str, Exchange]:
        """Every exchange by name; the default exchange is ``""``."""
        raise NotImplementedError

    def exchange(self, name: str) -> Exchange:
        """Raises ChannelException 404 ``no exchange 'x' in vhost '/'``."""
        raise NotImplementedError

    def add_queue(self, name: str) -> None: ...

    def remove_queue(self, name: str) -> Removed:
        """Forget a queue and its bindings."""
        raise NotImplementedError

    def declare(self, exchange: Exchange) -> None:
        """Add an exchange that is not there. Raises 503 ``unknown exchange type 'wibble'``, and
        406 when the type refuses its arguments. Equivalence is the caller's to check."""

    def delete(self, name: str) -> Removed:
        """Remove an exchange with its bindings; nothing when it is not there."""
        raise NotImplementedError

    def bind(self, binding: Binding) -> bool:
        """Add a binding; False when it is there already. Raises 404 when the source, or a
        destination exchange, is missing (queues are the caller's to check) and 406 when the
        exchange type refuses the binding. The default exchange must be refused by the caller."""
        raise NotImplementedError

    def unbind(self, binding: Binding) -> Removed:
        """Remove a binding; empty when it is not there."""
        raise NotImplementedError

    def bindings_from(self, source: str) -> Sequence[Binding]:
        """Bindings whose source that is (if-unused, management)."""
        raise NotImplementedError

    def bindings_to(self, destination: str, kind: DestinationKind) -> Sequence[Binding]:
        """Bindings that lead there."""
        raise NotImplementedError

    def route(
        self,
        exchange: str,
        routing_key: str,
        headers: Mapping[str, Field] | None = None,
        extra_keys: Iterable[str] = (),
    ) -> RouteResult:
        """Where a message goes; ``extra_keys`` are those of CC and BCC. Raises 404 when there is
        no such exchange."""
        raise NotImplementedError
