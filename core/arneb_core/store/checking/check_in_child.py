"""The check of a directory, in a process of its own.

The rule: every page is checked before LMDB reads it, and no table after a damaged one is walked:
anything could be read there. If the process ends all the same, that is a finding too.
"""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from arneb_core.store.checking.check import check_directory
from arneb_core.store.checking.findings import Finding, FindingKind, Findings
from arneb_core.store.reading.child_process import ReadingFailed, Say, read_in_child, speak

UNREADABLE: Final = frozenset({FindingKind.PAGE, FindingKind.UNREADABLE, FindingKind.BLOCK_CORRUPT})


def check_in_child(path: Path, module: str = __name__) -> Iterator[Finding]:
    """Yield everything wrong in a data directory, as it is found. ``module``: what the process
    runs, if it checks more than the store.

    Raises :class:`.StoreUnusable` when it cannot be opened at all.
    """
    try:
        for kind, where, detail in read_in_child(module, path):
            yield Finding(FindingKind(kind), where, detail)
    except ReadingFailed as error:
        yield Finding(FindingKind.UNREADABLE, error.at, error.how)


def check_and_say(path: Path, at: Say, found: Say) -> bool:
    """Check inside the process of its own; return whether everything could be read."""
    findings, sent = Findings(), 0
    for step in itertools.chain(check_directory(path, findings), ("the end",)):
        for finding in findings.since(sent):
            found([finding.kind.value, finding.where, finding.detail])
            sent += 1
        at(step)
    return not any(finding.kind in UNREADABLE for finding in findings)


def say_of_frontend(found: Say, where: str, detail: str) -> None:
    """Report damage in what a frontend keeps in the store."""
    found([FindingKind.FRONTEND.value, where, detail])


def _read(path: Path, at: Say, found: Say) -> None:
    check_and_say(path, at, found)


if __name__ == "__main__":
    speak(_read)
