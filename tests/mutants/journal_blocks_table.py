"""Mutants of the journal's blocks: how they are written past the page cache, and told apart."""

from typing import Final

from tests.mutants.table import CORE, Mutant

STORE: Final = "tests/core/store/"
RECORD_TESTS: Final = (STORE + "journal/test_record.py",)
READER_TESTS: Final = ("tests/core/store/journal/test_reader.py",)
FILE_TESTS: Final = (STORE + "journal/test_file.py",)
WRITING_TESTS: Final = (STORE + "journal/test_writing.py",)

JOURNAL_BLOCKS_MUTANTS: Final = (
    Mutant(
        "a small record does not say what followed it",
        CORE + "store/journal/record.py",
        "    stamp = stamp_at(end_of_block(offset + size))\n",
        "    stamp = stamp_at(offset)\n",
        RECORD_TESTS,
    ),
    Mutant(
        "a block of a valid record is written again",
        CORE + "store/commit/journal.py",
        "        end = end_of_block(offset + len(data))\n",
        "        end = offset + BLOCK_BYTES\n",
        FILE_TESTS,
    ),
    Mutant(
        "what a power cut leaves of a record over old ones looks like more records",
        CORE + "store/commit/journal.py",
        "                file.write(data[:BLOCK_BYTES], 0)\n",
        "                pass\n",
        FILE_TESTS,
    ),
    Mutant(
        "zeros in place of the last record count as the end",
        CORE + "store/commit/journal.py",
        "            if stamp_behind(data) in WEAK:\n",
        "            if stamp_behind(data) in ():\n",
        FILE_TESTS,
    ),
    Mutant(
        "what follows the last record is not checked",
        CORE + "store/journal/file.py",
        "        if self.stamp is not None and self._stands(self.stamp):\n",
        "        if self.stamp is not None:\n",
        FILE_TESTS,
    ),
    Mutant(
        "what was written is not what the next round finds behind its records",
        CORE + "store/journal/writing.py",
        "            stamps = stamps_of(blocks)\n",
        "            stamps = stamps_of(blocks[:BLOCK_BYTES])\n",
        FILE_TESTS,
    ),
    Mutant(
        "a new file is all zeros",
        CORE + "store/journal/writing.py",
        "        data[at : at + STAMP_BYTES] = blank(state.epoch, at)\n",
        "        pass\n",
        WRITING_TESTS,
    ),
    Mutant(
        "a journal of the previous layout is written to",
        CORE + "store/journal/file.py",
        " and not walk.faults and state.layout is JournalLayout.BLOCKS\n",
        " and not walk.faults\n",
        FILE_TESTS,
    ),
    Mutant(
        "a version that knows only the previous layout takes a journal for damaged",
        CORE + "store/format/records.py",
        "        if self.layout is JournalLayout.SLOTS:\n",
        "        if self.layout:\n",
        WRITING_TESTS,
    ),
    Mutant(
        "the journal bypasses the page cache and is not flushed",
        CORE + "store/journal/writing.py",
        "    flags = os.O_RDWR | os.O_DSYNC\n",
        "    flags = os.O_RDWR\n",
        WRITING_TESTS,
    ),
    Mutant(
        "the journal is read through a cache that may be outdated",
        CORE + "store/journal/file_bytes.py",
        '        return _read(path, getattr(os, "O_DIRECT", 0), early, up_to)\n',
        "        return _read(path, 0, early, up_to)\n",
        FILE_TESTS,
    ),
    Mutant(
        "a journal that cannot be read past the cache is not read",
        CORE + "store/journal/file_bytes.py",
        "        if error.errno not in NOT_DIRECTLY:\n            raise\n",
        "        raise\n",
        FILE_TESTS,
    ),
    Mutant(
        "a reader beside a busy broker reads the whole journal each time",
        CORE + "store/journal/reader.py",
        "        size, data = FIRST_BYTES, early\n",
        "        size, data = len(early), early\n",
        READER_TESTS,
    ),
    Mutant(
        "a reader never ends if the journal starts over and is then idle",
        CORE + "store/journal/reader.py",
        "(state.in_use and epoch not in (-1, state.epoch))",
        "epoch not in (-1, state.epoch)",
        READER_TESTS,
    ),
    Mutant(
        "what follows a re-read part is not seen",
        CORE + "store/journal/reader.py",
        "            is_all = not found.faults and found.reached + BLOCK_BYTES <= size\n",
        "            is_all = not found.faults\n",
        READER_TESTS,
    ),
    Mutant(
        "damage in front of what was read before is taken for the end",
        CORE + "store/journal/reader.py",
        "            if is_all or size >= len(data):\n                return found\n",
        "            if is_all or size >= len(data):\n"
        "                return replace(found, faults=())\n",
        READER_TESTS,
    ),
    Mutant(
        "a disk with large blocks is reported as damaged without cause",
        CORE + "store/journal/file_bytes.py",
        "        if error.errno in NOT_DIRECTLY:\n",
        "        if False:\n",
        READER_TESTS,
    ),
    Mutant(
        "a file system that cannot bypass its cache has no journal",
        CORE + "store/journal/writing.py",
        "            if error.errno not in NOT_DIRECTLY:\n",
        "            if error.errno:\n",
        WRITING_TESTS,
    ),
    Mutant(
        "a disk error is taken for a file system that cannot",
        CORE + "store/journal/writing.py",
        "            if error.errno not in NOT_DIRECTLY:\n                raise\n",
        "            pass\n",
        WRITING_TESTS,
    ),
    Mutant(
        "a file system that refuses each write past its cache is asked forever",
        CORE + "store/commit/journal.py",
        "            self._directly = self._directly and not file.is_refused\n",
        "            pass\n",
        WRITING_TESTS,
    ),
    Mutant(
        "a file that is only partly known is written to",
        CORE + "store/commit/journal.py",
        "        self._number -= 1\n        self.is_in_doubt = False\n",
        "        self._number -= 1\n"
        "        self._usable = self._is_sound = True\n        self.is_in_doubt = False\n",
        FILE_TESTS,
    ),
)
