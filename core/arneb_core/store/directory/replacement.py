"""Replacement: a store takes the place of another, and is made in the same directory.

The rule: the old store stays whole until the new one is on disk and marked whole; from then on the
new one counts, even after a kill: whoever opens the directory next completes the move. A store that
is not marked may be incomplete, and is not used.
"""

import json
import os
import shutil
from collections.abc import Collection
from pathlib import Path
from typing import Final

from arneb_core.store.data_file.opening import DATA_NAME, LMDB_LOCK_NAME, sync_directory, sync_file
from arneb_core.store.journal.writing import JOURNAL_NAME

COPY_NAME: Final = "arneb.copy"
"""The directory inside the data directory in which the new store is made."""

GIVEN_NAME: Final = "arneb.given"
"""The directory inside the data directory with a copy that other nodes may fetch."""

WHOLE_NAME: Final = "whole"
"""The file that marks a store as whole, and lists its files."""

FILES: Final = frozenset({DATA_NAME, JOURNAL_NAME})
"""The files that a store may consist of."""


def begin_replacement(directory: Path) -> Path:
    """Return where to make the new store; an earlier attempt's files are still there."""
    making = directory / COPY_NAME
    making.mkdir(mode=0o750, exist_ok=True)
    return making


def mark_whole(directory: Path, names: Collection[str]) -> None:
    """Mark the new store, which consists of these files, as whole, after flushing it."""
    if DATA_NAME not in names or not FILES.issuperset(names):
        raise ValueError(f"expected {DATA_NAME}, and no more than {sorted(FILES)}, got {names}")
    making = directory / COPY_NAME
    for name in names:
        sync_file(making / name)
    for each in making.iterdir():
        if each.name not in names:
            each.unlink()
    sync_directory(making)
    marking = making / f"{WHOLE_NAME}.new"
    marking.write_text(json.dumps(sorted(names)))
    sync_file(marking)
    os.replace(marking, making / WHOLE_NAME)
    sync_directory(making)


def finish_replacement(directory: Path) -> bool:
    """Put the new store in its place if it is whole; return whether it was. No other process has
    the directory open. Raises :class:`OSError`."""
    making = directory / COPY_NAME
    try:
        names = json.loads((making / WHOLE_NAME).read_text())
    except FileNotFoundError:
        return False
    if (making / DATA_NAME).exists():
        if (making / JOURNAL_NAME).exists():
            os.replace(making / JOURNAL_NAME, directory / JOURNAL_NAME)
        elif JOURNAL_NAME not in names:
            (directory / JOURNAL_NAME).unlink(missing_ok=True)
        (directory / LMDB_LOCK_NAME).unlink(missing_ok=True)
        # The data file last: until then a restart repeats all of this.
        os.replace(making / DATA_NAME, directory / DATA_NAME)
        sync_directory(directory)
    shutil.rmtree(making)
    return True


def abandon_replacement(directory: Path) -> None:
    """Remove a new store that is not whole."""
    making = directory / COPY_NAME
    if not (making / WHOLE_NAME).exists():
        shutil.rmtree(making, ignore_errors=True)
