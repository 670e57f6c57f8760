"""The journal, read beside a broker that is busy, on a disk that takes its time."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

import pytest

from arneb_core.api.entries.position import position_at
from arneb_core.store.commit import journal as journal_module
from arneb_core.store.environment import Store
from arneb_core.store.format.changes import Changes
from arneb_core.store.format.records import JournalState
from arneb_core.store.format.schema import META_CLEAN, META_JOURNAL, Table, TopicId
from arneb_core.store.journal import file_bytes as journal_bytes
from arneb_core.store.journal import reader as journal_reader
from arneb_core.store.journal.reader import JournalReader
from arneb_core.store.journal.writing import JOURNAL_BYTES, OpenJournal
from arneb_core.testing.store_kit import entry

TOPIC = TopicId(1)
PIECE_BYTES = 64 << 10
"""Read by a disk while the broker does nothing."""
TAKE_OVER_S = 0.05


class BusyBroker:
    """Commits small runs while a disk reads, and takes them over as often as a broker may."""

    def __init__(self, store: Store, disk_bytes_s: float, bytes_s: float, body_bytes: int) -> None:
        self.store = store
        self._body = entry(bytes(body_bytes))
        self.now = self.took_over = 0.0
        self.confirmed = 0
        self.taken_over = 0
        self._disk_bytes_s = disk_bytes_s
        self._bytes_s = bytes_s
        self._written = 0.0
        self._preadv = os.preadv

    def preadv(self, fd: int, buffers: list[memoryview], at: int) -> int:
        (buffer,) = buffers
        done = 0
        while done < len(buffer):
            with buffer[done : done + PIECE_BYTES] as piece:
                read = self._preadv(fd, [piece], at + done)
            done += read
            self.pass_by(read / self._disk_bytes_s)
            if read < PIECE_BYTES:
                break
        return done

    def pass_by(self, seconds: float) -> None:
        self.now += seconds
        while self._written / self._bytes_s < self.now:
            self.add()
            self._written += len(self._body)
        if self.now >= self.took_over + TAKE_OVER_S:
            self.take_over()

    def add(self) -> None:
        changes = Changes(blocks=[(TOPIC, position_at(1, self.confirmed), [self._body])])
        if self.store.commit_tiny(changes) is None:
            self.take_over()
            assert self.store.commit_tiny(changes) is not None
        self.confirmed += 1

    def take_over(self) -> None:
        self.took_over = self.now
        self.store.commit(Changes())
        self.taken_over = self.confirmed

    def meta(self, key: bytes) -> bytes | None:
        """As LMDB has it, which knows nothing of the journal's records."""
        with self.store.snapshot() as snapshot:
            return snapshot.get(Table.META, key)


@contextmanager
def busy(
    path: Path, disk_bytes_s: float, bytes_s: float = 8e6, body_bytes: int = 20_000
) -> Iterator[BusyBroker]:
    with Store.open(path) as store:
        store.commit(Changes())
        store.prepare_tiny()
        broker = BusyBroker(store, disk_bytes_s, bytes_s, body_bytes)
        broker.pass_by(0.02)
        # Not the module's own function: other threads of the process sleep too.
        with (
            patch.object(journal_bytes.os, "preadv", broker.preadv),
            patch.object(journal_reader, "time", SimpleNamespace(sleep=broker.pass_by)),
        ):
            yield broker


@pytest.mark.parametrize("body_bytes", [20_000, 3_900])
@pytest.mark.parametrize("disk_bytes_s", [350e6, 80e6, 30e6])
def test_a_slow_disk_reads_beside_a_busy_broker_all_that_was_confirmed(
    tmp_path: Path, disk_bytes_s: float, body_bytes: int
) -> None:
    with busy(tmp_path, disk_bytes_s, body_bytes=body_bytes) as broker:
        reader = JournalReader(tmp_path, broker.meta)
        for _ in range(15):
            confirmed, began = broker.confirmed, broker.now
            found = reader.read()
            assert not found.faults
            has = JournalState.unpack(broker.meta(META_JOURNAL)).number
            late = [each for each in found.records if each.number > has]
            assert broker.taken_over + len(late) >= confirmed
            assert broker.now - began < 1
            broker.pass_by(0.013)
    assert JOURNAL_BYTES / 80e6 > TAKE_OVER_S, "reading all of it takes longer than that"


def test_what_it_has_not_read_again_is_damaged_if_there_is_a_later_record(tmp_path: Path) -> None:
    """A block that is broken is known by what stands behind it, wherever that was read."""
    with busy(tmp_path, 350e6) as broker:
        while broker.store._journal._offset < journal_reader.FIRST_BYTES + (1 << 20):
            changes = Changes(
                blocks=[(TOPIC, position_at(1, broker.confirmed), [entry(bytes(9_000))])]
            )
            assert broker.store.commit_tiny(changes)
            broker.confirmed += 1
        path = tmp_path / "arneb.journal"
        data = bytearray(path.read_bytes())
        data[8_192:8_300] = b"\xff" * 108
        broken = bytes(data)

        def preadv(fd: int, buffers: list[memoryview], at: int) -> int:
            size = len(buffers[0])
            buffers[0][:] = broken[at : at + size]
            return size

        reader = JournalReader(tmp_path, broker.meta)
        with (
            patch.object(journal_bytes.os, "preadv", preadv),
            patch.object(journal_reader, "time", SimpleNamespace(sleep=lambda _: None)),
        ):
            found = reader.read()
        assert found.is_damaged
        assert "lost" in str(found.faults)


