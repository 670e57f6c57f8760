"""Mistakes with room: ledgers that stay, positions that begin again, descriptors that run out."""

from typing import Final

from tests.mutants.table import CORE, Mutant

LAST_LEDGER_TESTS: Final = ("tests/core/test_last_ledger.py",)

ROOM_MUTANTS: Final = (
    Mutant(
        "a drained topic's last ledger stays until somebody publishes",
        CORE + "topic.py",
        "        ends = not appends and self.last_ledger_ends(now_ms, at_once=at_once)\n",
        "        ends = False\n",
        LAST_LEDGER_TESTS,
    ),
    Mutant(
        "positions begin again behind a last ledger that went",
        CORE + "topic.py",
        "            changes.puts.extend(log.successor_puts(ended_ms))\n",
        "            changes.puts.extend(log.successor_puts(ended_ms)[:1])\n",
        LAST_LEDGER_TESTS,
    ),
    Mutant(
        "a ledger ends under the entries of its own commit",
        CORE + "committer.py",
        "            appends = topic in flight.runs\n",
        "            appends = False\n",
        LAST_LEDGER_TESTS,
    ),
    Mutant(
        "a reader that keeps up loses the last ledger",
        CORE + "topic.py",
        "            min(each.mark_delete for each in self._subscriptions.values()),\n",
        "            self._slowest,\n",
        LAST_LEDGER_TESTS,
    ),
)
