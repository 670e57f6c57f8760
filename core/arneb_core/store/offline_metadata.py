"""Offline metadata: changes of the frontend metadata of a store that no broker has open.

The rule: it changes only rows of metadata. An opened engine would do more: it trims what its
settings do not retain, and those would not be a broker's.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Self

from arneb_core.api.errors import StoreUnusable
from arneb_core.store.data_file.opening import DATA_NAME
from arneb_core.store.environment import Store
from arneb_core.store.format.changes import Changes
from arneb_core.store.format.schema import Table, frontend_key
from arneb_core.store.reading.frontend_rows import metadata_rows


class OfflineMetadata:
    """The metadata of one store, while it is open; for a ``with`` block.

    Raises :class:`.StoreUnusable` when there is no store, or a broker has it open.
    """

    def __init__(self, path: Path) -> None:
        if not (path / DATA_NAME).exists():
            raise StoreUnusable(f"no store in {path}")
        self._store = Store.open(path)

    def __repr__(self) -> str:
        return f"<OfflineMetadata of {self._store!r}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._store.close()

    def rows(self, prefix: str) -> dict[str, bytes]:
        """Return the rows whose keys begin with ``prefix``."""
        with self._store.snapshot() as snapshot:
            return metadata_rows(snapshot, prefix)

    def change(self, rows: Sequence[tuple[str, bytes | None]]) -> None:
        """Write or delete rows, all in one commit. Raises :class:`.CommitFailed`."""
        puts = [(Table.CATALOG, frontend_key(key), value) for key, value in rows]
        self._store.commit(Changes(puts=puts))
