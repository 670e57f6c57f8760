"""What a salvage must have saved, whatever the damage was.

The rule: the new store opens, serves, and has no findings except entries known to be lost. Every
entry in it was in the old store, at the same position of the same topic (except entries whose topic
is lost; those are in topics of their own).
"""

from pathlib import Path

from tests.damage.commands import run

from arneb_core.api.entries.position import Position
from arneb_core.api.errors import StoreUnusable
from arneb_core.store.checking.check import check
from arneb_core.store.checking.findings import FindingKind
from arneb_core.store.format.block import block_span
from arneb_core.store.format.records import TopicRecord
from arneb_core.store.format.schema import TOPIC_PREFIX, Table
from arneb_core.store.reading.snapshot_environment import open_snapshot_environment
from arneb_core.store.salvage.salvaging import salvage

Log = dict[tuple[str, Position], bytes]

OF_THEIR_OWN = "persistent://public/default/salvaged-"


def read_everything(directory: Path) -> Log:
    """Every entry of a store, by topic and position."""
    log: Log = {}
    with open_snapshot_environment(directory) as environment, environment.snapshot() as snapshot:
        for key, value in snapshot.scan(Table.CATALOG, TOPIC_PREFIX):
            name, record = key[len(TOPIC_PREFIX) :].decode(), TopicRecord.unpack(value)
            for first, entries in snapshot.iter_blocks(record.id):
                log |= {(name, Position(place)): each for place, each in enumerate(entries, first)}
    return log


def entries_in_journal(directory: Path) -> int:
    """How many entries are in the journal but not yet in LMDB."""
    with open_snapshot_environment(directory) as environment, environment.snapshot() as snapshot:
        return sum(block_span(value)[1] for _, _, value in snapshot.journaled_blocks())


def assert_saved(damaged: Path, target: Path, original: Log) -> str:
    """Salvage ``damaged`` into ``target`` with the command; the result is its summary in one
    line."""
    status, _, err = run("salvage", damaged, target)
    if status == 2:
        assert not target.exists()
        return f"salvage 2 {err.strip()[:160]}"
    outcome = _assert_sound(target, original, all_is_there=status == 0)
    assert run("serve", target)[0] == 0
    assert run("topics", target)[0] == 0
    return f"salvage {status}, {outcome}"


def salvage_here(damaged: Path, target: Path, original: Log) -> str:
    """The same in this process, without serving the new store."""
    try:
        report = salvage(damaged, target)
    except StoreUnusable as error:
        assert not target.exists()
        return str(error)
    return _assert_sound(target, original, all_is_there=not report.missing)


def _assert_sound(target: Path, original: Log, *, all_is_there: bool) -> str:
    findings = check(target)
    unexpected = [each for each in findings if each.kind is not FindingKind.GAP]
    assert not unexpected, unexpected[:5]
    found = read_everything(target)
    for (name, place), entry in found.items():
        if not name.startswith(OF_THEIR_OWN):
            assert original[name, place] == entry, (name, place)
    if all_is_there:
        # There are no such topics either: what would be in one is reported as missing, be it a
        # topic's name or the topic to which messages belong.
        assert found == original
        assert not findings
    return f"{len(found)} of {len(original)} entries"
