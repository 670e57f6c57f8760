"""Parser of types as Spark writes them: ``amount double, tags array<string>``.

The rule: it accepts Spark's names of types, in any case; anything else is refused, with the place
of the error.
"""

import re
from typing import Final

import pyarrow as pa

_SIMPLE: Final = {
    "string": pa.string(), "boolean": pa.bool_(), "tinyint": pa.int8(), "byte": pa.int8(),
    "smallint": pa.int16(), "short": pa.int16(), "int": pa.int32(), "integer": pa.int32(),
    "bigint": pa.int64(), "long": pa.int64(), "float": pa.float32(), "real": pa.float32(),
    "double": pa.float64(), "binary": pa.binary(), "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
}  # fmt: skip
_TOKEN: Final = re.compile(r"\s*(`[^`]+`|\w+|[<>(),:])")


def struct_type(text: str) -> pa.DataType:
    """Return the struct of the fields. Raises :class:`ValueError`."""
    reader = _Reader(text)
    kind = reader.fields("")
    reader.expect("")
    return kind


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[str] = []
        at = 0
        while text[at:].strip():
            found = _TOKEN.match(text, at)
            if not found:
                raise ValueError(f"expected fields such as amount double, got {text[at:]!r}")
            self._tokens.append(found[1])
            at = found.end()
        self._tokens.reverse()

    def take(self) -> str:
        return self._tokens.pop() if self._tokens else ""

    def expect(self, token: str) -> None:
        found = self.take()
        if found != token:
            expected = repr(token) if token else "the end"
            raise ValueError(f"expected {expected}, got {found!r} in {self._text!r}")

    def fields(self, close: str) -> pa.DataType:
        found: list[tuple[str, pa.DataType]] = []
        while True:
            name = self.take().strip("`")
            if not name or not re.fullmatch(r"[^<>(),:]+", name):
                raise ValueError(f"expected the name of a field, got {name!r} in {self._text!r}")
            if self._tokens and self._tokens[-1] == ":":
                self.take()
            found.append((name, self.type()))
            if not self._tokens or self._tokens[-1] == close:
                return pa.struct(found)
            self.expect(",")

    def type(self) -> pa.DataType:
        name = self.take().lower()
        if name in _SIMPLE:
            return _SIMPLE[name]
        match name:
            case "decimal":
                return self._decimal()
            case "array":
                self.expect("<")
                kind = pa.list_(self.type())
            case "map":
                self.expect("<")
                key = self.type()
                self.expect(",")
                kind = pa.map_(key, self.type())
            case "struct":
                self.expect("<")
                kind = self.fields(">")
            case _:
                raise ValueError(f"expected a type, got {name!r} in {self._text!r}")
        self.expect(">")
        return kind

    def _decimal(self) -> pa.DataType:
        self.expect("(")
        precision = self.take()
        scale = "0"
        if self._tokens and self._tokens[-1] == ",":
            self.take()
            scale = self.take()
        self.expect(")")
        try:
            return pa.decimal128(int(precision), int(scale))
        except (ValueError, pa.ArrowInvalid):
            raise ValueError(f"expected decimal(precision, scale) in {self._text!r}") from None
