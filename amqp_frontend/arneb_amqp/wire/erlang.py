"""How RabbitMQ writes values into its error texts: Erlang terms.

Clients and their test suites match on these texts, so ours read the same.
"""

from collections.abc import Mapping

from arneb_amqp.wire.tables import Decimal, Field, FieldValue

_PRINTABLE = frozenset(range(0x20, 0x7F)) | frozenset(range(0xA0, 0x100)) | set(b"\b\t\n\v\f\r\x1b")
_ESCAPES = {
    ord('"'): '\\"',
    ord("\\"): "\\\\",
    8: "\\b",
    9: "\\t",
    10: "\\n",
    11: "\\v",
    12: "\\f",
    13: "\\r",
    27: "\\e",
}


def render_octets(data: bytes) -> str:
    """``<<1,2,3>>``: a binary as numbers, whatever it holds (Erlang's ``~w``)."""
    return f"<<{','.join(map(str, data))}>>"


def render_binary(data: bytes) -> str:
    """``<<"text">>``, or numbers when it is not printable (Erlang's ``~p``)."""
    if not data or not _PRINTABLE.issuperset(data):
        return render_octets(data)
    return f'<<"{"".join(_ESCAPES.get(octet, chr(octet)) for octet in data)}">>'


def render_value(value: FieldValue) -> str:
    """A field's value as ``~p`` shows it."""
    match value:
        case None:
            return "undefined"
        case bool():
            return "true" if value else "false"
        case bytes():
            return render_binary(value)
        case Decimal(scale, unscaled):
            return f"{{{scale},{unscaled}}}"
        case tuple():
            return f"[{','.join(map(_render_field, value))}]"
        case Mapping():
            rows = (
                f"{{{render_binary(name.encode('utf-8', 'surrogateescape'))},"
                f"{field.type.erlang_name},{render_value(field.value)}}}"
                for name, field in value.items()
            )
            return f"[{','.join(rows)}]"
        case _:
            return repr(value)


def _render_field(field: Field) -> str:
    return f"{{{field.type.erlang_name},{render_value(field.value)}}}"
