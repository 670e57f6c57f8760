"""Journal recovery: what a start does with the journal that it finds.

The rule: what is whole is served, in its place; what is lost is reported in one line, and becomes a
gap; and a damaged file is kept aside before anything is written over it.
"""

import logging
from dataclasses import replace
from pathlib import Path

from arneb_core.store.commit.journal import Journal
from arneb_core.store.format.commit_record import RecordCorrupt
from arneb_core.store.format.records import JournalState
from arneb_core.store.format.schema import META_CLEAN, META_JOURNAL, Table
from arneb_core.store.journal.damaged_journal import keep_aside
from arneb_core.store.journal.file import Reading, read_journal
from arneb_core.store.journal.reconciliation import Reconciliation, losses, reconcile
from arneb_core.store.reading.snapshot import Snapshot

logger = logging.getLogger(__name__)


def recover_journal(directory: Path, stored: Snapshot) -> Journal:
    """Return the journal in ``directory``, given what LMDB has.

    Raises :class:`OSError` and :class:`ValueError` when it cannot be read at all.
    """
    state = JournalState.unpack(stored.get(Table.META, META_JOURNAL))
    if stored.get(Table.META, META_CLEAN) is not None:
        return _after_clean_stop(directory, state)
    found = read_journal(directory, state)
    reconciled = reconcile(stored, found.records, state.number)
    if found.is_damaged or reconciled.gaps or reconciled.refused:
        report = _report(stored, found, reconciled)
        kept = keep_aside(directory, found.data, report)
        logger.error("%s: %s; the damaged file was saved as: %s", directory, report, kept)
        found = replace(found, is_sound=False)
    else:
        for fault in found.faults:
            logger.warning("%s: %s", directory, fault)
    return Journal(directory, state, found, reconciled)


def _after_clean_stop(directory: Path, state: JournalState) -> Journal:
    """Recover after a clean stop: LMDB has everything; the file is used again if it is sound."""
    try:
        found = read_journal(directory, state)
    except (OSError, RecordCorrupt):
        found = Reading()
    is_sound = found.is_sound and not found.records
    return Journal(directory, state, Reading(is_sound=is_sound, data=found.data))


def _report(stored: Snapshot, found: Reading, reconciled: Reconciliation) -> str:
    """Return one line: what is wrong, which entries are lost, and which are not."""
    parts = [str(each) for each in found.faults] or ["the journal does not continue the data file"]
    parts += losses(stored, reconciled)
    numbers = [each.number for each in reconciled.records]
    kept = f", the last of them {numbers[-1]}" if numbers else ""
    parts.append(f"{len(numbers)} of its records are whole and kept{kept}")
    return "; ".join(parts)
