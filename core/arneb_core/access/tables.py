"""Tables: the records of the access catalogue in memory, by name.

The rule: what is here is on disk. It changes only by :meth:`Tables.apply`, a whole edit at once, so
code between two awaits reads a consistent state.
"""

from collections.abc import Iterable
from typing import NamedTuple, cast

from arneb_core.access.records import KINDS, AnyRecord, Key, Record, Vhost


class Changed(NamedTuple):
    """A record that was added (:attr:`before` is None), removed or changed."""

    before: Record | None
    after: Record | None


class Tables:
    """All records."""

    def __init__(self, records: Iterable[Record] = ()) -> None:
        self._rows: dict[type[Record], dict[Key, Record]] = {kind: {} for kind in KINDS}
        self.vhost_names: dict[str, str] = {}
        """Vhosts by namespace; no two vhosts have the same one."""
        self.apply(Changed(None, record) for record in records)

    def __repr__(self) -> str:
        counts = (f"{len(rows)} {kind.TABLE}" for kind, rows in self._rows.items() if rows)
        return f"<Tables {', '.join(counts) or 'empty'}>"

    def get(self, kind: type[AnyRecord], *key: str) -> AnyRecord | None:
        """Return the record of that name."""
        return cast("AnyRecord | None", self._rows[kind].get(key))

    def rows(self, kind: type[AnyRecord]) -> list[AnyRecord]:
        """Return all records of a kind, sorted by key."""
        rows = self._rows[kind]
        return [cast("AnyRecord", rows[key]) for key in sorted(rows)]

    def apply(self, changed: Iterable[Changed]) -> None:
        """Take in an edit that is on disk."""
        for before, after in changed:
            if after is not None:
                self._rows[type(after)][after.key] = after
            elif before is not None:
                self._rows[type(before)].pop(before.key, None)
            if isinstance(after, Vhost):
                self.vhost_names[after.namespace] = after.name
            elif isinstance(before, Vhost):
                self.vhost_names.pop(before.namespace, None)
