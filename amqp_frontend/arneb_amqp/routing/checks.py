"""Checks of single properties, as RabbitMQ makes them on a publish."""

from dataclasses import replace
from typing import Final

from arneb_amqp.errors import access_refused, exchange_in_words, precondition_failed
from arneb_amqp.routing.exchange import DEFAULT_EXCHANGE, RESERVED_PREFIX
from arneb_amqp.wire.erlang import render_pair, render_string
from arneb_amqp.wire.properties import EXPIRATION_MS_MAX, Properties, PropertyFlag
from arneb_amqp.wire.route import is_short
from arneb_amqp.wire.tables import Field, FieldType

_TO_BE_READ: Final = (
    PropertyFlag.EXPIRATION | PropertyFlag.USER_ID | PropertyFlag.REPLY_TO | PropertyFlag.HEADERS
)
_EXPIRATION: Final = int(PropertyFlag.EXPIRATION)
"""A plain number, because it is used for each message."""

COPY_HEADERS: Final = ("CC", "BCC")


def is_plain(properties: bytes) -> bool:
    """Whether no property in the list matters to the broker when the message is published."""
    return not int.from_bytes(properties[:2], "big") & _TO_BE_READ


def is_plain_when_due(properties: bytes) -> bool:
    """Whether no property in the list matters to a broker that routes a message when its delay has
    passed, unless an exchange reads headers. May be False without need."""
    flags = int.from_bytes(properties[:2], "big")
    return not flags & _EXPIRATION and b"CC" not in properties


def refuse_default(exchange: str) -> None:
    """Raises 403 for the default exchange, which nobody may change."""
    if exchange == DEFAULT_EXCHANGE:
        raise access_refused("operation not permitted on the default exchange")


def refuse_system(exchange: str, vhost: str) -> None:
    """Raises 403 for exchanges that nobody may delete."""
    refuse_default(exchange)
    if exchange.startswith(RESERVED_PREFIX):
        words = exchange_in_words(exchange, vhost)
        raise access_refused(f"deletion of system {words} not allowed")


def refuse_reserved(kind: str, name: str) -> None:
    """Raises 403 for names that only the broker may assign."""
    if name.startswith(RESERVED_PREFIX):
        raise access_refused(f"{kind} name '{name}' contains reserved prefix 'amq.*'")


def refuse_long(kind: str, name: str) -> None:
    """Raises 406 for names that no client could use. Only those that come over HTTP, or in an
    argument, can be so long."""
    if not is_short(name):
        actual = len(name.encode("utf-8", "surrogateescape"))
        raise precondition_failed(f"{kind} should be less than 255 bytes, actually was {actual}")


def check_expiration(expiration: str | None) -> int | None:
    """Return the expiration in ms, None if absent. Raises RabbitMQ's 406 for anything else."""
    if expiration is None:
        return None
    sign, digits = _split_number(expiration)
    rest = expiration[len(sign) + len(digits) :]
    begun = f"invalid expiration '{expiration}': "
    fault = None
    if not digits:
        fault = "no_integer"
    elif rest:
        fault = render_pair("leftover_string", render_string(rest), len(begun))
    elif sign == "-" and int(digits):
        fault = render_pair("value_negative", f"-{int(digits)}", len(begun))
    elif int(digits) > EXPIRATION_MS_MAX:
        fault = render_pair("value_too_large", f"{int(digits)}", len(begun))
    if fault is not None:
        raise precondition_failed(begun + fault)
    return int(digits)


def _split_number(text: str) -> tuple[str, str]:
    sign = text[:1] if text[:1] in ("-", "+") else ""
    digits = ""
    for character in text[len(sign) :]:
        if not ("0" <= character <= "9"):
            break
        digits += character
    return sign, digits


def carbon_copies(properties: Properties) -> tuple[tuple[str, ...], Properties]:
    """Return the additional routing keys in the headers CC and BCC, and the properties to store:
    receivers do not see BCC. Raises RabbitMQ's 406 when a header is not a list."""
    headers = properties.headers or {}
    keys = [key for name in COPY_HEADERS if name in headers for key in _keys(name, headers[name])]
    if "BCC" not in headers:
        return tuple(keys), properties
    seen = {name: field for name, field in headers.items() if name != "BCC"}
    return tuple(keys), replace(properties, headers=seen)


def _keys(name: str, field: Field) -> list[str]:
    """Return the strings of a list; other members are skipped, as in RabbitMQ."""
    if field.type is not FieldType.ARRAY or not isinstance(field.value, tuple):
        kind = field.type.erlang_name
        raise precondition_failed(
            f'invalid message: {{unacceptable_type_in_header,"{name}",{kind}}}'
        )
    return [each.text for each in field.value if each.type is FieldType.LONGSTR]
