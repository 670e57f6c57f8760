"""Replacing: a store that another takes the place of, which is made in the same directory.

The rule: what was there stays whole until the other is, on disk and marked so; from then on it is
the other, whoever is killed in between: what is left to be moved the next one moves who opens the
directory. What is not marked may be written on later, and is nobody's store.
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
"""The directory in the data directory in which the other is made."""

GIVEN_NAME: Final = "arneb.given"
"""The directory in the data directory that holds a copy of it that others are given."""

WHOLE_NAME: Final = "whole"
"""The file that says that it is, and of which files it is made."""

FILES: Final = frozenset({DATA_NAME, JOURNAL_NAME})
"""Of which a store may be made."""


def begin_replacing(directory: Path) -> Path:
    """Where the other store is to be made; what was made there is still there."""
    making = directory / COPY_NAME
    making.mkdir(mode=0o750, exist_ok=True)
    return making


def mark_whole(directory: Path, names: Collection[str]) -> None:
    """Say that the other store is whole: it has these files. They are on disk then."""
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


def finish_replacing(directory: Path) -> bool:
    """Put the other store in its place, if it is whole; whether it was. Nobody else has the
    directory open. Raises :class:`OSError`."""
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
        # The data last: until then all of this is done once more.
        os.replace(making / DATA_NAME, directory / DATA_NAME)
        sync_directory(directory)
    shutil.rmtree(making)
    return True


def give_up_replacing(directory: Path) -> None:
    """Remove what was made of another store and is not whole."""
    making = directory / COPY_NAME
    if not (making / WHOLE_NAME).exists():
        shutil.rmtree(making, ignore_errors=True)
