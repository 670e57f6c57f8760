"""Values: what scenarios send and expect, as the schemas and the records of a library.

The rule: a scenario says bytes, text or the fields of a record; only here they become objects of a
library, and those the same again.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message as ProtobufMessage

Make = Callable[..., Any]
"""A class of schemas: it takes what it is a schema of."""


class Values:
    """Those of one library."""

    def __init__(
        self,
        records: Mapping[str, type],
        fields_of: Callable[[type], Iterable[str]],
        *,
        plain: Mapping[str, Make],
        of_records: Mapping[str, Make],
        protobuf: Make,
    ) -> None:
        """``records`` are the versions of one record, by name; ``fields_of`` names the fields of
        one; ``plain`` and ``of_records`` are classes of schemas, by their names in scenarios."""
        self._records = dict(records)
        self._fields_of = fields_of
        self._plain = frozenset(plain)
        self._schemas: dict[str, Any] = {
            **{name: make() for name, make in plain.items()},
            **{
                f"{name} {version}": make(record)
                for name, make in of_records.items()
                for version, record in records.items()
            },
            "protobuf": protobuf(Duration),
        }

    def __repr__(self) -> str:
        return f"<Values of {len(self._schemas)} schemas>"

    def schema(self, name: str) -> Any:
        """The library's own."""
        return self._schemas[name]

    def made(self, schema: str, value: Any) -> Any:
        """A value of the library's from a plain one."""
        kind, _, version = schema.partition(" ")
        if value is None or kind in self._plain:
            return value
        return Duration(**value) if kind == "protobuf" else self._records[version](**value)

    def plain(self, value: Any) -> Any:
        """The other way."""
        if isinstance(value, ProtobufMessage):
            return {each.name: content for each, content in value.ListFields()}
        if isinstance(value, tuple(self._records.values())):
            return {name: getattr(value, name) for name in self._fields_of(type(value))}
        return value
