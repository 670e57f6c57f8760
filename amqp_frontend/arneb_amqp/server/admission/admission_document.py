"""Admission documents: a client on its way to another node, as bytes.

The rule: it is an AMQP field table, decoded as strictly as a client's. Every field must be there
and have its type; unknown fields come from a newer node and are ignored.
"""

from collections.abc import Callable
from typing import Final, TypeVar

from arneb_amqp.errors import AmqpError
from arneb_amqp.server.transport.remote import Remote
from arneb_amqp.session.connection.admission import Admission, Terms
from arneb_amqp.wire.tables import (
    Field,
    FieldType,
    Table,
    boolean,
    decode_table,
    encode_table,
    long,
    longstr,
    table,
)

NOTHING: Final = Field(FieldType.VOID, None)

PORT_MAX: Final = 0xFFFF
SHORT_MAX: Final = 0xFFFF
LONG_MAX: Final = 0xFFFF_FFFF
"""The largest values in ``connection.tune-ok``."""

Value = TypeVar("Value")


class BadAdmission(ValueError):
    """The bytes are not an admission; the text says what was expected and what was received."""


def encode_admission(admission: Admission, remote: Remote) -> bytes:
    """Return the document of a client from ``remote``."""
    terms = admission.terms
    return encode_table(
        {
            "user": longstr(admission.user),
            "secret": NOTHING if admission.secret is None else longstr(admission.secret),
            "vhost": longstr(admission.vhost),
            "mechanism": longstr(terms.mechanism),
            "channel_max": long(terms.channel_max),
            "frame_bytes_max": long(terms.frame_bytes_max),
            "heartbeat_s": long(terms.heartbeat_s),
            "client_properties": table(terms.client_properties),
            "address": longstr(remote.address),
            "port": long(remote.port),
            "loopback": boolean(remote.loopback),
            "local_address": longstr(remote.local[0]),
            "local_port": long(remote.local[1]),
            "secured": boolean(remote.secured),
            "certificate": NOTHING
            if remote.certificate is None
            else Field(FieldType.BINARY, remote.certificate),
            "cipher": longstr(remote.cipher[0]),
            "tls_version": longstr(remote.cipher[1]),
        }
    )


def decode_admission(document: bytes) -> tuple[Admission, Remote]:
    """Return the client and its address. Raises :class:`BadAdmission`."""
    try:
        fields = decode_table(document)
    except AmqpError as error:
        raise BadAdmission(f"expected a field table: {error.explanation}") from None
    terms = Terms(
        _table(fields, "client_properties"),
        _text(fields, "mechanism"),
        _number(fields, "channel_max", SHORT_MAX),
        _number(fields, "frame_bytes_max", LONG_MAX),
        _number(fields, "heartbeat_s", SHORT_MAX),
    )
    secret = _or_nothing(fields, "secret", _text)
    admission = Admission(_text(fields, "user"), secret, terms, _text(fields, "vhost"))
    remote = Remote(
        _text(fields, "address"),
        _truth(fields, "loopback"),
        _or_nothing(fields, "certificate", _binary),
        _number(fields, "port", PORT_MAX),
        (_text(fields, "local_address"), _number(fields, "local_port", PORT_MAX)),
        _truth(fields, "secured"),
        (_text(fields, "cipher"), _text(fields, "tls_version")),
    )
    return admission, remote


def _field(fields: Table, name: str, kind: FieldType) -> Field:
    found = fields.get(name)
    if found is None or found.type is not kind:
        got = "nothing" if found is None else found.type.erlang_name
        raise BadAdmission(f"{name}: expected {kind.erlang_name}, got {got}")
    return found


def _text(fields: Table, name: str) -> str:
    return _field(fields, name, FieldType.LONGSTR).text


def _binary(fields: Table, name: str) -> bytes:
    value = _field(fields, name, FieldType.BINARY).value
    assert isinstance(value, bytes)
    return value


def _truth(fields: Table, name: str) -> bool:
    return bool(_field(fields, name, FieldType.BOOL).value)


def _number(fields: Table, name: str, most: int) -> int:
    value = _field(fields, name, FieldType.LONG).value
    assert isinstance(value, int)
    if not 0 <= value <= most:
        raise BadAdmission(f"{name}: expected 0 to {most}, got {value}")
    return value


def _table(fields: Table, name: str) -> Table:
    value = _field(fields, name, FieldType.TABLE).value
    assert isinstance(value, dict)
    return value


def _or_nothing(fields: Table, name: str, read: Callable[[Table, str], Value]) -> Value | None:
    return None if fields.get(name) == NOTHING else read(fields, name)
