"""Creating: a new store's data file.

The rule: the file gets its name only when it is whole, so an empty one, or one without tables, was
never made by us, whatever power cut or kill came in between. LMDB creates the file where it opens
it, so it is made in a directory beside, and moved out of that.
"""

import os
import shutil
from pathlib import Path
from typing import Final

from arneb_core.store.data_file.opening import DATA_NAME, open_lmdb, sync_directory
from arneb_core.store.format.records import pack_number
from arneb_core.store.format.schema import FORMAT_VERSION, META_FORMAT, Table

NEW_NAME: Final = "arneb.new"
"""The directory beside. What a killed start leaves of it is removed by the next start."""


def create_store(directory: Path) -> None:
    """Create an empty store, durably. Raises ``lmdb.Error`` and :class:`OSError`."""
    making = directory / NEW_NAME
    shutil.rmtree(making, ignore_errors=True)
    making.mkdir(mode=0o750)
    env = open_lmdb(making, readonly=False, new=True)
    try:
        with env.begin(write=True) as txn:
            handles = {table: env.open_db(table.value, txn=txn) for table in Table}
            txn.put(META_FORMAT, pack_number(FORMAT_VERSION), db=handles[Table.META])
    finally:
        env.close()
    os.rename(making / DATA_NAME, directory / DATA_NAME)
    sync_directory(directory)
    shutil.rmtree(making, ignore_errors=True)
