"""The mutant list, continued: mistakes of those who coordinate transactions.

The rule: as in :mod:`tests.mutants.table`.
"""

from typing import Final

from tests.mutants.table import CORE, Mutant

PULSAR: Final = "pulsar_frontend/arneb_pulsar/"
WITHHOLDING_TESTS: Final = ("tests/core/engine/test_withholding.py",)
TRANSACTION_TESTS: Final = ("tests/pulsar_frontend/server/test_transactions.py",)
BOUND_TESTS: Final = ("tests/pulsar_frontend/server/test_transaction_bounds.py",)

ADMIN_TESTS: Final = ("tests/pulsar_frontend/admin/test_transactions.py",)

TURN_TESTS: Final = ("tests/pulsar_frontend/server/test_transaction_turns.py",)
WRITER_TESTS: Final = ("tests/pulsar_frontend/server/test_writer.py",)
BEGINNING: Final = PULSAR + "services/beginning.py"
RECOVERED: Final = PULSAR + "services/recovered_transactions.py"

RESERVATIONS: Final = PULSAR + "transactions/reservations.py"
BEGINNING_TESTS: Final = ("tests/pulsar_frontend/server/test_transaction_beginnings.py",)
RESERVATION_TESTS: Final = ("tests/pulsar_frontend/transactions/test_reservations.py",)

MODEL_TESTS: Final = ("tests/pulsar_frontend/server/test_transactions_model.py",)

