"""Mistakes with the journal: losing what is in it, and saying what is not certain."""

from typing import Final

from tests.mutants.table import CORE, Mutant

STORE: Final = "tests/core/store/"
JOURNAL_TESTS: Final = (STORE + "commit/test_journal.py",)
RECORD_TESTS: Final = (STORE + "test_journal_record.py",)
DAMAGE_TESTS: Final = (STORE + "commit/test_journal_damage.py",)
OUTCOME_TESTS: Final = (STORE + "commit/test_outcome.py",)
LOST_TESTS: Final = ("tests/core/engine/test_lost_entries.py",)
INLINE_TESTS: Final = ("tests/core/store/commit/test_inline.py",)
BESIDE_TESTS: Final = (STORE + "commit/test_beside.py",)
FILE_TESTS: Final = (STORE + "test_journal_file.py",)
FLOOD_TESTS: Final = ("tests/core/engine/test_beside_a_flood.py",)
OVERTAKING_TESTS: Final = ("tests/core/engine/test_overtaking.py",)
PLANNING_TESTS: Final = ("tests/core/engine/test_planned_commit.py",)

JOURNAL_MUTANTS: Final = (
    Mutant(
        "the journal is not read after a crash",
        CORE + "store/commit/journal_recovery.py",
        "    found = read_journal(directory, state)\n    fitting",
        "    found = Reading()\n    fitting",
        JOURNAL_TESTS,
    ),
    Mutant(
        "the journal is written over before LMDB has it",
        CORE + "store/commit/commits.py",
        "        begun = perf_counter()\n        try:\n            if appends",
        "        begun = perf_counter()\n"
        "        if due is not None:\n            self._journal.told(due)\n"
        "        try:\n            if appends",
        JOURNAL_TESTS,
    ),
    Mutant(
        "a journal record counts twice",
        CORE + "store/commit/commits.py",
        "                        transaction.remember_journal(due)\n",
        "                        pass\n",
        JOURNAL_TESTS,
    ),
    Mutant(
        "what stands behind a damaged record is dropped",
        CORE + "store/journal_file.py",
        "            if (found := self._record_at(offset)) is not None:\n",
        "            if (found := self._record_at(offset)) is not None and self.number < 0:\n",
        DAMAGE_TESTS,
    ),
    Mutant(
        "where records end without a mark is the end",
        CORE + "store/journal_file.py",
        "        return Fault(\n            FaultKind.UNREADABLE,\n",
        "        if number:\n            return None\n"
        "        return Fault(\n            FaultKind.UNREADABLE,\n",
        DAMAGE_TESTS,
    ),
    Mutant(
        "a record that is cut off is passed over in silence",
        CORE + "store/journal_file.py",
        "            return self._cut_off(number)\n        return Fault(\n",
        "            return None\n        return Fault(\n",
        DAMAGE_TESTS,
    ),
    Mutant(
        "a journal that is missing was never there",
        CORE + "store/journal_file.py",
        "        return Reading(faults=(Fault(FaultKind.MISSING, lost),))\n",
        "        return Reading(is_sound=not lost)\n",
        DAMAGE_TESTS,
    ),
    Mutant(
        "what a power cut leaves is called a loss",
        CORE + "store/journal_file.py",
        "        return self.kind is not FaultKind.CUT_OFF\n",
        "        return True\n",
        DAMAGE_TESTS,
    ),
    Mutant(
        "the mark of a record may be cut off alone",
        CORE + "store/journal_record.py",
        "    if (offset + len(record)) % SECTOR_BYTES == 0:\n",
        "    if False:\n",
        RECORD_TESTS,
    ),
    Mutant(
        "the mark of a small record may be cut off alone",
        CORE + "store/journal_record.py",
        "    if (offset + size) % SECTOR_BYTES == 0:\n",
        "    if False:\n",
        RECORD_TESTS,
    ),
    Mutant(
        "what is lost leaves no gap",
        CORE + "store/fitting.py",
        "            if first > expected:\n",
        "            if first < expected:\n",
        DAMAGE_TESTS,
    ),
    Mutant(
        "a damaged journal is written over",
        CORE + "store/commit/journal_recovery.py",
        "        kept = keep_aside(directory, found.data, report)\n",
        '        kept = ""\n',
        DAMAGE_TESTS,
    ),
    Mutant(
        "a copy of a damaged journal is made in silence",
        CORE + "store/journal_reader.py",
        "        if found.is_damaged:\n            what",
        "        if not found:\n            what",
        DAMAGE_TESTS,
    ),
    Mutant(
        "positions behind lost entries are counted from the front",
        CORE + "engine/recovery.py",
        "                entries = entry_of(place) + len(run)\n",
        "                entries += len(run)\n",
        LOST_TESTS,
    ),
    Mutant(
        "consumers wait for ever for what is lost",
        CORE + "log/durable_log.py",
        " for first, last in self._gaps if last > after\n",
        " for first, last in self._gaps if last < after\n",
        LOST_TESTS,
    ),
    Mutant(
        "who is told of a failure may find it undone by a crash",
        CORE + "store/commit/commits.py",
        "if not (self._journal.is_in_doubt if env is None else self.is_in_doubt):\n",
        "if failure:\n",
        OUTCOME_TESTS,
    ),
    Mutant(
        "a commit that is there after all is said to have failed",
        CORE + "store/commit/commits.py",
        "            attempt.is_there = self._live.last_transaction >= attempt.transaction\n",
        "            attempt.is_there = False\n",
        OUTCOME_TESTS,
    ),
    Mutant(
        "publishers are told before the outcome is known",
        CORE + "store/commit/local.py",
        "            return self._resolved(doubt)\n",
        "            return StoreFailed(str(doubt))\n",
        INLINE_TESTS,
    ),
    Mutant(
        "a new data directory may be gone after a power cut",
        CORE + "store/directory.py",
        "                sync_names(path)\n",
        "                pass\n",
        (STORE + "test_directory.py",),
    ),
    Mutant(
        "the loop goes on writing to a journal that failed",
        CORE + "store/commit/inline.py",
        'without it: %s", error)\n        self._pause = PAUSE_COMMITS\n',
        'without it: %s", error)\n',
        INLINE_TESTS,
    ),
    Mutant(
        "the loop makes large commits too, once it has made small ones",
        CORE + "store/commit/inline.py",
        "        if not is_small:\n            self._small = 0\n",
        "        if not is_small:\n",
        INLINE_TESTS,
    ),
    Mutant(
        "rows are for the journal, which no snapshot lays over LMDB's",
        CORE + "store/commit/inline.py",
        "        if not (blocks and changes.is_plain):\n",
        "        if not blocks:\n",
        INLINE_TESTS,
    ),
    Mutant(
        "a record of several topics is one run of those for which there is room",
        CORE + "store/commit/journal.py",
        "        self._runs += len(changes.blocks)\n",
        "        self._runs += 1\n",
        JOURNAL_TESTS,
    ),
    Mutant(
        "the loop writes again however slow the thread finds the journal",
        CORE + "store/commit/inline.py",
        "            self._took(ending.seconds)\n",
        "            pass\n",
        INLINE_TESTS,
    ),
    Mutant(
        "LMDB's own work, which is slow beside others', keeps the loop from the journal",
        CORE + "store/commit/inline.py",
        "        elif ending.unsettled:\n",
        "        else:\n",
        INLINE_TESTS,
    ),
    Mutant(
        "a slow disk holds the loop up as long as no single write of it is a stall",
        CORE + "store/commit/inline.py",
        "        return self._usual_s <= FAST_S\n",
        "        return True\n",
        INLINE_TESTS,
    ),
    Mutant(
        "one slow write keeps the loop from the journal",
        CORE + "store/commit/inline.py",
        "            if report.seconds > STALL_S:\n",
        "            if report.seconds > FAST_S:\n",
        INLINE_TESTS,
    ),
    Mutant(
        "a stall is forgotten like any slow write",
        CORE + "store/commit/inline.py",
        "            if report.seconds > STALL_S:\n                self._pause = PAUSE_COMMITS\n",
        "",
        INLINE_TESTS,
    ),
    Mutant(
        "what the loop must not write the thread does not write into the journal either",
        CORE + "store/commit/local.py",
        "            report = self._in_journal(commit) if commit.for_journal else None\n",
        "            report = None\n",
        INLINE_TESTS,
    ),
    Mutant(
        "what the file showed at the first look is believed though it is gone at the next",
        CORE + "store/commit/commits.py",
        "        if attempt is not None and attempt.is_there is not False:\n",
        "        if attempt is not None and attempt.is_there is None:\n",
        OUTCOME_TESTS,
    ),
    Mutant(
        "a record in doubt is said to have failed when LMDB cannot be asked",
        CORE + "store/commit/commits.py",
        "            env = None\n            try:\n                env = self._live.working()\n",
        "            env = self._live.working()\n            try:\n",
        OUTCOME_TESTS,
    ),
    Mutant(
        "what fails behind a commit undoes it",
        CORE + "store/commit/commits.py",
        "        except (lmdb.Error, OSError, StoreFull):",
        "        except (OSError, StoreFull):",
        OUTCOME_TESTS,
    ),
    Mutant(
        "the last entry of a log may be one that is lost",
        CORE + "log/durable_log.py",
        "            if gap_last != last:\n",
        "            if gap_first <= gap_last:\n",
        LOST_TESTS,
    ),
    Mutant(
        "the journal is made by one write",
        CORE + "store/journal_file.py",
        ", 0, PAGE_BYTES)",
        ", 0)",
        (STORE + "test_journal_file.py",),
    ),
    Mutant(
        "what came beside a takeover is thought taken over",
        CORE + "store/commit/journal.py",
        "[each for each in self.pending if each.number > state.number]",
        "[]",
        BESIDE_TESTS,
    ),
    Mutant(
        "what came beside a takeover is written over",
        CORE + "store/commit/journal.py",
        "        if self._number > state.number:\n            return  # and",
        "        if self._number < state.number:\n            return  # and",
        BESIDE_TESTS,
    ),
    Mutant(
        "the file is said to begin with what was taken over last",
        CORE + "store/commit/journal.py",
        "            head=self._head,\n",
        "            head=state.number + 1 if behind else state.head,\n",
        BESIDE_TESTS,
    ),
    Mutant(
        "what stands behind records that LMDB has is found out of place",
        CORE + "store/journal_file.py",
        "        self._pass_over()\n",
        "",
        BESIDE_TESTS,
    ),
    Mutant(
        "what stood behind records that LMDB has may be wiped out with them in silence",
        CORE + "store/journal_file.py",
        "            # over it, or it is damaged, and perhaps what stood behind it.\n"
        "            return self._cut_off(number)\n",
        "            # over it, or it is damaged, and perhaps what stood behind it.\n"
        "            self.is_sound = False\n            return None\n",
        FILE_TESTS,
    ),
    Mutant(
        "the journal stays lent when the transaction has ended",
        CORE + "store/commit/beside.py",
        "            with self._lock:\n                self._journal = None\n",
        "            pass\n",
        BESIDE_TESTS,
    ),
    Mutant(
        "the thread goes on in the middle of the loop's write",
        CORE + "store/commit/beside.py",
        "            with self._lock:\n                self._journal = None\n",
        "            self._journal = None\n",
        BESIDE_TESTS,
    ),
    Mutant(
        "the journal is lent to a commit that deletes rows",
        CORE + "store/commit/commits.py",
        "            if not (trims or changes.prefixes or self._forgets_ahead):\n",
        "            if not self._forgets_ahead:\n",
        BESIDE_TESTS,
    ),
    Mutant(
        "who asked for the journal in vain is not told that it is lent",
        CORE + "store/commit/beside.py",
        "                self._wanted = lent\n",
        "",
        BESIDE_TESTS,
    ),
    Mutant(
        "what came beside a commit is never taken over, if nothing else comes",
        CORE + "store/commit/commits.py",
        "        report.unsettled = bool(self._journal.pending)  # what came beside it\n",
        "",
        BESIDE_TESTS,
    ),
    Mutant(
        "a slow disk holds the loop up with every write beside a commit",
        CORE + "engine/overtaking.py",
        "        if self._seconds() < self._rests_until:\n            return None\n",
        "",
        FLOOD_TESTS,
    ),
    Mutant(
        "a run overtakes its own topic",
        CORE + "engine/overtaking.py",
        "                if topic not in taken and not topic.fenced:\n",
        "                if not topic.fenced:\n",
        OVERTAKING_TESTS,
    ),
    Mutant(
        "a run overtakes what waits for its topic",
        CORE + "engine/overtaking.py",
        "            taken.update([topic for topic, _, _ in request.appends])\n",
        "",
        OVERTAKING_TESTS,
    ),
    Mutant(
        "a run overtakes the deletion of its topic",
        CORE + "engine/overtaking.py",
        "            if not request.is_appends:\n                self._is_barred = True\n",
        "            if not request:\n                self._is_barred = True\n",
        OVERTAKING_TESTS,
    ),
    Mutant(
        "all that waits is looked at whenever anything comes",
        CORE + "engine/overtaking.py",
        "            self._seen += 1\n",
        "",
        OVERTAKING_TESTS,
    ),
    Mutant(
        "a run that could not be stored beside others has its place taken all the same",
        CORE + "engine/overtaking.py",
        "            commit.take_back()\n",
        "",
        PLANNING_TESTS,
    ),
    Mutant(
        "a run that could not be stored beside others is forgotten",
        CORE + "engine/overtaking.py",
        "            waiting.extendleft(reversed(chosen))\n",
        "",
        PLANNING_TESTS,
    ),
    Mutant(
        "nobody overtakes",
        CORE + "engine/committer.py",
        "                    self._overtake()\n",
        "                    pass\n",
        FLOOD_TESTS,
    ),
    Mutant(
        "a commit in doubt is said to have failed as a record beside it had to be undone by LMDB",
        CORE + "store/commit/commits.py",
        "                    if is_asked:\n                        self._asked = attempt\n",
        "                    self._asked = attempt\n",
        OUTCOME_TESTS,
    ),
    Mutant(
        "what was known of those who waited is believed when a commit could not be planned",
        CORE + "engine/committer.py",
        "        self._overtaking.again()\n        self._trims_left = False  # the",
        "        self._trims_left = False  # the",
        PLANNING_TESTS,
    ),
)
