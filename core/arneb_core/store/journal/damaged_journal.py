"""A damaged journal, kept aside for people before the broker writes over it.

The rule: a damaged file is on disk under another name, with a report of the losses, before anything
else is written; the report stays, and ``arneb check`` names it, until somebody removes it.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from arneb_core.store.data_file.opening import sync_directory
from arneb_core.store.journal.writing import JOURNAL_NAME

KEPT_PREFIX: Final = f"{JOURNAL_NAME}.damaged-"
REPORT_SUFFIX: Final = ".txt"

KEPT_MAX: Final = 16
"""Damaged journals kept. A disk that damages every journal must not be filled with them: the oldest
is removed, and the report of the newest says so."""


def keep_aside(directory: Path, data: bytes, report: str) -> str:
    """Keep ``data``, if there is any, and ``report``, durably; return the name of what was kept and
    of what was removed for it, or why nothing could be kept."""
    try:
        return _keep(directory, data, report)
    except OSError as error:
        # Perhaps a full disk. What is whole must be served all the same.
        return f"not kept: {error}"


def kept_reports(directory: Path) -> Iterator[tuple[str, str]]:
    """Yield the names of the existing reports, and their texts."""
    for path in sorted(directory.glob(f"{KEPT_PREFIX}*{REPORT_SUFFIX}"), key=_number):
        with suppress(OSError):
            yield path.name, path.read_text("utf-8", "replace").strip()


def _keep(directory: Path, data: bytes, report: str) -> str:
    reports = sorted(directory.glob(f"{KEPT_PREFIX}*{REPORT_SUFFIX}"), key=_number)
    last = reports[-1] if reports else None
    if last is not None and _is_kept(last, data, report):
        return last.stem  # the start that kept it was killed before it could do more
    name = f"{KEPT_PREFIX}{_number(last) + 1 if last is not None else 1}"
    if data:
        _write(directory / name, data)
    else:
        (directory / name).unlink(missing_ok=True)
    _write(directory / (name + REPORT_SUFFIX), f"{report}\n".encode())
    sync_directory(directory)
    kept = name if data else name + REPORT_SUFFIX
    if gone := reports[: max(0, len(reports) + 1 - KEPT_MAX)]:
        for each in gone:
            each.with_suffix("").unlink(missing_ok=True)
            each.unlink()
        names = ", ".join(each.stem for each in gone)
        return f"{kept} ({names} removed: {KEPT_MAX} are kept)"
    return kept


def _is_kept(report_path: Path, data: bytes, report: str) -> bool:
    kept = report_path.with_suffix("")
    found = kept.read_bytes() if kept.exists() else b""
    return found == data and report_path.read_text().strip() == report.strip()


def _number(report_path: Path) -> int:
    digits = report_path.stem.removeprefix(KEPT_PREFIX)
    return int(digits) if digits.isdecimal() else 0


def _write(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