TRANSACTION_MUTANTS: Final = (
    Mutant(
        "a run that waits to be told from duplicates is not waited for by its transaction's end",
        PULSAR + "services/deduplication.py",
        "_Held(owner, run, self._expected(owner, run))",
        "_Held(owner, run, None)",
        TRANSACTION_TESTS,
    ),
    Mutant(
        "what was sent behind a transaction's end is stored with what waited before it",
        PULSAR + "services/deduplication.py",
        "        mine = wanted, held.owner.caller, held.expected\n",
        "        mine = wanted, held.owner.caller, batch.expected\n",
        TRANSACTION_TESTS,
    ),
    Mutant(
        "what a transaction acknowledged is delivered after a restart",
        CORE + "subscription/sources/backlog.py",
        "        if withheld := self.withheld:\n",
        "        if (withheld := self.withheld) and False:\n",
        WITHHOLDING_TESTS,
    ),
    Mutant(
        "what comes back from a transaction is passed over by whoever read ahead",
        CORE + "subscription/withheld.py",
        "        self._state.reader.reread(held)\n",
        "        pass\n",
        WITHHOLDING_TESTS,
    ),
    Mutant(
        "two transactions acknowledge the same message of a batch",
        CORE + "subscription/withheld.py",
        "            if mask & ~free & ((1 << size) - 1):\n",
        "            if not mask & free:\n",
        WITHHOLDING_TESTS,
    ),
    Mutant(
        "a transaction from before a seek acknowledges what is to come again",
        CORE + "subscription/machine.py",
        "            self._withheld.forget()\n",
        "            pass\n",
        WITHHOLDING_TESTS,
    ),
    Mutant(
        "the outcome of a commit is not part of it",
        PULSAR + "services/ending.py",
        "        unit = Unit(metadata=[end.row], passes_over_gone=True)\n",
        "        unit = Unit(passes_over_gone=True)\n",
        TRANSACTION_TESTS,
    ),
    Mutant(
        "acknowledgements are no part of the commit",
        PULSAR + "services/ending.py",
        "                unit.parts.append((acks.holder, acks.masks))\n",
        "                unit.acks.clear()\n",
        TRANSACTION_TESTS,
    ),
    Mutant(
        "what was acknowledged in an aborted transaction never comes again",
        PULSAR + "services/transactions.py",
        "                if not commit:\n                    self._ending.give_back(found)\n",
        "",
        TRANSACTION_TESTS,
    ),
    Mutant(
        "an open transaction is forgotten by a restart",
        PULSAR + "services/transactions.py",
        "                self._open.update(found)\n",
        "                pass\n",
        TRANSACTION_TESTS,
    ),
    Mutant(
        "a transaction that was begun after a restart has the number of another",
        BEGINNING,
        '                era = int.from_bytes(kept, "big") + 1\n',
        "                era = 1\n",
        TRANSACTION_TESTS,
    ),
    Mutant(
        "a commit that could not be stored is never tried again",
        PULSAR + "services/transactions.py",
        "                found.move(TransactionState.OPEN)\n",
        "                pass\n",
        TRANSACTION_TESTS,
    ),
    Mutant(
        "a commit after the time was up counts",
        PULSAR + "services/transactions.py",
        "            if each.opened.until_ms <= now_ms and each.state is TransactionState.OPEN:\n",
        "            if each.opened.until_ms < 0 and each.state is TransactionState.OPEN:\n",
        TRANSACTION_TESTS,
    ),
    Mutant(
        "a message sent to a transaction of somebody else's is taken",
        PULSAR + "services/transactions.py",
        "        if caller is not None and found.opened.owner != (caller.role, caller.original):\n",
        "        if False:\n",
        ("tests/pulsar_frontend/server/test_rules.py",),
    ),
    Mutant(
        "a large transaction is kept in memory",
        PULSAR + "services/open_transaction.py",
        "            self.keep_nothing()\n",
        "            sends.kept += entries\n",
        TRANSACTION_TESTS,
    ),
    Mutant(
        "small transactions that are left open hold gigabytes of entries",
        PULSAR + "services/open_transaction.py",
        "        is_small = self.sent_bytes <= KEPT_BYTES and self._held.has_room(size)\n",
        "        is_small = self.sent_bytes <= KEPT_BYTES\n",
        BOUND_TESTS,
    ),
    Mutant(
        "names of topics in open transactions are not counted",
        PULSAR + "services/open_transaction.py",
        "        self._held.expect_room(size)\n        self._hold(size)\n",
        "",
        BOUND_TESTS,
    ),
    Mutant(
        "an aborted transaction counts as committed",
        PULSAR + "services/transactions.py",
        "        found.forget(committed=end.committed)\n",
        "        found.forget(committed=not end.committed)\n",
        ("tests/pulsar_frontend/admin/test_transactions.py",),
    ),
    Mutant(
        "what an ended transaction held is never given back",
        PULSAR + "services/transactions.py",
        "        found.forget(committed=end.committed)\n",
        "        pass\n",
        BOUND_TESTS,
    ),
    Mutant(
        "those who open transactions at the same moment have more than the bound",
        PULSAR + "services/transactions.py",
        "        if len(self._open) + self._beginning.under_way >= most:\n",
        "        if len(self._open) >= most:\n",
        BOUND_TESTS,
    ),
    Mutant(
        "a transaction whose time is up after the end of all numbers can never be ended",
        PULSAR + "services/transactions.py",
        "        if timeout_ms > TIMEOUT_MS_MAX:\n",
        "        if False:\n",
        BOUND_TESTS,
    ),
    Mutant(
        "who peeks takes what is not committed for committed",
        PULSAR + "admin/peeking.py",
        '        PREFIX + "txn-uncommitted": "true",\n',
        '        PREFIX + "txn-uncommitted": "false",\n',
        ADMIN_TESTS,
    ),
    Mutant(
        "a transaction that an operator aborts is committed",
        PULSAR + "admin/transactions.py",
        "        await context.transactions.end(_id_in(request), None, commit=False)\n",
        "        await context.transactions.end(_id_in(request), None, commit=True)\n",
        ADMIN_TESTS,
    ),
    Mutant(
        "records of transactions that have ended are looked at",
        CORE + "store/kept.py",
        "            elif kind is CursorKind.HOLES:\n                holes[chunk]",
        "            elif False:\n                holes[chunk]",
        ("tests/broker/test_store_check.py",),
    ),
    Mutant(
        "a message in a transaction whose header is damaged is no finding",
        PULSAR + "transactions/checking.py",
        "                    read_header(record.entry)\n",
        "                    pass\n",
        ("tests/pulsar_frontend/transactions/test_checking.py",),
    ),
    Mutant(
        "a transaction that was committed and aborted is no finding",
        PULSAR + "transactions/checking.py",
        "        if both := each.committed & each.aborted:\n",
        "        if (both := each.committed & each.aborted) and False:\n",
        ("tests/pulsar_frontend/transactions/test_checking.py",),
    ),
    Mutant(
        "a record that is cut off ends the check",
        PULSAR + "transactions/records.py",
        "    except (struct.error, TypeError) as error:\n",
        "    except TypeError as error:\n",
        ("tests/pulsar_frontend/transactions/test_records.py",),
    ),
    Mutant(
        "an aborted transaction is said to be committed once outcomes were drawn together",
        PULSAR + "transactions/outcomes.py",
        "            made.aborted.update(each for each,",
        "            made.committed.update(each for each,",
        ("tests/pulsar_frontend/transactions/test_outcomes.py",),
    ),
    Mutant(
        "outcomes go before the last of them may",
        PULSAR + "transactions/outcomes.py",
        "            made = Many(self._next, max(until_ms for _, until_ms in singles.values()))\n",
        "            made = Many(self._next, min(until_ms for _, until_ms in singles.values()))\n",
        ("tests/pulsar_frontend/transactions/test_outcomes.py",),
    ),
    Mutant(
        "a commit passes what is on its way to disk",
        PULSAR + "services/transactions.py",
        "            while found.under_way:\n",
        "            while False:\n",
        MODEL_TESTS,
    ),
    Mutant(
        "an acknowledgement that could not be stored is never delivered again",
        PULSAR + "services/transactions.py",
        "                    subscription.give_back(whole, masks)\n",
        "                    pass\n",
        MODEL_TESTS,
    ),
    Mutant(
        "what an open transaction acknowledged is delivered again after a kill",
        RECOVERED,
        "            _withhold_again(transaction, record, topics.get(record.topic))\n",
        "            pass\n",
        MODEL_TESTS,
    ),
    Mutant(
        "what open transactions sent is lost by a kill",
        RECOVERED,
        "                transaction.sent(topic, place, [record.entry])\n",
        "                transaction.records.add(place)\n",
        MODEL_TESTS,
    ),
    Mutant(
        "each topic of a resource group has its rate for itself",
        PULSAR + "services/throttles.py",
        "        present.limits, present.shared = limits, shared\n",
        "        present.limits = limits\n",
        ("tests/pulsar_frontend/admin/test_resource_groups.py",),
    ),
    Mutant(
        "what a transaction acknowledged of a batch it acknowledges once more",
        PULSAR + "server/transactions.py",
        "                if mask or effect.until is None:\n",
        "                if True:\n",
        TRANSACTION_TESTS,
    ),
    Mutant(
        "a commit that needs no task passes what is on its way to disk",
        PULSAR + "services/open_transaction.py",
        "        return self.has_kept and not self.under_way\n",
        "        return self.has_kept\n",
        MODEL_TESTS,
    ),
    Mutant(
        "a read full of small requests is one turn",
        PULSAR + "server/connection.py",
        "        is_short = self._effects.transactions.units_left > 0\n",
        "        is_short = True\n",
        TURN_TESTS,
    ),
    Mutant(
        "transactions of many messages end as many in a turn as small ones",
        PULSAR + "services/open_transaction.py",
        "        return (len(self.records) + self.acked) // PER_UNIT\n",
        "        return 0\n",
        TURN_TESTS,
    ),
    Mutant(
        "each request of a read has a commit of its own",
        PULSAR + "session/connection.py",
        "                self.was_small = command.type in SMALL\n",
        "                self.was_small = False\n",
        TURN_TESTS,
    ),
    Mutant(
        "records of transactions that have ended stay for as long as others are open",
        PULSAR + "services/held_records.py",
        "        if ENDED_TOGETHER <= len(self._ended) <= ENDED_PER_TURN:\n",
        "        if False:\n",
        TURN_TESTS,
    ),
    Mutant(
        "what a client's kernel does not take at once is never said",
        PULSAR + "server/writer.py",
        "            self._left = data[sent:]\n",
        "            self._left = data[:0]\n",
        WRITER_TESTS,
    ),
    Mutant(
        "what is said at once goes before what is being written",
        PULSAR + "server/writer.py",
        "        if self._plain is None or self._busy:\n",
        "        if self._plain is None:\n",
        WRITER_TESTS,
    ),
    Mutant(
        "a connection that ends says goodbye behind half a frame that it said at once",
        PULSAR + "server/writer.py",
        "            self._torn = sent > 0\n",
        "            pass\n",
        WRITER_TESTS,
    ),
    Mutant(
        "the end of a transaction passes what came before it in the same read",
        PULSAR + "session/connection.py",
        "            if command.type == BaseCommand.END_TXN:\n",
        "            if command.type == BaseCommand.ADD_PARTITION_TO_TXN:\n",
        TURN_TESTS,
    ),
    Mutant(
        "a topic that goes while it is committed to ends the transaction's attempt",
        PULSAR + "services/ending.py",
        "            if isinstance(error, TopicFenced) and tries < TRIES_MAX:\n",
        "            if isinstance(error, TopicFenced) and tries < 1:\n",
        TURN_TESTS,
    ),
    Mutant(
        "what is done first in a transaction does not say who opened it",
        BEGINNING,
        "    if found.is_recorded:\n",
        "    if True:\n",
        BEGINNING_TESTS,
    ),
    Mutant(
        "what was done first in a transaction is lost by what was done at the same moment",
        RECOVERED,
        "        if isinstance(record, Opened) and transaction is not None:\n",
        "        if False:\n",
        BEGINNING_TESTS,
    ),
    Mutant(
        "a range goes from the disk while one is open that is known by it alone",
        RESERVATIONS,
        "            if first not in used and first not in needed\n",
        "            if first not in used\n",
        RESERVATION_TESTS,
    ),
    Mutant(
        "numbers are given out before their range is on disk",
        RESERVATIONS,
        "        line.is_under_way = True\n        return Reserved(",
        "        line.use(Reserved(first, line.count, now_ms + GIVEN_MS, timeout_ms, owner))\n"
        "        return Reserved(",
        RESERVATION_TESTS,
    ),
    Mutant(
        "a range is told of for longer than outcomes of transactions that it had",
        RESERVATIONS,
        "        return self.opened.until_ms - GIVEN_MS + KEPT_MS\n",
        "        return self.opened.until_ms + KEPT_MS\n",
        RESERVATION_TESTS,
    ),
    Mutant(
        "numbers of a range are given out when its time is over",
        RESERVATIONS,
        "            if now_ms < self.now.given_until_ms and number",
        "            if number",
        RESERVATION_TESTS,
    ),
    Mutant(
        "a range that could not be stored is never tried again",
        RESERVATIONS,
        "        if line := self._lines.get((reserved.owner, reserved.timeout_ms)):\n",
        "        if line := None:\n",
        BEGINNING_TESTS,
    ),
    Mutant(
        "a transaction that stays idle is never recorded",
        BEGINNING,
        " in self._unrecorded.items() if number in idle]\n",
        " in self._unrecorded.items() if not number]\n",
        BEGINNING_TESTS,
    ),
    Mutant(
        "thousands of idle transactions are recorded in one turn",
        BEGINNING,
        "            if start:\n                await trio.lowlevel.checkpoint()\n",
        "",
        BEGINNING_TESTS,
    ),
    Mutant(
        "an idle transaction is recorded again every second, while the disk takes longer than that",
        BEGINNING,
        "not (found.is_recorded or found.under_way)\n",
        "not found.is_recorded\n",
        BEGINNING_TESTS,
    ),
    Mutant(
        "a clock that is set back has numbers given out that nobody would know after a crash",
        RESERVATIONS,
        "            line.let_go(now_ms)\n",
        "            pass\n",
        RESERVATION_TESTS,
    ),
    Mutant(
        "numbers of the next era are given out in this one",
        BEGINNING,
        "            self.latest = 0  # the next one waits for another era\n",
        "            pass\n",
        BEGINNING_TESTS,
    ),
    Mutant(
        "a transaction whose time was up while the broker was down was never there",
        BEGINNING,
        "        return reserved is not None and reserved.opened.until_ms <= ",
        "        return reserved is None and reserved.opened.until_ms <= ",
        BEGINNING_TESTS,
    ),
    Mutant(
        "whoever asks first has a transaction in which nothing was done before the crash",
        RESERVATIONS,
        "        return Opened(self.given_until_ms, self.timeout_ms, self.owner)\n",
        '        return Opened(self.given_until_ms, self.timeout_ms, ("somebody else", ""))\n',
        BEGINNING_TESTS,
    ),
    Mutant(
        "anybody has the transactions of others opened again after a crash",
        BEGINNING,
        "        if caller is None or found.opened.owner == (caller.role, caller.original):\n",
        "        if True:\n",
        BEGINNING_TESTS,
    ),
    Mutant(
        "whose range is asked for after its owner has opened thousands is the wrong one",
        RESERVATIONS,
        "            if 0 <= number - each.first < each.count:\n",
        "            if 0 <= number - each.first:\n",
        RESERVATION_TESTS,
    ),
)
