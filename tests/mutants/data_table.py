"""Mutants of the data API.

The rule: as in :mod:`tests.mutants.table`.
"""

from typing import Final

from tests.mutants.table import CORE, Mutant

DATA: Final = "broker/arneb/data/"
PROCESSORS: Final = ("tests/spark_connector/test_processors.py",)
LEFTOVERS: Final = ("tests/broker/data/test_leftovers.py",)
WRITING: Final = ("tests/broker/data/test_writing.py", "tests/broker/data/test_machine.py")
CURSORS: Final = ("tests/broker/data/test_cursors.py",)
ROOM: Final = ("tests/broker/data/test_room.py",)
RUNS: Final = ("tests/core/engine/group_commit/test_counted_runs.py",)
ROLLING: Final = ("tests/core/engine/trimming/test_rolling.py",)
AHEAD: Final = ("tests/core/engine/group_commit/test_written_ahead.py",)

DATA_MUTANTS: Final = (
    Mutant(
        "a batch of any size is one commit",
        DATA + "commits.py",
        "            async with self._core.written_ahead(unit):\n"
        "                with trio.CancelScope(shield=True), ",
        "            if True:\n                with trio.CancelScope(shield=True), ",
        ("tests/broker/data/test_large_commits.py",),
    ),
    Mutant(
        "a stamp is written at a place that not all entries of one length share",
        DATA + "prepared.py",
        "            for index, byte in enumerate(stamp, TIMES_OFFSET):\n",
        "            for index, byte in enumerate(stamp, TIMES_OFFSET + 1):\n",
        ("tests/broker/data/test_prepared.py",),
    ),
    Mutant(
        "an entry gets the start of one whose value is as long, whatever its properties",
        "amqp_frontend/arneb_amqp/topology/row_entries.py",
        "        asked = exchange, key, kind, len(value)\n",
        "        asked = exchange, key, None, len(value)\n",
        ("tests/amqp_frontend/topology/test_row_entries.py",),
    ),
    Mutant(
        "only the first of many entries may be a batch",
        "pulsar_frontend/arneb_pulsar/columns.py",
        "        at = stretch.find(BATCH_TAG, (index + 1) * width)\n",
        "        at = -1\n",
        ("tests/spark_connector/test_decode.py",),
    ),
    Mutant(
        "messages without a sequence id are renumbered in each piece of a batch",
        "pulsar_frontend/arneb_pulsar/columns.py",
        "_sequence_ids(singles, joined, metadata.sequence_id + first)\n",
        "_sequence_ids(singles, joined, metadata.sequence_id)\n",
        ("tests/pulsar_frontend/test_columns.py",),
    ),
    Mutant(
        "properties are searched for only before the key",
        "pulsar_frontend/arneb_pulsar/columns.py",
        'PROPERTIES_TAG in b"".join(map(_after_key, heads))\n',
        "any(head[:1] == PROPERTIES_TAG for head in heads)\n",
        ("tests/pulsar_frontend/test_columns.py",),
    ),
    Mutant(
        "metadata longer than the first entry's is read only up to that length",
        "pulsar_frontend/arneb_pulsar/columns.py",
        "    if longest > most:\n",
        "    if longest > most > SEARCHED_BYTES_MAX:\n",
        ("tests/pulsar_frontend/test_columns.py",),
    ),
    Mutant(
        "the store is not told what is written ahead",
        CORE + "engine/group_commit/write_ahead.py",
        "                        puts=[(Table.META, META_AHEAD, pack_trims(where))],\n",
        "                        puts=[(Table.META, META_AHEAD, None)],\n",
        AHEAD,
    ),
    Mutant(
        "what was written ahead before a crash stays",
        CORE + "store/commit/commits.py",
        '            self._trims += unpack_trims(ahead or b"")\n',
        "",
        AHEAD,
    ),
    Mutant(
        "the start forgets where blocks of a crashed unit are left",
        CORE + "engine/catalog/recovery.py",
        "    for key in (META_TRIMS, META_AHEAD):\n",
        "    for key in ():\n",
        AHEAD,
    ),
    Mutant(
        "what was written in vain is read for as long as it exists",
        CORE + "store/reading/snapshot.py",
        "            if not (left and is_left_over(left, end, value)):\n",
        "            if not (left and is_left_over(left, first, value)):\n",
        AHEAD,
    ),
    Mutant(
        "a large unit is written in one step",
        CORE + "engine/group_commit/write_ahead.py",
        "            if size >= SLICE_BYTES or index == len(run.entries):\n",
        "            if index == len(run.entries):\n",
        AHEAD,
    ),
    Mutant(
        "a log opens ledgers where another node writes ahead",
        CORE + "log/durable_log.py",
        "        if run.opens and self._overtakes(run.ledger.id):\n",
        "        if False:\n",
        AHEAD,
    ),
    Mutant(
        "a caller that stops waiting for its commit has it removed",
        CORE + "engine/group_commit/planned_commit.py",
        "        if ahead.state is AheadState.STORED or",
        "        if",
        AHEAD,
    ),
    Mutant(
        "what could not be removed at once stays",
        CORE + "engine/group_commit/write_ahead.py",
        "                        trims=self._left,\n",
        "",
        AHEAD,
    ),
    Mutant(
        "the mark of a batch is not in the commit of its rows",
        DATA + "commits.py",
        "        unit = Unit(metadata=[(PREFIX + batch[0], mark.pack())])\n",
        "        unit = Unit()\n",
        WRITING,
    ),
    Mutant(
        "a commit that is repeated publishes again",
        DATA + "commits.py",
        "            if self._is_committed(batch):\n"
        '                return {"committed": True, "already": True',
        "            if self._is_committed(batch) and not wanted:\n"
        '                return {"committed": True, "already": True',
        WRITING,
    ),
    Mutant(
        "stages stay after their batch is committed",
        DATA + "stages.py",
        "        unit.metadata += [(each.key, None) for each in stages.values()]\n",
        "",
        WRITING,
    ),
    Mutant(
        "a piece that is sent again is stored again",
        DATA + "commits.py",
        "        if number == len(pieces):\n            return None\n",
        "        if number <= len(pieces):\n            return None\n",
        WRITING,
    ),
    Mutant(
        "a stage that lacks pieces is committed all the same",
        DATA + "commits.py",
        "        if (len(stage.pieces), stage.rows) != (wanted.pieces, wanted.rows):\n",
        "        if False:\n",
        WRITING,
    ),
    Mutant(
        "a lease never ends",
        DATA + "leases.py",
        "        return self.lease_s is not None and self.until_ms <= now_ms\n",
        "        return self.lease_s is not None and self.until_ms <= 0\n",
        CURSORS,
    ),
    Mutant(
        "a renewed lease ends when it would have ended",
        DATA + "leases.py",
        "            self.until_ms = max(self.until_ms, now_ms + 1000 * self.lease_s)\n",
        "            self.until_ms = self.until_ms or now_ms + 1000 * self.lease_s\n",
        CURSORS,
    ),
    Mutant(
        "the holder of a cursor is not checked",
        DATA + "cursors.py",
        "        if lease is not None and lease.owner != holder.owner:\n",
        "        if False and lease is not None:\n",
        CURSORS,
    ),
    Mutant(
        "failed runs leave their positions planned",
        CORE + "engine/group_commit/planned_commit.py",
        "chain((each for each, _ in self.counted), reversed(self.runs))",
        "chain((), reversed(self.runs))",
        RUNS,
    ),
    Mutant(
        "a ledger that was to end accepts more from publishers",
        CORE + "log/durable_log.py",
        "newest is not None and newest.id <= self.ended",
        "newest is not None and newest.id < self.ended",
        ROLLING,
    ),
    Mutant(
        "ledgers are trimmed though a cursor has not passed them",
        CORE + "engine/trimming/trimming.py",
        "        through = droppable_through(ledgers, slowest, retention=NOTHING_KEPT",
        "        through = droppable_through(ledgers, None, retention=NOTHING_KEPT",
        ROLLING,
    ),
    Mutant(
        "a ledger goes only if it is both old and followed by enough",
        CORE + "log/retention.py",
        "        if not (over_time or over_size):\n",
        "        if not (over_time and over_size):\n",
        ("tests/core/log/test_retention.py::test_what_may_go_goes_and_nothing_else",),
    ),
    Mutant(
        "a ledger whose last entry is the last that everybody passed stays",
        CORE + "log/retention.py",
        "info.entries and info.last > slowest:\n",
        "info.entries and info.last >= slowest:\n",
        ("tests/core/log/test_retention.py::test_what_may_go_goes_and_nothing_else",),
    ),
    Mutant(
        "a query that has ended keeps its place for months",
        DATA + "marks.py",
        "        kept_s = ENDED_MARK_S if mark.is_last else self._limits.mark_expiry_s\n",
        "        kept_s = self._limits.mark_expiry_s\n",
        WRITING,
    ),
    Mutant(
        "entries after trimmed ones are returned in their place",
        CORE + "store/reading/exported_blocks.py",
        "        if begins_after(stored, end, last):\n",
        "        if False:\n",
        ("tests/core/store/reading/test_exported_blocks.py",),
    ),
    Mutant(
        "a range of which nothing is left is requested again and again",
        "spark_connector/pyspark_arneb/decode/chunks.py",
        "        if gathered.end == start:\n",
        "        if not blocks:\n",
        ("tests/spark_connector/test_chunks.py",),
    ),
    Mutant(
        "the JVM keeps its priority when its worker yields",
        "spark_connector/pyspark_arneb/guest.py",
        "    for process in (os.getpid(), jvm_above(os.getppid(), proc)):\n",
        "    for process in (os.getpid(),):\n",
        ("tests/spark_connector/test_guest.py",),
    ),
    Mutant(
        "workers that have ten seconds to start yield like readers",
        "spark_connector/pyspark_arneb/guest.py",
        "if process == os.getpid() or not plans_queries(process, thread, proc):",
        "if True:",
        ("tests/spark_connector/test_guest.py",),
    ),
    Mutant(
        "a name that Linux cut inside a character ends a read",
        "spark_connector/pyspark_arneb/processes.py",
        '        return (proc / str(process) / "task" / str(thread) / "comm")'
        '.read_bytes().rstrip(b"\\n")\n',
        '        name = (proc / str(process) / "task" / str(thread) / "comm").read_text()\n'
        "        return name.encode().rstrip()\n",
        ("tests/spark_connector/test_guest.py",),
    ),
    Mutant(
        "a guest keeps its processor until the next tick",
        "spark_connector/pyspark_arneb/guest.py",
        "            _give_way(thread, nice)\n",
        "            pass\n",
        ("tests/spark_connector/test_guest.py",),
    ),
    Mutant(
        "guests keep all processors while others work",
        "spark_connector/pyspark_arneb/processors.py",
        "    return min(have // 2, math.ceil(ROOM * used)) if used >= WORK else 0\n",
        "    return 0\n",
        PROCESSORS,
    ),
    Mutant(
        "a guest on its own processors yields to other guests",
        "spark_connector/pyspark_arneb/processors.py",
        '            found[int(name.removeprefix("cpu"))] = user, user + sum(rest)\n',
        '            found[int(name.removeprefix("cpu"))] = user + rest[0], user + sum(rest)\n',
        PROCESSORS,
    ),
    Mutant(
        "its own driver's planning of a read counts as others' work",
        "spark_connector/pyspark_arneb/processors.py",
        "        self._since_s, self._since = self._now_s(), ticks(self._stat)\n",
        "        self._since = self._since or ticks(self._stat)\n",
        PROCESSORS,
    ),
    Mutant(
        "short reads never check whether they are alone",
        "spark_connector/pyspark_arneb/processors.py",
        "        self._see()\n        self._keep_to(0)\n",
        "        self._keep_to(0)\n",
        PROCESSORS,
    ),
    Mutant(
        "only the worker yields, and its JVM does not",
        "spark_connector/pyspark_arneb/processors.py",
        "        if self._jvm is not None:\n            for thread",
        "        if False:\n            for thread",
        PROCESSORS,
    ),
    Mutant(
        "nobody remembers the JVM's processors",
        "spark_connector/pyspark_arneb/processors.py",
        "                if thread != self._jvm:\n",
        "                if True:\n",
        PROCESSORS,
    ),
    Mutant(
        "a read that has yielded is never restored",
        "spark_connector/pyspark_arneb/guest.py",
        "        mine.end()\n",
        "        pass\n",
        PROCESSORS,
    ),
    Mutant(
        "a read checks the others once, when it begins",
        "spark_connector/pyspark_arneb/batch.py",
        "                make_room()\n",
        "                pass\n",
        PROCESSORS,
    ),
    Mutant(
        "small pieces of stages are not bounded",
        DATA + "room.py",
        "    wanted = used.stages + stages, used.pieces + 1, used.bytes + size\n",
        "    wanted = used.stages + stages, 0, used.bytes + size\n",
        LEFTOVERS,
    ),
    Mutant(
        "one user may stage as much as all together",
        DATA + "room.py",
        "        if user:\n",
        "        if not user:\n",
        ROOM,
    ),
    Mutant(
        "what many stage at once is counted only when it is stored",
        DATA + "room.py",
        "        self.count(user, stages, 1, size)\n"
        "        try:\n"
        "            yield\n"
        "        except BaseException:\n"
        "            self.count(user, -stages, -1, -size)\n"
        "            raise\n",
        "        yield\n        self.count(user, stages, 1, size)\n",
        ROOM,
    ),
    Mutant(
        "a batch without rows begins a query",
        DATA + "commits.py",
        "            if self._owner(query) is None:\n",
        "            if False:\n",
        ROOM,
    ),
    Mutant(
        "one user may have all remembered queries",
        DATA + "marks.py",
        "        if owner and self._counts[owner] >= most:\n",
        "        if False:\n",
        ROOM,
    ),
    Mutant(
        "a user who commits for another takes over the query",
        DATA + "commits.py",
        "self._owner(query) or rights.name)",
        "rights.name)",
        ROOM,
    ),
    Mutant(
        "leftovers are searched for among all leftovers, each time",
        DATA + "commits.py",
        "                    if self.stages.is_forgotten(batch, limit_ms):\n",
        "                    if batch in self.stages.forgotten(limit_ms):\n",
        LEFTOVERS,
    ),
    Mutant(
        "a query is still known when its last stage is gone",
        DATA + "stages.py",
        "            self._numbers[query].remove(number)\n",
        "            pass\n",
        WRITING,
    ),
    Mutant(
        "a log that never got a stage stays forever",
        DATA + "stages.py",
        "        known = self._batches.keys() | self._logs\n",
        "        known = set(self._batches)\n",
        LEFTOVERS,
    ),
    Mutant(
        "rights on ten thousand topics are checked in one turn",
        DATA + "rights.py",
        "        if number % ASKED_A_TURN == 0:\n",
        "        if False:\n",
        LEFTOVERS,
    ),
    Mutant(
        "all topics are listed in one turn",
        DATA + "topics.py",
        "            if number % DOCUMENTS_PER_TURN == 0:\n",
        "            if False:\n",
        LEFTOVERS,
    ),
)
