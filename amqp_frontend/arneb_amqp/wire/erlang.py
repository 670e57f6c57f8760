"""Values as RabbitMQ's error texts show them: Erlang terms.

Clients and their test suites match on these texts, so ours read the same.
"""

import decimal
import re
from collections.abc import Mapping
from math import isfinite
from typing import Final

from arneb_amqp.wire.tables import Decimal, Field, FieldValue

_PRINTABLE = frozenset(range(0x20, 0x7F)) | frozenset(range(0xA0, 0x100)) | set(b"\b\t\n\v\f\r\x1b")
_ESCAPES = {
    ord('"'): b'\\"',
    ord("\\"): b"\\\\",
    8: b"\\b",
    9: b"\\t",
    10: b"\\n",
    11: b"\\v",
    12: b"\\f",
    13: b"\\r",
    27: b"\\e",
}

_PLAIN_ATOM: Final = re.compile("[a-z][a-zA-Z0-9_@]*")

LINE_MAX: Final = 78
"""The most characters that ``~p`` writes into one line."""

EXACT_MAX: Final = 1 << 53
"""Above this not every integer is a float, and plain digits would suggest false precision."""


def render_octets(data: bytes) -> str:
    """Render a binary as numbers, ``<<1,2,3>>``, whatever it holds (Erlang's ``~w``)."""
    return f"<<{','.join(map(str, data))}>>"


def render_binary(data: bytes) -> str:
    """Render a binary as ``<<"text">>``, or as numbers if it is not printable (Erlang's ``~p``)."""
    if not data or not _PRINTABLE.issuperset(data):
        return render_octets(data)
    return f"<<{_quoted(data)}>>"


def render_string(text: str) -> str:
    """Render ``"text"``, or a list of octets if it is not printable: Erlang's strings are lists."""
    data = text.encode("utf-8", "surrogateescape")
    if not _PRINTABLE.issuperset(data):
        return f"[{','.join(map(str, data))}]"
    return _quoted(data)


def render_atom(name: str) -> str:
    """Render an atom: ``direct``, but ``'x-consistent-hash'``."""
    return name if _PLAIN_ATOM.fullmatch(name) else f"'{name}'"


def _quoted(data: bytes) -> str:
    escaped = b"".join(_ESCAPES.get(octet, bytes((octet,))) for octet in data)
    return '"' + escaped.decode("utf-8", "surrogateescape") + '"'


def render_pair(atom: str, value: str, column: int) -> str:
    """Render ``{atom,value}`` as ``~p`` does at a column: what does not fit into the line goes to
    the next one."""
    pair = f"{{{atom},{value}}}"
    if column + len(pair) <= LINE_MAX:
        return pair
    return f"{{{atom},\n{' ' * (column + 1)}{value}}}"


def render_value(value: FieldValue) -> str:
    """Render a field's value as ``~p`` does."""
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
            return f"[{','.join(render_rows(value))}]"
        case float():
            return render_float(value)
        case _:
            return repr(value)


def render_rows(fields: Mapping[str, Field]) -> list[str]:
    """Render the rows of a table, each as ``{<<"name">>,type,value}``."""
    return [
        f"{{{render_binary(name.encode('utf-8', 'surrogateescape'))},"
        f"{field.type.erlang_name},{render_value(field.value)}}}"
        for name, field in fields.items()
    ]


def render_float(value: float) -> str:
    """Render the shortest digits that denote ``value``, with an exponent if that is shorter
    still."""
    if not isfinite(value):
        return repr(value)  # Erlang has no such floats, hence no text for them.
    sign, digits, exponent = decimal.Decimal(repr(value)).as_tuple()
    assert isinstance(exponent, int), "it is finite"
    text = "".join(map(str, digits)).lstrip("0") or "0"
    before_point = len(text) + exponent if value else 1
    text = text.rstrip("0") or "0"
    whole = text[: max(before_point, 0)].ljust(before_point, "0") or "0"
    rest = text[max(before_point, 0) :].rjust(len(text) - before_point, "0") or "0"
    plain = f"{whole}.{rest}"
    scientific = f"{text[0]}.{text[1:] or '0'}e{before_point - 1}"
    shorter = len(scientific) < len(plain) or abs(value) >= EXACT_MAX
    return ("-" if sign else "") + (scientific if shorter else plain)


def _render_field(field: Field) -> str:
    return f"{{{field.type.erlang_name},{render_value(field.value)}}}"
