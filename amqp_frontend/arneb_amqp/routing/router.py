"""The router: the exchanges and bindings of one vhost, and the routes that result.

The rule: pure data. The caller decides whether an operation is allowed, durable or equivalent to an
earlier one; the router keeps the topology consistent and answers where a message goes.
"""

from collections.abc import (
    Collection,
    Generator,
    Hashable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, TypeVar

from arneb_amqp.errors import command_invalid, exchange_in_words, not_found, precondition_failed
from arneb_amqp.routing.delayed import DELAYED_MESSAGE, DelayedMessage, delay_ms_of
from arneb_amqp.routing.exchange import (
    DEFAULT_EXCHANGE,
    Binding,
    DestinationKind,
    Exchange,
    Target,
)
from arneb_amqp.routing.exchange_type import BindingIndex, ExchangeType
from arneb_amqp.routing.registry import EXCHANGE_TYPES
from arneb_amqp.traffic import VhostTraffic
from arneb_amqp.wire.tables import Field

PREDECLARED: Final = (
    Exchange(DEFAULT_EXCHANGE, "direct", durable=True),
    Exchange("amq.direct", "direct", durable=True),
    Exchange("amq.fanout", "fanout", durable=True),
    Exchange("amq.topic", "topic", durable=True),
    Exchange("amq.headers", "headers", durable=True),
    Exchange("amq.match", "headers", durable=True),
    Exchange("amq.rabbitmq.trace", "topic", durable=True, internal=True),
)
"""The exchanges of every vhost: 3.1.3, and RabbitMQ's trace."""

STEPS_AT_ONCE_MAX: Final = 100
"""Steps of a search that must end in one turn, such as a dead letter's: 0.2 s of everybody's time,
in which 400,000 destinations are found. Only hostile bindings come near it."""

STEP_WORK: Final = 2048
"""Work of one step of a search, in destinations found, each of which costs half a microsecond to a
microsecond."""

PAUSE_WORK: Final = 32
"""Work that a pause of an index stands for, in destinations."""

STEP_BINDINGS: Final = 200
"""Bindings removed in one step."""

_Key = TypeVar("_Key", bound=Hashable)
_Found = TypeVar("_Found")

_NO_HEADERS: Final[Mapping[str, Field]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class RouteResult:
    """Where a message goes: unique queue names, sorted.

    ``depends_on_headers``: an exchange on the way read the headers, so the result must not be
    cached by route; ``depends_on_more``: it read others than ``x-delay``. ``delayed_by``: exchanges
    on the way that delay the message and route it when it is due; sorted.
    """

    queues: tuple[str, ...]
    depends_on_headers: bool = False
    delayed_by: tuple[str, ...] = ()
    depends_on_more: bool = False


@dataclass(frozen=True, slots=True)
class Removed:
    """What was removed: the exchange asked for, auto-delete exchanges that lost their last binding,
    and all bindings from and to them."""

    exchanges: tuple[Exchange, ...] = ()
    bindings: tuple[Binding, ...] = ()


@dataclass(slots=True)
class _Removal:
    """A removal under way."""

    exchanges: list[Exchange] = field(default_factory=list)
    bindings: list[Binding] = field(default_factory=list)

    def done(self) -> Removed:
        return Removed(tuple(self.exchanges), tuple(self.bindings))


class Router:
    """The topology of one vhost; it begins with the predeclared exchanges.

    Invariants: a binding is in ``_from``, in ``_to`` and in its source's index, or in none; its
    source exchange exists, and its destination does if that is an exchange. ``generation`` grows
    with every change that can change a route: cached routes of an older generation are void. The
    router knows a queue from :meth:`add_queue` on.
    """

    def __init__(
        self, vhost: str = "/", *, types: Mapping[str, ExchangeType] = EXCHANGE_TYPES
    ) -> None:
        self.vhost = vhost
        self.generation = 0
        self.traffic = VhostTraffic()
        self._types = types
        self._exchanges: dict[str, Exchange] = {}
        self._indexes: dict[str, BindingIndex] = {}
        self._queues: set[str] = set()
        self._from: dict[str, dict[Binding, None]] = {}
        self._to: dict[Target, dict[Binding, None]] = {}
        self._alternates: dict[str, str] = {}
        """Alternate exchanges named by policies, by exchange."""
        for exchange in PREDECLARED:
            self.declare(exchange)

    def __repr__(self) -> str:
        bindings = sum(map(len, self._from.values()))
        return (
            f"<Router {self.vhost}, {len(self._exchanges)} exchanges, {bindings} bindings, "
            f"generation {self.generation}>"
        )

    @property
    def exchanges(self) -> Mapping[str, Exchange]:
        """Every exchange by name; the default exchange is ``""``."""
        return MappingProxyType(self._exchanges)

    def exchange(self, name: str) -> Exchange:
        """Return the exchange of that name. Raises 404 ``no exchange 'x' in vhost '/'``."""
        exchange = self._exchanges.get(name)
        if exchange is None:
            raise not_found(f"no {exchange_in_words(name, self.vhost)}")
        return exchange

    def check_type(self, name: str) -> ExchangeType:
        """Return the exchange type of that name. Raises 503 when there is none, as RabbitMQ 3
        does."""
        kind = self._types.get(name)
        if kind is None:
            raise command_invalid(f"unknown exchange type '{name}'")
        return kind

    def declare(self, exchange: Exchange) -> None:
        """Add an exchange that is not there yet.

        Raises 503 ``unknown exchange type 'wibble'``, and the type's own error when it refuses
        the arguments.
        """
        kind = self.check_type(exchange.type)
        kind.check(exchange)
        assert exchange.name not in self._exchanges, f"exchange {exchange.name!r} exists already"
        self._exchanges[exchange.name] = exchange
        self._indexes[exchange.name] = kind.index(exchange)
        self.traffic.begin(exchange.name)
        self.generation += 1

    def give_alternate(self, exchange: str, alternate: str | None) -> None:
        """Set the alternate exchange that a policy names; the exchange's own argument takes
        precedence."""
        if exchange in self._exchanges and self._alternates.get(exchange) != alternate:
            self._alternates.pop(exchange, None)
            if alternate is not None:
                self._alternates[exchange] = alternate
            self.generation += 1

    def alternate_of(self, exchange: Exchange) -> str | None:
        """Return its alternate exchange. As in RabbitMQ, the default exchange is none: there, an
        alternate routes by its bindings, and queues are not bound to the default exchange."""
        named = exchange.alternate
        return (self._alternates.get(exchange.name) if named is None else named) or None

    def queues_changed(self) -> None:
        """Void cached routes: queues now take their messages differently."""
        self.generation += 1

    def delete(self, name: str) -> Removed:
        """Remove an exchange with its bindings, if it exists."""
        return finished(self.deleting(name))

    def deleting(self, name: str) -> Generator[None, None, Removed]:
        """:meth:`delete` in steps of some 2 ms. From the first step on the exchange routes nothing;
        nobody else may change anything until the last."""
        removal = _Removal()
        yield from self._delete(name, removal)
        return removal.done()

    def add_queue(self, name: str) -> None:
        """Let the default exchange route to this queue, and bindings lead there."""
        if name not in self._queues:
            self._queues.add(name)
            self.generation += 1

    def removing_queue(self, name: str) -> Generator[None, None, Removed]:
        """Forget a queue and the bindings to it, in steps, as :meth:`deleting`; until the last step
        some bindings may still lead there."""
        removal = _Removal()
        if name in self._queues:
            self._queues.remove(name)
            self.generation += 1
        yield from self._unbind_all_to((DestinationKind.QUEUE, name), removal)
        return removal.done()

    def bind(self, binding: Binding) -> bool:
        """Add a binding; False if it exists already.

        Raises 404 when the source or a destination exchange is missing, and the type's own error
        when it refuses the binding. The caller checks queues and refuses the default exchange,
        which cannot be bound.
        """
        source = self.exchange(binding.source)
        if binding.kind is DestinationKind.EXCHANGE:
            self.exchange(binding.destination)
        kind = self.check_type(source.type)
        if isinstance(kind, DelayedMessage):
            kind = kind.routes_as(source)
        kind.check_binding(binding)
        bindings = self._from.setdefault(binding.source, {})
        if binding in bindings:
            return False
        bindings[binding] = None
        self._to.setdefault(binding.target, {})[binding] = None
        self._indexes[binding.source].add(binding)
        self.generation += 1
        return True

    def take_back(self, binding: Binding) -> None:
        """Undo :meth:`bind`. Nothing else is removed: an auto-delete source existed before."""
        self._unbind(binding, _Removal())

    def unbinding(self, binding: Binding) -> Generator[None, None, Removed]:
        """Remove a binding, if it exists, and an auto-delete source that this leaves without
        bindings, in steps, as :meth:`deleting`."""
        removal = _Removal()
        if binding in self._from.get(binding.source, ()):
            self._unbind(binding, removal)
            yield from self._delete_if_done(binding.source, removal)
        return removal.done()

    def bindings_from(self, source: str) -> Collection[Binding]:
        """The bindings of that exchange, as a live view."""
        return self._from.get(source, {}).keys()

    def bindings_to(self, destination: str, kind: DestinationKind) -> Collection[Binding]:
        """The bindings that lead there, as a live view."""
        return self._to.get((kind, destination), {}).keys()

    def route(
        self,
        exchange: str,
        routing_key: str,
        headers: Mapping[str, Field] | None = None,
        extra_keys: Iterable[str] = (),
    ) -> RouteResult:
        """Return where a message goes, found in one turn; ``extra_keys`` are those of CC and BCC.

        Raises 404 when there is no such exchange, and 406 after :data:`STEPS_AT_ONCE_MAX`.
        """
        steps = self.search(exchange, routing_key, headers, extra_keys)
        return finished(_bounded(steps, exchange))

    def search(
        self,
        exchange: str,
        routing_key: str,
        headers: Mapping[str, Field] | None = None,
        extra_keys: Iterable[str] = (),
    ) -> Generator[None, None, RouteResult]:
        """:meth:`route` in steps of at most some 2 ms; void once ``generation`` has changed."""
        keys = [routing_key, *extra_keys]
        queues: set[str] = set()
        delayed_by: list[str] = []
        depends = on_more = False
        work = 0
        waiting, seen = [self.exchange(exchange)], {exchange}
        while waiting:
            current = waiting.pop()
            its_type = self._types[current.type]
            depends = depends or its_type.reads_headers(current)
            if isinstance(its_type, DelayedMessage):
                its_type = its_type.routes_as(current)
            on_more = on_more or its_type.reads_headers(current)
            if headers and current.type == DELAYED_MESSAGE and delay_ms_of(headers):
                delayed_by.append(current.name)
                continue
            targets: set[Target] = set()
            for target in self._targets(current, keys, headers or _NO_HEADERS):
                if target is not None:
                    targets.add(target)
                    work += 1
                else:
                    work += PAUSE_WORK
                if work >= STEP_WORK:
                    work = 0
                    yield
            if not targets:
                alternate = self.alternate_of(current)
                if alternate is not None:
                    targets.add((DestinationKind.EXCHANGE, alternate))
            for kind, name in targets:
                if kind is DestinationKind.QUEUE:
                    queues.add(name)
                elif name not in seen and name in self._exchanges:
                    seen.add(name)  # Exchanges may be bound in a circle.
                    waiting.append(self._exchanges[name])
        return RouteResult(tuple(sorted(queues)), depends, tuple(sorted(delayed_by)), on_more)

    def _targets(
        self, exchange: Exchange, keys: Sequence[str], headers: Mapping[str, Field]
    ) -> Iterable[Target | None]:
        """Return where the bindings of one exchange send a message."""
        if exchange.name == DEFAULT_EXCHANGE:
            return [(DestinationKind.QUEUE, key) for key in keys if key in self._queues]
        return self._indexes[exchange.name].match(keys, headers)

    def _delete(self, name: str, removal: _Removal) -> Iterator[None]:
        exchange = self._exchanges.pop(name, None)
        if exchange is None:
            return
        removal.exchanges.append(exchange)
        self.traffic.end(name)
        self.generation += 1
        # What only the exchange's own messages need goes in one piece with it.
        del self._indexes[name]
        self._alternates.pop(name, None)
        for number, binding in enumerate(self._from.pop(name, ()), 1):
            _discard(self._to, binding.target, binding)
            removal.bindings.append(binding)
            if number % STEP_BINDINGS == 0:
                yield
        yield from self._unbind_all_to((DestinationKind.EXCHANGE, name), removal)

    def _unbind_all_to(self, target: Target, removal: _Removal) -> Iterator[None]:
        bindings = list(self._to.get(target, ()))
        for number, binding in enumerate(bindings, 1):
            self._unbind(binding, removal)
            if number % STEP_BINDINGS == 0:
                yield
        for source in dict.fromkeys(binding.source for binding in bindings):
            yield from self._delete_if_done(source, removal)

    def _unbind(self, binding: Binding, removal: _Removal) -> None:
        _discard(self._from, binding.source, binding)
        _discard(self._to, binding.target, binding)
        self._indexes[binding.source].remove(binding)
        removal.bindings.append(binding)
        self.generation += 1

    def _delete_if_done(self, name: str, removal: _Removal) -> Iterator[None]:
        """Delete an auto-delete exchange that has lost its last binding (RabbitMQ's reading of the
        spec)."""
        exchange = self._exchanges.get(name)
        if exchange is not None and exchange.auto_delete and name not in self._from:
            yield from self._delete(name, removal)


def _bounded(
    steps: Generator[None, None, RouteResult], exchange: str
) -> Generator[None, None, RouteResult]:
    for _ in range(STEPS_AT_ONCE_MAX):
        try:
            next(steps)
        except StopIteration as end:
            found: RouteResult = end.value
            return found
        yield
    raise precondition_failed(f"routing by exchange '{exchange}' took too long")


def finished(steps: Generator[None, None, _Found]) -> _Found:
    """Run ``steps`` to the end at once and return their result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: _Found = end.value
            return found


def _discard(index: dict[_Key, dict[Binding, None]], key: _Key, binding: Binding) -> None:
    """Remove ``binding`` from ``index``, which keeps no empty entries."""
    del index[key][binding]
    if not index[key]:
        del index[key]
