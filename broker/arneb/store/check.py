"""The check of a data directory and its frontends' rows, in a process of its own.

The rule: the core's check comes first; if pages or entries are damaged, nothing else is read, since
it could be anything.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from arneb_core.store.checking.check_in_child import check_and_say, check_in_child, say_of_frontend
from arneb_core.store.checking.findings import Finding
from arneb_core.store.reading.child_process import Say, speak
from arneb_core.store.reading.frontend_rows import metadata_rows, unacknowledged
from arneb_core.store.reading.snapshot import Snapshot
from arneb_core.store.reading.snapshot_environment import open_snapshot_environment
from arneb_pulsar.services.transactions.held_records import NAME, SUBSCRIPTION
from arneb_pulsar.transactions.checking import Problem, check_records, check_rows

TRANSACTIONS: Final = "pulsar/transaction/"
"""The prefix of the metadata keys of transactions."""


def check_store(path: Path) -> Iterator[Finding]:
    """Yield each problem in a data directory as it is found.

    Raises :class:`.StoreUnusable` when the directory cannot be opened at all.
    """
    return check_in_child(path, __name__)


def transaction_problems(snapshot: Snapshot) -> Iterator[Problem]:
    """Yield the problems in the stored transactions."""
    yield from check_rows(metadata_rows(snapshot, TRANSACTIONS))
    yield from check_records(unacknowledged(snapshot, NAME, SUBSCRIPTION))


def _read(path: Path, at: Say, found: Say) -> None:
    if not check_and_say(path, at, found):
        return
    at("transactions")
    with (
        open_snapshot_environment(path, looked_at=True) as environment,
        environment.snapshot(damaged_too=True) as snapshot,
    ):
        for where, detail in transaction_problems(snapshot):
            say_of_frontend(found, f"transactions, {where}", detail)


if __name__ == "__main__":
    speak(_read)
