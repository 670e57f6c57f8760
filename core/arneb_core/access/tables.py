"""Tables: the records of the access catalogue by their names, in memory.

The rule: what is here is on disk. It changes by :meth:`Tables.apply` only, all of an edit at once,
so whoever reads between two awaits reads what belongs together.
"""

from collections.abc import Iterable
from typing import NamedTuple, cast

from arneb_core.access.records import KINDS, AnyRecord, Key, Record, Vhost


class Changed(NamedTuple):
    """A record that came (:attr:`before` is None), went or became another."""

    before: Record | None
    after: Record | None


class Tables:
    """All records."""

    def __init__(self, records: Iterable[Record] = ()) -> None:
        self._rows: dict[type[Record], dict[Key, Record]] = {kind: {} for kind in KINDS}
        self.vhost_names: dict[str, str] = {}
        """By their namespaces, of which no two vhosts have the same."""
        self.apply(Changed(None, record) for record in records)

    def __repr__(self) -> str:
        counts = (f"{len(rows)} {kind.TABLE}" for kind, rows in self._rows.items() if rows)
        return f"<Tables {', '.join(counts) or 'empty'}>"

    def get(self, kind: type[AnyRecord], *key: str) -> AnyRecord | None:
        """The record of that name."""
        return cast("AnyRecord | None", self._rows[kind].get(key))

    def rows(self, kind: type[AnyRecord]) -> list[AnyRecord]:
        """All of a kind, in the order of their names."""
        rows = self._rows[kind]
        return [cast("AnyRecord", rows[key]) for key in sorted(rows)]

    def apply(self, changed: Iterable[Changed]) -> None:
        """An edit is on disk."""
        for before, after in changed:
            if after is not None:
                self._rows[type(after)][after.key] = after
            elif before is not None:
                self._rows[type(before)].pop(before.key, None)
            if isinstance(after, Vhost):
                self.vhost_names[after.namespace] = after.name
            elif isinstance(before, Vhost):
                self.vhost_names.pop(before.namespace, None)