def test_what_comes_after_all_was_read_is_found_where_the_rest_begins(tmp_path: Path) -> None:
    """The records end just where that ends which is reread, and another comes before that."""
    with Store.open(tmp_path) as store:
        store.commit(Changes())
        store.prepare_tiny()
        broker = BusyBroker(store, 350e6, 0.0, 3_000)
        while store._journal._offset < journal_reader.FIRST_BYTES:
            broker.add()
        assert store._journal._offset == journal_reader.FIRST_BYTES
        looks = 0

        def meta(key: bytes) -> bytes | None:
            nonlocal looks
            looks += key == META_JOURNAL
            if looks == 2 and key == META_JOURNAL:
                broker.add()
            return broker.meta(key)

        found = JournalReader(tmp_path, meta).read()
        assert looks > 2
        assert len(found.records) == broker.confirmed


@pytest.mark.parametrize("stops", [True, False], ids=["and stops", "and cannot"])
def test_a_broker_that_restarts_its_journal_meanwhile_is_read_at_once(
    tmp_path: Path, stops: bool
) -> None:
    """LMDB has everything then, and says so; the file that was begun to be read is no more."""
    with Store.open(tmp_path) as store:
        store.commit(Changes())
        store.prepare_tiny()
        broker = BusyBroker(store, 350e6, 0.0, 3_000)
        broker.add()
        looks: list[JournalState] = []

        def fails(*_: object) -> None:
            raise OSError(errno.EIO, "told to fail")

        def give_up() -> None:
            """The journal is not to be written any more, and what it has is taken over."""
            changes = Changes(blocks=[(TOPIC, position_at(1, broker.confirmed), [entry(b"x")])])
            with patch.object(OpenJournal, "write", fails), pytest.raises(OSError, match="told"):
                store.commit_tiny(changes)
            store.commit(changes)
            broker.confirmed += 1

        def meta(key: bytes) -> bytes | None:
            if key == META_JOURNAL:
                if len(looks) == 1:
                    give_up()
                    store.commit(Changes())  # which says that there is another file
                    if stops:
                        store.commit(Changes(puts=[(Table.META, META_CLEAN, b"")]))
                    else:
                        with patch.object(journal_module, "write_file", fails):
                            give_up()
                looks.append(JournalState.unpack(broker.meta(key)))
            return broker.meta(key)

        found = JournalReader(tmp_path, meta).read()
        assert found.records == found.faults == ()
        assert looks[-1].epoch == looks[0].epoch + 1
        assert looks[-1].in_use is stops
        assert len(looks) <= 4
        with store.snapshot() as snapshot:
            blocks = snapshot.iter_blocks(TOPIC)
            assert sum(len(entries) for _, entries in blocks) == broker.confirmed


def test_a_journal_that_changes_at_each_look_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_reader, "JOURNAL_TRIES", 9)
    with busy(tmp_path, 350e6) as broker:
        number = 0

        def meta(key: bytes) -> bytes | None:
            nonlocal number
            number += 1
            broker.pass_by(TAKE_OVER_S)
            return broker.meta(key)

        with pytest.raises(journal_reader.StoreUnusable, match="changed 9 times"):
            JournalReader(tmp_path, meta).read()
        assert number > 9


@pytest.mark.skipif(not hasattr(os, "O_DIRECT"), reason="nothing is read past a page cache here")
def test_a_disk_of_large_blocks_that_cannot_read_some_is_read_through_the_cache(
    tmp_path: Path,
) -> None:
    """Such a disk reads no single pages past the cache; that says nothing of what is there."""
    path = tmp_path / "file"
    written = os.urandom(16 * 4_096)
    path.write_bytes(written)
    real_open, real = os.open, os.preadv
    direct: set[int] = set()

    def opening(name: Path, flags: int, mode: int) -> int:
        fd = real_open(name, flags, mode)
        (direct.add if flags & os.O_DIRECT else direct.discard)(fd)
        return fd

    def preadv(fd: int, buffers: list[memoryview], at: int) -> int:
        (buffer,) = buffers
        if fd in direct and (at % 16_384 or len(buffer) % 16_384):
            raise OSError(errno.EINVAL, "Invalid argument")
        if at <= 8_192 < at + len(buffer):
            raise OSError(errno.EIO, "unreadable")
        return real(fd, buffers, at)

    with (
        patch.object(journal_bytes.os, "open", opening),
        patch.object(journal_bytes.os, "preadv", preadv),
    ):
        found = journal_bytes.bytes_of(path)
    assert found == written[:8_192] + bytes(4_096) + written[12_288:]
