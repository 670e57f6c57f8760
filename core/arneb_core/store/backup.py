"""Backup: a copy of a data directory that a broker can be started on, made while one runs.

The rule: a copy gets its name when it is whole, checked and on disk. It holds everything confirmed
before the backup began, and nothing that was not stored: it is what a broker killed at that moment
leaves behind, journal included.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import lmdb

from arneb_core.api.errors import StoreFailed, StoreUnusable
from arneb_core.store.checking.check_in_child import check_in_child
from arneb_core.store.checking.findings import Finding
from arneb_core.store.data_file.opening import DATA_NAME, LMDB_LOCK_NAME, sync_directory
from arneb_core.store.directory.atomic_directory import atomic_directory
from arneb_core.store.reading.snapshot_environment import open_snapshot_environment

MAKING_SUFFIX: Final = ".copying"
"""Suffix of the name of a copy that is not whole yet."""


class CopyDamaged(StoreUnusable):
    """The copy does not pass the check, and is removed."""

    def __init__(self, findings: list[Finding]) -> None:
        super().__init__(f"{len(findings)} findings in the copy")
        self.findings = findings


@dataclass(frozen=True, slots=True)
class Backup:
    """A finished copy."""

    bytes: int
    """Size of its data file."""
    is_checked: bool


def back_up(directory: Path, target: Path, *, compact: bool = False, check: bool = True) -> Backup:
    """Copy the data directory ``directory``, which a broker may be using, to ``target``.

    ``compact`` leaves out free pages, and takes longer. Without ``check`` the copy is not verified.
    Raises :class:`.StoreUnusable`, and leaves no copy, when ``target`` holds something,
    ``directory`` is damaged or holds no store, or there is no room; the kind :class:`CopyDamaged`
    has the check's findings.
    """
    try:
        with atomic_directory(target, MAKING_SUFFIX) as making:
            _copy(directory, making, compact=compact)
            if check:
                _check(making)
            size = (making / DATA_NAME).stat().st_size
            sync_directory(making)
    except (OSError, lmdb.Error, StoreFailed) as error:
        raise StoreUnusable(f"cannot back up {directory} to {target}: {error}") from error
    return Backup(size, check)


def _copy(directory: Path, making: Path, *, compact: bool) -> None:
    with open_snapshot_environment(directory) as environment:
        environment.copy(making, compact=compact)


def _check(making: Path) -> None:
    findings = [each for each in check_in_child(making) if not each.is_doubt]
    if findings:
        raise CopyDamaged(findings)
    # Reading the copy made it; the next process to open the copy makes its own.
    (making / LMDB_LOCK_NAME).unlink(missing_ok=True)
