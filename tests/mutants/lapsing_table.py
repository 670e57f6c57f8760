"""Mutants of transactions that time out while only the range of their numbers tells of them.

The rule: as in :mod:`tests.mutants.table`.
"""

from typing import Final

from tests.mutants.table import Mutant
from tests.mutants.transactions_table import BEGINNING, BEGINNING_TESTS, COORDINATOR, MODEL_TESTS

LAPSING_TESTS: Final = ("tests/pulsar_frontend/server/test_transactions_lapsing.py",)

LAPSING_MUTANTS: Final = (
    Mutant(
        "a transaction that timed out, known by its range alone, opens again",
        BEGINNING,
        "        lapsed = self._reservations.lapsed(needed, now_ms)\n",
        "        lapsed = []\n",
        MODEL_TESTS,
    ),
    Mutant(
        "transactions known by a range that goes are forgotten with it",
        COORDINATOR,
        "may_go=may_go, lapsed=self._lapsing)",
        "may_go=may_go)",
        MODEL_TESTS,
    ),
    Mutant(
        "a transaction that timed out while the broker was down can be committed",
        COORDINATOR,
        "            if self._beginning.has_lapsed(began_ms):\n",
        "            if False:\n",
        BEGINNING_TESTS,
    ),
    Mutant(
        "a transaction known by its range alone opens again once the clock is set back",
        COORDINATOR,
        "        if self._beginning.has_lapsed(now_ms):\n",
        "        if False:\n",
        MODEL_TESTS,
    ),
    Mutant(
        "a transaction known by its range alone is gone while the clock is ahead",
        BEGINNING,
        "        if reserved is None:\n",
        "        if reserved is None or reserved.opened.until_ms <= self._clock.wall_ms():\n",
        LAPSING_TESTS,
    ),
    Mutant(
        "nobody looks for transactions that have timed out while none is open",
        COORDINATOR,
        "            if self._open or self._beginning.has_earlier:\n",
        "            if self._open:\n",
        LAPSING_TESTS,
    ),
    Mutant(
        "time-outs are stored before it is known which transactions are open",
        COORDINATOR,
        "        while not self._is_started:\n",
        "        while False:\n",
        LAPSING_TESTS,
    ),
    Mutant(
        "a transaction opens while it is being stored that its time was up",
        COORDINATOR,
        "            if number in self._lapsing:\n",
        "            if False:\n",
        LAPSING_TESTS,
    ),
    Mutant(
        "who ends a transaction is answered before it is stored that its time was up",
        COORDINATOR,
        "            while wanted.least_bits in self._lapsing:\n",
        "            while False:\n",
        LAPSING_TESTS,
    ),
)
