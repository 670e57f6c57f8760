"""The headers exchange: a binding's arguments are compared with a message's headers.

``x-match`` says how many must fit: ``all`` (the default) or ``any``, both blind to names that
begin with ``x-``; ``all-with-x`` and ``any-with-x`` look at those too. A void argument asks
only that the header is there. Types do not matter, values do: RabbitMQ compares Erlang terms,
in which a ``short`` 5 equals a ``long`` 5 and a ``double`` 5.0.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from arneb_amqp.errors import precondition_failed
from arneb_amqp.routing.exchange import Binding, Exchange, Target
from arneb_amqp.routing.exchange_type import Headers
from arneb_amqp.wire.erlang import render_value
from arneb_amqp.wire.tables import Field, FieldType

X_MATCH: Final = "x-match"
IGNORED_PREFIX: Final = "x-"

_HOW_MANY: Final[Mapping[bytes, Callable[[Iterable[bool]], bool]]] = {
    b"all": all,
    b"any": any,
    b"all-with-x": all,
    b"any-with-x": any,
}

_Pattern: TypeAlias = tuple[Callable[[Iterable[bool]], bool], tuple[tuple[str, Field], ...]]


class HeadersIndex:
    """Bindings with their patterns; each message is compared with all of them."""

    def __init__(self) -> None:
        self._patterns: dict[Binding, _Pattern] = {}

    def add(self, binding: Binding) -> None:
        self._patterns[binding] = _pattern_of(binding.arguments)

    def remove(self, binding: Binding) -> None:
        del self._patterns[binding]

    def match(self, routing_keys: Sequence[str], headers: Headers) -> Iterator[Target]:
        for binding, (enough, wanted) in self._patterns.items():
            if enough(_fits(field, headers.get(name)) for name, field in wanted):
                yield binding.target


def _pattern_of(arguments: Mapping[str, Field]) -> _Pattern:
    match = arguments.get(X_MATCH)
    mode = match.value if match is not None and isinstance(match.value, bytes) else b"all"
    with_x = mode.endswith(b"-with-x")
    wanted = tuple(
        (name, field)
        for name, field in arguments.items()
        if name != X_MATCH and (with_x or not name.startswith(IGNORED_PREFIX))
    )
    return _HOW_MANY.get(mode, all), wanted


def _fits(wanted: Field, got: Field | None) -> bool:
    if got is None:
        return False
    if wanted.type is FieldType.VOID:
        return True
    # Python takes True for 1, Erlang does not.
    both_or_neither = isinstance(wanted.value, bool) == isinstance(got.value, bool)
    return both_or_neither and wanted.value == got.value


class HeadersType:
    """The type ``headers``."""

    name = "headers"
    reads_headers = True

    def check(self, exchange: Exchange) -> None:
        """All arguments are fine."""

    def check_binding(self, binding: Binding) -> None:
        """Raise 406 for an ``x-match`` that means nothing."""
        match = binding.arguments.get(X_MATCH)
        if match is None:
            return
        shown = render_value(match.value)
        if match.type is not FieldType.LONGSTR:
            raise precondition_failed(
                f"Invalid x-match field type {match.type.erlang_name} "
                f"(value {shown}); expected longstr"
            )
        if match.value not in _HOW_MANY:
            raise precondition_failed(
                f"Invalid x-match field value {shown}; expected all, any, all-with-x, or any-with-x"
            )

    def index(self, exchange: Exchange) -> HeadersIndex:
        """An empty index."""
        return HeadersIndex()
