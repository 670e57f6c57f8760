"""Mutants of damage: mistakes when the disk does not contain what was written."""

from typing import Final

from tests.mutants.table import CORE, Mutant

READER_TESTS: Final = ("tests/core/store/data_file/test_readers.py",)
SALVAGE_TESTS: Final = ("tests/damage/test_damage.py",)
SALVAGED_TESTS: Final = ("tests/core/store/salvage/test_salvage.py",)
BLOCK_TESTS: Final = ("tests/core/store/salvage/test_salvaged_blocks.py",)
PAGE_TESTS: Final = ("tests/core/store/data_file/test_pages.py",)

DAMAGE_MUTANTS: Final = (
    Mutant(
        "a truncated file is mapped all the same",
        CORE + "store/data_file/meta_pages.py",
        "    if size >= meta.file_bytes:\n",
        "    if size:\n",
        PAGE_TESTS,
    ),
    Mutant(
        "an empty file becomes a new store",
        CORE + "store/directory/directory.py",
        "    if DATA_NAME in names:\n",
        "    if DATA_NAME in names and (path / DATA_NAME).stat().st_size:\n",
        PAGE_TESTS,
    ),
    Mutant(
        "a page in use is given out as free",
        CORE + "store/data_file/page_walk.py",
        "        twice = pages & self.used\n",
        "        twice = BitMap64()\n",
        PAGE_TESTS,
    ),
    Mutant(
        "a child process that LMDB ended reports no finding",
        CORE + "store/reading/child_process.py",
        "    if not done:\n        raise ReadingFailed(at, _end(status, output))\n",
        "",
        ("tests/core/store/reading/test_child_process.py",),
    ),
    Mutant(
        "the data file has its name before it is complete",
        CORE + "store/data_file/creating.py",
        "    making = directory / NEW_NAME\n    shutil.rmtree(making, ignore_errors=True)\n"
        "    making.mkdir(mode=0o750)\n",
        "    making = directory\n",
        PAGE_TESTS,
    ),
    Mutant(
        "others may use the broker's own reader slots",
        CORE + "store/data_file/reader_slots.py",
        "                if not self._kept:\n",
        "                if self._kept:\n",
        READER_TESTS,
    ),
    Mutant(
        "a reader that was told to end continues",
        CORE + "store/data_file/readers.py",
        "            if was_asked_to_end(self._file, self._me):\n",
        "            if was_asked_to_end(self._file, []):\n",
        READER_TESTS,
    ),
    Mutant(
        "nobody checks how long a reader reads",
        CORE + "store/data_file/readers.py",
        "        self._since = {slot: self._since.get(slot, now) for slot in slots}\n",
        "        self._since = dict.fromkeys(slots, now)\n",
        READER_TESTS,
    ),
    Mutant(
        "a damaged block at the end of a log is silently ignored",
        CORE + "store/salvage/salvaged_blocks.py",
        "                self.ends.setdefault(topic_id, []).append(last)\n",
        "",
        BLOCK_TESTS,
    ),
    Mutant(
        "blocks of a topic without a name are left out",
        CORE + "store/salvage/salvage.py",
        "        whose = {*self.stored.live.values()}\n",
        "        whose = set[TopicId]()\n",
        BLOCK_TESTS,
    ),
    Mutant(
        "a meta page that went back is believed",
        CORE + "store/salvage/scan.py",
        "        if (last := transactions[each.page]) != each.transaction:\n",
        "        if (last := transactions[each.page]) != each.transaction and not whole:\n",
        BLOCK_TESTS,
    ),
    Mutant(
        "unreachable pages are not salvaged",
        CORE + "store/salvage/scan.py",
        "    if found.damaged or not found.knows_free_pages:\n",
        "    if found.meta is None:\n",
        SALVAGE_TESTS,
    ),
    Mutant(
        "a salvaged cursor is where none of its rows says",
        CORE + "store/salvage/salvaged_cursor.py",
        "        mark_delete = log.floored(self.place.mark_delete)\n",
        "        mark_delete = log.floored(before(self.place.read_position))\n",
        SALVAGED_TESTS,
    ),
    Mutant(
        "of several old rows of a cursor the highest counts",
        CORE + "store/salvage/salvaged_cursor.py",
        "        lowest = BEFORE_ALL if goes_back else min(each.mark_delete for each in records)\n",
        "        lowest = BEFORE_ALL if goes_back else max(each.mark_delete for each in records)\n",
        SALVAGED_TESTS,
    ),
    Mutant(
        "a row from before a seek is used",
        CORE + "store/salvage/salvage.py",
        "goes_back = not remains.knows_free_pages and remains.meta is not None\n",
        "goes_back = False\n",
        SALVAGED_TESTS,
    ),
    Mutant(
        "a block without a row goes to the first topic that lacks something",
        CORE + "store/salvage/salvage.py",
        "            if len(homes) == 1 and certain:\n",
        "            if homes:\n",
        SALVAGED_TESTS,
    ),
    Mutant(
        "a cursor in the middle of a lost block ends the log there",
        CORE + "store/salvage/salvaged_log.py",
        "first >= min([end, *(low for low, high in self.gaps if high == before(end))])\n",
        "first >= end\n",
        SALVAGED_TESTS,
    ),
    Mutant(
        "anything that has the name of a store's file is opened as one",
        CORE + "store/format/regular_file.py",
        "    if not stat.S_ISREG(os.fstat(fd).st_mode):\n",
        "    if False:\n",
        ("tests/core/store/format/test_regular_file.py",),
    ),
    Mutant(
        "a damaged store is compacted without a word",
        "broker/arneb/commands/compact_store.py",
        "        if check and not is_held(directory) and _is_damaged(directory):\n",
        "        if False:\n",
        ("tests/broker/commands/test_compact_store.py",),
    ),
)
