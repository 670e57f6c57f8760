"""The values that scenarios send and expect, in terms of a library's schemas and records.

The rule: scenarios use bytes, text or the fields of a record. Only here are these converted to
objects of a library and back.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message as ProtobufMessage

Make = Callable[..., Any]
"""A schema class: it is called with what it is a schema of."""


class Values:
    """The values of one library."""

    def __init__(
        self,
        records: Mapping[str, type],
        fields_of: Callable[[type], Iterable[str]],
        *,
        plain: Mapping[str, Make],
        of_records: Mapping[str, Make],
        protobuf: Make,
    ) -> None:
        """``records`` are the versions of one record, by name, and ``fields_of`` returns the names
        of a record's fields. ``plain`` and ``of_records`` are schema classes, by their names in
        scenarios."""
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
        """The library's schema of that name in scenarios."""
        return self._schemas[name]

    def made(self, schema: str, value: Any) -> Any:
        """Convert a plain value to the library's."""
        kind, _, version = schema.partition(" ")
        if value is None or kind in self._plain:
            return value
        return Duration(**value) if kind == "protobuf" else self._records[version](**value)

    def plain(self, value: Any) -> Any:
        """Convert the library's value to a plain one."""
        if isinstance(value, ProtobufMessage):
            return {each.name: content for each, content in value.ListFields()}
        if isinstance(value, tuple(self._records.values())):
            return {name: getattr(value, name) for name in self._fields_of(type(value))}
        return value
