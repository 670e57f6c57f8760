"""The delayed message exchange: it delays a message by its header ``x-delay``, then routes it like
the exchange type that its argument ``x-delayed-type`` names.

The rule: this module knows only what is delayed and for how long. Source: the README and
``rabbit_exchange_type_delayed_message`` of RabbitMQ's plugin.
"""

from collections.abc import Mapping
from typing import Final

from arneb_amqp.errors import command_invalid, precondition_failed
from arneb_amqp.routing.exchange import Binding, Exchange
from arneb_amqp.routing.exchange_type import BindingIndex, ExchangeType
from arneb_amqp.wire.tables import Field, FieldType, lookup_text

DELAYED_MESSAGE: Final = "x-delayed-message"
DELAYED_TYPE: Final = "x-delayed-type"
"""The argument that names the type by which a due message is routed."""

DELAY: Final = "x-delay"
"""The header with the delay in milliseconds."""

DELAY_FIELD: Final = bytes((len(DELAY),)) + DELAY.encode() + b"I"
"""The header with a signed int, excluding its value: what most client libraries send."""
DELAY_BYTES: Final = 4

DELAY_MS_MAX: Final = (1 << 32) - 1
"""RabbitMQ's bound, which is that of Erlang's timers; larger values do not delay."""

SIGNEDINT_MIN: Final = -(1 << 31)


class DelayedMessage:
    """The type ``x-delayed-message``."""

    name = DELAYED_MESSAGE

    def __init__(self, types: Mapping[str, ExchangeType]) -> None:
        self._types = types

    def __repr__(self) -> str:
        return f"<DelayedMessage over {len(self._types)} types>"

    def reads_headers(self, exchange: Exchange) -> bool:
        """Return True: a header says for how long."""
        return True

    def check(self, exchange: Exchange) -> None:
        """Check that it names another type and passes that type's own checks."""
        named = exchange.arguments.get(DELAYED_TYPE)
        name = lookup_text(exchange.arguments, DELAYED_TYPE)
        if named is None or named.type is not FieldType.LONGSTR or name is None:
            raise precondition_failed(
                f"Invalid argument, '{DELAYED_TYPE}' must be an existing exchange type"
            )
        if name == DELAYED_MESSAGE:
            raise precondition_failed(
                f"Invalid argument, '{DELAYED_MESSAGE}' can't be used for '{DELAYED_TYPE}'"
            )
        if name not in self._types:
            raise command_invalid(f"unknown exchange type '{name}'")
        self._types[name].check(exchange)

    def check_binding(self, binding: Binding) -> None:
        """Do nothing: the other type checks bindings, see :meth:`routes_as`."""

    def index(self, exchange: Exchange) -> BindingIndex:
        """Return an empty index of the other type."""
        return self.routes_as(exchange).index(exchange)

    def routes_as(self, exchange: Exchange) -> ExchangeType:
        """Return the type by which ``exchange`` routes due messages."""
        return self._types[lookup_text(exchange.arguments, DELAYED_TYPE) or ""]


def delay_ms_of(headers: Mapping[str, Field]) -> int | None:
    """Return how long a delayed message exchange delays a message with these headers; None =
    not."""
    field = headers.get(DELAY)
    if field is None:
        return None
    delay_ms: int | None = None
    if field.is_integer and isinstance(field.value, int):
        delay_ms = field.value
    elif field.type is FieldType.LONGSTR:
        text = field.text
        digits = text[1:] if text[:1] in ("+", "-") else text
        # Erlang accepts no blanks, no underscores, and only ASCII digits.
        delay_ms = int(text) if digits.isascii() and digits.isdigit() and len(text) < 20 else None
    elif isinstance(field.value, float) and abs(field.value) < DELAY_MS_MAX + 1:
        delay_ms = int(field.value)
    return delay_ms if delay_ms is not None and 0 < delay_ms <= DELAY_MS_MAX else None


def delayed(headers: Mapping[str, Field], delay_ms: int) -> dict[str, Field]:
    """Return the headers of a message that was delayed by ``delay_ms``: the negative delay tells
    receivers, and keeps other such exchanges from delaying it again."""
    kind = FieldType.SIGNEDINT if -delay_ms >= SIGNEDINT_MIN else FieldType.LONG
    return {**headers, DELAY: Field(kind, -delay_ms)}
