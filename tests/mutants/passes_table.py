"""Mutants of saved passes of the loop, and of saved commits.

The rule: as in :mod:`tests.mutants.table`.
"""

from typing import Final

from tests.mutants.table import Mutant

CORE: Final = "core/arneb_core/"
POLLING: Final = "amqp_frontend/arneb_amqp/server/transport/polling.py"

ALONE_TESTS: Final = ("tests/core/engine/scheduling/test_turns_alone.py",)
POLLING_TESTS: Final = ("tests/amqp_frontend/server/transport/test_polling.py",)
READER_TESTS: Final = ("tests/core/engine/threads/test_reader.py",)
READING_TESTS: Final = ("tests/amqp_frontend/server/transport/test_reading.py",)
BACK_TESTS: Final = ("tests/core/engine/group_commit/test_standing_back.py",)
MAINTENANCE_TESTS: Final = ("tests/core/engine/scheduling/test_maintenance.py",)
OVERTAKING_TESTS: Final = ("tests/core/engine/group_commit/test_overtaking.py",)

PASSES_MUTANTS: Final = (
    Mutant(
        "the loop makes the entries of all requested reads, however many",
        CORE + "engine/threads/reader.py",
        "make is not None and self.requests_open > 1:\n",
        "make is not None and self.requests_open > 1 << 30:\n",
        READER_TESTS,
    ),
    Mutant(
        "entries before a damaged block cannot be read",
        CORE + "engine/threads/reader.py",
        "            if not runs:\n                raise\n            break\n",
        "            raise\n",
        READER_TESTS,
    ),
    Mutant(
        "the end of a topic's last ledger is overtaken by new entries",
        CORE + "engine/group_commit/overtaking.py",
        "            self._taken.update([topic for topic, _ in commit.trims])\n",
        "",
        OVERTAKING_TESTS,
    ),
    Mutant(
        "writing a cursor delays the publishers of its topic",
        CORE + "engine/group_commit/overtaking.py",
        "            self._taken.update([topic for topic, _ in commit.trims])\n",
        "            self._taken.update(commit.trim_due)\n",
        OVERTAKING_TESTS,
    ),
    Mutant(
        "what waits for the next large commit is overtaken by later ones",
        CORE + "engine/group_commit/overtaking.py",
        "        elif request.puts:\n            break\n",
        "",
        OVERTAKING_TESTS,
    ),
    Mutant(
        "the journal is taken over twice, by the flush of cursors and after it",
        CORE + "engine/scheduling/maintenance.py",
        "                self._flushed_at = trio.current_time()\n",
        "",
        MAINTENANCE_TESTS,
    ),
    Mutant(
        "commits that follow a flush of cursors wait for another",
        CORE + "engine/scheduling/maintenance.py",
        "                since = self._flushed_at\n"
        "                await trio.sleep_until(since + TAKEOVER_S)\n",
        "                since = trio.current_time()\n"
        "                await trio.sleep_until(since + TAKEOVER_S)\n",
        MAINTENANCE_TESTS,
    ),
    Mutant(
        "the end of a turn serves as many as a step of the pump",
        CORE + "engine/scheduling/steps.py",
        "                    is_left = self._step(TURN_END_ENTRIES_MAX)\n",
        "                    is_left = self._step()\n",
        ALONE_TESTS,
    ),
    Mutant(
        "a connection counts as answered while its commit is in progress",
        CORE + "engine/scheduling/steps.py",
        "not (is_left or are_served)",
        "not are_served",
        ALONE_TESTS,
    ),
    Mutant(
        "a client that waits for its answers is polled for as long as it likes",
        POLLING,
        "        return self._seconds() - self._passed_s > WITHOUT_PASS_S\n",
        "        return False\n",
        POLLING_TESTS,
    ),
    Mutant(
        "a poll in vain is followed by the next",
        POLLING,
        '        self._rest = VAIN_REST_TURNS\n        return b""\n',
        '        return b""\n',
        POLLING_TESTS,
    ),
    Mutant(
        "a client that sends several requests at a time has them read one by one",
        POLLING,
        "            self.asks, self._rest = False, REST_TURNS\n            return\n",
        "            self.asks = False\n            return\n",
        POLLING_TESTS,
    ),
    Mutant(
        "a client that has no answer yet is polled",
        "amqp_frontend/arneb_amqp/server/transport/reading.py",
        "        if is_awaited:\n",
        "        if True:\n",
        READING_TESTS,
    ),
    Mutant(
        "a quick client is assumed not to wait for its answers",
        POLLING,
        "                self.asks, self._clear = True, 0\n",
        "                self._rest = REST_TURNS\n",
        POLLING_TESTS,
    ),
    Mutant(
        "a publisher that asks for no answer has its messages read one by one",
        POLLING,
        "            elif not self._answered:",
        "            elif False:",
        POLLING_TESTS,
    ),
    Mutant(
        "one answer without earlier data shows that a client waits for each",
        POLLING,
        "        if self._clear == CLEAR_ANSWERS:\n",
        "        if self._clear:\n",
        POLLING_TESTS,
    ),
    Mutant(
        "a client that once waited for its answers is assumed to do so forever",
        POLLING,
        "                self._sure -= 1\n",
        "                pass\n",
        POLLING_TESTS,
    ),
    Mutant(
        "nobody checks for more data before an answer",
        "amqp_frontend/arneb_amqp/server/connection.py",
        "                if self._polling.asks:\n",
        "                if False:\n",
        ("tests/amqp_frontend/server/test_turns.py",),
    ),
    Mutant(
        "a polled client keeps the loop forever",
        "amqp_frontend/arneb_amqp/server/transport/reading.py",
        "            if polling.is_pass_due:\n",
        "            if False:\n",
        READING_TESTS,
    ),
    Mutant(
        "checking for data consumes it",
        "amqp_frontend/arneb_amqp/server/transport/link.py",
        "self._socket.recv(1, socket.MSG_PEEK)",
        "self._socket.recv(1)",
        ("tests/amqp_frontend/server/transport/test_link.py",),
    ),
    Mutant(
        "a publisher waits for a journal takeover that it does not need",
        CORE + "engine/group_commit/committer.py",
        "                if take_over and self._stand_back():\n",
        "                if False:\n",
        BACK_TESTS,
    ),
    Mutant(
        "a takeover of the journal waits as long as publishers send",
        CORE + "engine/group_commit/committer.py",
        "        goes_now = self._stood_back or self._receipts",
        "        goes_now = self._receipts",
        BACK_TESTS,
    ),
    Mutant(
        "a large commit goes before the cursors and by itself",
        CORE + "engine/group_commit/gathering.py",
        " and is_for_one_write(entries, size)\n",
        "\n",
        BACK_TESTS,
    ),
    Mutant(
        "commits for too many topics go before the cursors, by two flushes",
        CORE + "engine/group_commit/gathering.py",
        "    return len(topics) <= SMALL_RUNS_MAX and ",
        "    return ",
        BACK_TESTS,
    ),
    Mutant(
        "on one core the broker takes the time in which the client could answer",
        POLLING,
        "        self._may_poll = cores > 1\n",
        "        self._may_poll = True\n",
        POLLING_TESTS,
    ),
    Mutant(
        "a client that sends one message after another waits for a pass with every second one",
        CORE + "engine/group_commit/overtaking.py",
        "max(self._until + write_s, self._seconds() - CREDIT_S)",
        "max(self._until + write_s, self._seconds())",
        OVERTAKING_TESTS,
    ),
    Mutant(
        "writes during a commit take more than a part of the time",
        CORE + "engine/group_commit/overtaking.py",
        "max(self._until + write_s, self._seconds() - CREDIT_S)",
        "(self._seconds() - CREDIT_S)",
        OVERTAKING_TESTS,
    ),
    Mutant(
        "a loop that has been idle may write during commits for as long",
        CORE + "engine/group_commit/overtaking.py",
        "max(self._until + write_s, self._seconds() - CREDIT_S)",
        "self._until + write_s",
        OVERTAKING_TESTS,
    ),
    Mutant(
        "a client that has made deliveries to another is polled, and the other waits",
        "core/arneb_core/engine/scheduling/steps.py",
        "not (is_left or are_served)",
        "not is_left",
        ("tests/core/engine/scheduling/test_turns_alone.py",),
    ),
    Mutant(
        "what was stored between two turns of a client waits while it is polled",
        "core/arneb_core/engine/scheduling/steps.py",
        "            self._is_only_its_own = stands == self._stood and self._committer.is_idle\n",
        "            self._is_only_its_own = self._committer.is_idle\n",
        ("tests/core/engine/scheduling/test_turns_alone.py",),
    ),
    Mutant(
        "what is committed for another at the end of a turn waits while the first is polled",
        "core/arneb_core/engine/scheduling/steps.py",
        "            self._is_only_its_own = stands == self._stood and self._committer.is_idle\n",
        "            self._is_only_its_own = stands == self._stood\n",
        ("tests/core/engine/scheduling/test_turns_alone.py",),
    ),
    Mutant(
        "a turn's deliveries to few clients are sent in the next pass",
        "amqp_frontend/arneb_amqp/server/connection.py",
        "                flusher.flush_few(others)  # deliveries",
        "                pass  # deliveries",
        ("tests/amqp_frontend/server/test_own_deliveries.py",),
    ),
    Mutant(
        "the end of a turn writes to any number of connections",
        "amqp_frontend/arneb_amqp/server/transport/flusher.py",
        "        if 0 < len(flushes) - count <= FLUSHES_PER_TURN_END:\n",
        "        if 0 < len(flushes) - count:\n",
        ("tests/amqp_frontend/server/transport/test_flusher.py",),
    ),
    Mutant(
        "the end of a turn writes what others have added",
        "amqp_frontend/arneb_amqp/server/transport/flusher.py",
        "            for flush in list(islice(flushes, count, None)):\n",
        "            for flush in list(flushes):\n",
        ("tests/amqp_frontend/server/transport/test_flusher.py",),
    ),
    Mutant(
        "a client that has sent little waits for the long turn of one that has sent much",
        "amqp_frontend/arneb_amqp/server/transport/reading.py",
        "            if size >= LARGE_READ_BYTES and turns.short_reads != self._short_reads:\n",
        "            if False:\n",
        ("tests/amqp_frontend/server/transport/test_reading.py",),
    ),
    Mutant(
        "each large read waits for a pass, though there is nobody else",
        "amqp_frontend/arneb_amqp/server/transport/reading.py",
        "            if size >= LARGE_READ_BYTES and turns.short_reads != self._short_reads:\n",
        "            if size >= LARGE_READ_BYTES:\n",
        ("tests/amqp_frontend/server/transport/test_reading.py",),
    ),
    Mutant(
        "what many clients send in a pass is divided into several commits",
        "amqp_frontend/arneb_amqp/server/transport/reading.py",
        "            if size >= LARGE_READ_BYTES and turns.short_reads != self._short_reads:\n",
        "            if turns.short_reads != self._short_reads:\n",
        ("tests/amqp_frontend/server/transport/test_reading.py",),
    ),
    Mutant(
        "a client that has sent little waits for the report of a large commit",
        "core/arneb_core/engine/threads/loop_calls.py",
        "            if self.waits_for_others():\n"
        "                await trio.lowlevel.checkpoint()\n",
        "            self.waits_for_others()\n",
        ("tests/core/engine/threads/test_reader.py",),
    ),
    Mutant(
        "others count as present once and for all",
        "core/arneb_core/engine/scheduling/steps.py",
        "        came, self._others_came = self._others_came, False\n",
        "        came = self._others_came\n",
        ("tests/core/engine/scheduling/test_turns_alone.py",),
    ),
    Mutant(
        "one message goes through any number of full queues in one commit",
        "amqp_frontend/arneb_amqp/topology/overflow.py",
        "        while done < most and (piece := self._step(done)):\n",
        "        while done < 40 * most and (piece := self._step(done)):\n",
        ("tests/amqp_frontend/topology/test_overflow.py",),
    ),
    Mutant(
        "a hundred dead letters are made in one turn, however long their headers are",
        "amqp_frontend/arneb_amqp/topology/overflow.py",
        "        return piece[: bisect_left(sizes, PROPERTY_BYTES_PER_STEP) + 1]\n",
        "        return piece[: len(sizes)]\n",
        ("tests/amqp_frontend/topology/test_overflow.py",),
    ),
    Mutant(
        "all dead letters of a refused transaction are made in one turn",
        "amqp_frontend/arneb_amqp/server/operations/publishes.py",
        "            for _ in admission.closing():\n"
        "                await trio.lowlevel.checkpoint()\n",
        "            admission.close()\n",
        ("tests/amqp_frontend/server/test_refusing.py",),
    ),
    Mutant(
        "messages of a transaction to alternating queues are admitted in one turn",
        "amqp_frontend/arneb_amqp/server/operations/stamping.py",
        "    left = entries_max\n    for names, entries in runs:\n",
        "    for names, entries in runs:\n        left = entries_max\n",
        ("tests/amqp_frontend/server/operations/test_stamping.py",),
    ),
    Mutant(
        "single acknowledgements of a transaction reach the core one by one",
        "amqp_frontend/arneb_amqp/session/transaction.py",
        "            before = answers.setdefault(each.consumer, each)\n",
        "            before = answers[len(answers)] = each\n",
        ("tests/amqp_frontend/session/consume/test_many_answers.py",),
    ),
    Mutant(
        "a transaction takes any number of acknowledgements in one turn",
        "amqp_frontend/arneb_amqp/session/consume/answers.py",
        "        tags = self.unacked.tags_through(tag, TRANSACTION_ANSWERS_PER_TURN)\n",
        "        tags = self.unacked.tags_through(tag)\n",
        ("tests/amqp_frontend/session/consume/test_many_answers.py",),
    ),
    Mutant(
        "a transaction takes any number of single acknowledgements in one turn",
        "amqp_frontend/arneb_amqp/session/consume/answers.py",
        "            count = TRANSACTION_ANSWERS_PER_TURN\n"
        "            self._add_answers(tags[:count], transaction, Answer.ACKNOWLEDGE)\n",
        "            count = len(tags)\n"
        "            self._add_answers(tags[:count], transaction, Answer.ACKNOWLEDGE)\n",
        ("tests/amqp_frontend/session/consume/test_many_answers.py",),
    ),
    Mutant(
        "a transaction takes any number of single rejections in one turn",
        "amqp_frontend/arneb_amqp/session/consume/answers.py",
        "            count = TRANSACTION_ANSWERS_PER_TURN\n"
        "            self._add_answers(tags[:count], transaction, _ANSWERS[run.requeue])\n",
        "            count = len(tags)\n"
        "            self._add_answers(tags[:count], transaction, _ANSWERS[run.requeue])\n",
        ("tests/amqp_frontend/session/consume/test_many_answers.py",),
    ),
    Mutant(
        "rejections before that of a stream's message are lost",
        "amqp_frontend/arneb_amqp/session/consume/answers.py",
        "for part in [[tag] for tag in tags] if self.streams else [tags]:",
        "for part in [tags]:",
        ("tests/amqp_frontend/session/consume/test_stream_reader.py",),
    ),
    Mutant(
        "rejections before that of an unknown tag are lost",
        "amqp_frontend/arneb_amqp/session/consume/answers.py",
        "            self._give_back(groups, requeue=run.requeue)\n",
        "            if unknown is None:\n"
        "                self._give_back(groups, requeue=run.requeue)\n",
        ("tests/amqp_frontend/session/consume/test_deliverer.py",),
    ),
    Mutant(
        "what is rejected right after another rejection is lost",
        "amqp_frontend/arneb_amqp/session/effect_queue.py",
        "            before.positions += answered.positions\n",
        "            pass\n",
        ("tests/amqp_frontend/session/consume/test_deliverer.py",),
    ),
    Mutant(
        "a row of rejects goes on however their bits differ",
        "amqp_frontend/arneb_amqp/wire/fast.py",
        'rb"([\\x00\\x01])", rb"\\2")',
        'rb"([\\x00\\x01])", rb"[\\x00\\x01]")',
        ("tests/amqp_frontend/wire/test_fast.py",),
    ),
    Mutant(
        "a multiple nack is taken for one that is not",
        "amqp_frontend/arneb_amqp/wire/fast.py",
        'rb"([\\x00\\x02])", rb"\\2")',
        'rb"([\\x00-\\x03])", rb"\\2")',
        ("tests/amqp_frontend/wire/test_fast.py",),
    ),
    Mutant(
        "acknowledgements in a transaction do not count as work of its turn",
        "amqp_frontend/arneb_amqp/session/consume/answers.py",
        "        self._context.work_left -= len(tags)\n",
        "",
        ("tests/amqp_frontend/session/consume/test_many_answers.py",),
    ),
    Mutant(
        "after a rollback the last unacknowledged delivery is not searched for",
        "amqp_frontend/arneb_amqp/session/consume/unacked.py",
        "            return max(self._positions, default=0)\n",
        "            return 0\n",
        ("tests/amqp_frontend/session/consume/test_many_answers.py",),
    ),
    Mutant(
        "any number of acknowledgements is undone in one turn",
        "amqp_frontend/arneb_amqp/session/consume/answers.py",
        "            count = min(len(pending), work_left)\n",
        "            count = len(pending)\n",
        ("tests/amqp_frontend/session/consume/test_many_answers.py",),
    ),
    Mutant(
        "a failed batch of a shovel takes up room forever",
        "amqp_frontend/arneb_amqp/shovels/local.py",
        "        finally:\n            admission.over()\n\n    async def _move",
        "        finally:\n            pass\n\n    async def _move",
        ("tests/amqp_frontend/shovels/test_local.py",),
    ),
    Mutant(
        "a blind copy is named in what the management API and shovels publish",
        "amqp_frontend/arneb_amqp/topology/publishing.py",
        "content = body if kept is properties else with_properties(body, encode_properties(kept))",
        "content = body",
        ("tests/amqp_frontend/topology/test_publishing.py",),
    ),
)
