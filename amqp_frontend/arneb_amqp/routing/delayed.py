"""The delayed message exchange: it keeps a message for so long as its header ``x-delay`` says, and
then routes it as an exchange of another type, which its argument ``x-delayed-type`` names.

The rule: here stands only what is to be delayed and for how long. Source: the README and
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
"""The argument that names how a message is routed when its time has come."""

DELAY: Final = "x-delay"
"""The header: milliseconds."""

DELAY_FIELD: Final = bytes((len(DELAY),)) + DELAY.encode() + b"I"
"""The header as a signed int, without its value: what most client libraries send."""
DELAY_BYTES: Final = 4

DELAY_MS_MAX: Final = (1 << 32) - 1
"""RabbitMQ's bound, which is that of Erlang's timers; what is more is no delay."""

SIGNEDINT_MIN: Final = -(1 << 31)


class DelayedMessage:
    """The type ``x-delayed-message``."""

    name = DELAYED_MESSAGE

    def __init__(self, types: Mapping[str, ExchangeType]) -> None:
        self._types = types

    def __repr__(self) -> str:
        return f"<DelayedMessage over {len(self._types)} types>"

    def reads_headers(self, exchange: Exchange) -> bool:
        """One of them says for how long."""
        return True

    def check(self, exchange: Exchange) -> None:
        """It must name another type, and that type's own checks hold."""
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
        """That is for the other type to say; see :meth:`routes_as`."""

    def index(self, exchange: Exchange) -> BindingIndex:
        """An empty index of the other type."""
        return self.routes_as(exchange).index(exchange)

    def routes_as(self, exchange: Exchange) -> ExchangeType:
        """The other type of ``exchange``."""
        return self._types[lookup_text(exchange.arguments, DELAYED_TYPE) or ""]


def delay_ms_of(headers: Mapping[str, Field]) -> int | None:
    """How long a delayed message exchange keeps a message with these headers; None = not."""
    field = headers.get(DELAY)
    if field is None:
        return None
    delay_ms: int | None = None
    if field.is_integer and isinstance(field.value, int):
        delay_ms = field.value
    elif field.type is FieldType.LONGSTR:
        text = field.text
        digits = text[1:] if text[:1] in ("+", "-") else text
        # Erlang reads no blanks, no underscores, and digits of ASCII only.
        delay_ms = int(text) if digits.isascii() and digits.isdigit() and len(text) < 20 else None
    elif isinstance(field.value, float) and abs(field.value) < DELAY_MS_MAX + 1:
        delay_ms = int(field.value)
    return delay_ms if delay_ms is not None and 0 < delay_ms <= DELAY_MS_MAX else None


def delayed(headers: Mapping[str, Field], delay_ms: int) -> dict[str, Field]:
    """The headers of a message that was kept for ``delay_ms``: the delay is negative, so that
    receivers can tell and no other such exchange keeps it again."""
    kind = FieldType.SIGNEDINT if -delay_ms >= SIGNEDINT_MIN else FieldType.LONG
    return {**headers, DELAY: Field(kind, -delay_ms)}
