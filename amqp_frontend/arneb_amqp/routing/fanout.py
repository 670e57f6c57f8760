"""The fanout exchange: a message goes to every destination bound."""

from collections.abc import Iterator, Sequence

from arneb_amqp.routing.exchange import Binding, Exchange, Target
from arneb_amqp.routing.exchange_type import AnyArguments, Headers


class FanoutIndex:
    """Bindings, in order of arrival."""

    def __init__(self) -> None:
        self._bindings: dict[Binding, None] = {}

    def __repr__(self) -> str:
        return f"<FanoutIndex of {len(self._bindings)} bindings>"

    def add(self, binding: Binding) -> None:
        self._bindings[binding] = None

    def remove(self, binding: Binding) -> None:
        del self._bindings[binding]

    def match(self, routing_keys: Sequence[str], headers: Headers) -> Iterator[Target]:
        for binding in self._bindings:
            yield binding.target


class Fanout(AnyArguments):
    """The type ``fanout``."""

    name = "fanout"

    def index(self, exchange: Exchange) -> FanoutIndex:
        """Return an empty index."""
        return FanoutIndex()
