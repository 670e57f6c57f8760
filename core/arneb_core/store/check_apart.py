"""The check of a directory, in a process of its own.

The rule: every page is looked at before LMDB reads it, and no table is walked that lies behind a
damaged one: what is read there could be anything. What ends the process all the same is a finding
too.
"""

import itertools
from collections.abc import Iterator
from pathlib import Path

from arneb_core.store.apart import ReadingFailed, Say, read_apart, speak
from arneb_core.store.check import check_directory
from arneb_core.store.findings import Finding, FindingKind, Findings


def check_apart(path: Path) -> Iterator[Finding]:
    """Everything that is wrong in a data directory, as it is found.

    Raises :class:`.StoreUnusable` when it cannot be opened at all.
    """
    try:
        for kind, where, detail in read_apart(__name__, path):
            yield Finding(FindingKind(kind), where, detail)
    except ReadingFailed as error:
        yield Finding(FindingKind.UNREADABLE, error.at, error.how)


def _read(path: Path, at: Say, found: Say) -> None:
    findings, told = Findings(), 0
    for step in itertools.chain(check_directory(path, findings), ("the end",)):
        for finding in findings.since(told):
            found([finding.kind.value, finding.where, finding.detail])
            told += 1
        at(step)


if __name__ == "__main__":
    speak(_read)
