"""The direct exchange: a message goes to bindings with exactly its routing key."""

from collections.abc import Iterator, Sequence

from arneb_amqp.routing.exchange import Binding, Exchange, Target
from arneb_amqp.routing.exchange_type import AnyArguments, Headers


class DirectIndex:
    """Bindings by routing key."""

    def __init__(self) -> None:
        self._by_key: dict[str, dict[Binding, None]] = {}

    def __repr__(self) -> str:
        return f"<DirectIndex of {len(self._by_key)} keys>"

    def add(self, binding: Binding) -> None:
        self._by_key.setdefault(binding.routing_key, {})[binding] = None

    def remove(self, binding: Binding) -> None:
        bindings = self._by_key[binding.routing_key]
        del bindings[binding]
        if not bindings:
            del self._by_key[binding.routing_key]

    def match(self, routing_keys: Sequence[str], headers: Headers) -> Iterator[Target]:
        for key in routing_keys:
            for binding in self._by_key.get(key, ()):
                yield binding.target


class Direct(AnyArguments):
    """The type ``direct``."""

    name = "direct"

    def index(self, exchange: Exchange) -> DirectIndex:
        """Return an empty index."""
        return DirectIndex()
