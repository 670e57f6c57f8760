"""The mutant list, continued: mistakes of passes and commits that are saved.

The rule: as in :mod:`tests.mutants.table`.
"""

from typing import Final

from tests.mutants.table import Mutant

CORE: Final = "core/arneb_core/"
LOOKING: Final = "amqp_frontend/arneb_amqp/server/looking.py"

ALONE_TESTS: Final = ("tests/core/engine/test_turns_alone.py",)
LOOKING_TESTS: Final = ("tests/amqp_frontend/server/test_looking.py",)
MAINTENANCE_TESTS: Final = ("tests/core/engine/test_maintenance.py",)
OVERTAKING_TESTS: Final = ("tests/core/engine/test_overtaking.py",)

PASSES_MUTANTS: Final = (
    Mutant(
        "what ends a topic's last ledger is overtaken by what goes into that",
        CORE + "engine/overtaking.py",
        "            self._taken.update([topic for topic, _ in commit.trims])\n",
        "",
        OVERTAKING_TESTS,
    ),
    Mutant(
        "a cursor that is written holds up the publishers of its topic",
        CORE + "engine/overtaking.py",
        "            self._taken.update([topic for topic, _ in commit.trims])\n",
        "            self._taken.update(commit.trim_due)\n",
        OVERTAKING_TESTS,
    ),
    Mutant(
        "what stays for the large commit behind it is passed by what stands behind it",
        CORE + "engine/overtaking.py",
        "        elif request.puts:\n            break\n",
        "",
        OVERTAKING_TESTS,
    ),
    Mutant(
        "the journal is taken over twice, by the flush of cursors and behind it",
        CORE + "engine/maintenance.py",
        "                self._flushed_at = trio.current_time()\n",
        "",
        MAINTENANCE_TESTS,
    ),
    Mutant(
        "what came behind a flush of cursors waits for another",
        CORE + "engine/maintenance.py",
        "                since = self._flushed_at\n"
        "                await trio.sleep_until(since + SETTLE_S)\n",
        "                since = trio.current_time()\n"
        "                await trio.sleep_until(since + SETTLE_S)\n",
        MAINTENANCE_TESTS,
    ),
    Mutant(
        "the end of a turn serves as many as a step of the pump",
        CORE + "engine/steps.py",
        "                    is_left = self._step(TURN_END_ENTRIES_MAX)\n",
        "                    is_left = self._step()\n",
        ALONE_TESTS,
    ),
    Mutant(
        "a connection whose commit is under way is said to have its answers",
        CORE + "engine/steps.py",
        "            return not is_left\n",
        "            return True\n",
        ALONE_TESTS,
    ),
    Mutant(
        "a client that waits for its answers is looked at for as long as it likes",
        LOOKING,
        "        if began - self._passed_s > WITHOUT_PASS_S:\n",
        "        if False:\n",
        LOOKING_TESTS,
    ),
    Mutant(
        "a look in vain is followed by the next",
        LOOKING,
        '        self._rest = VAIN_REST_LOOKS\n        return b""\n',
        '        return b""\n',
        LOOKING_TESTS,
    ),
    Mutant(
        "who sends more than one request at a time has them read one by one",
        LOOKING,
        "            self._rest = REST_LOOKS\n            return data\n",
        "            return data\n",
        LOOKING_TESTS,
    ),
    Mutant(
        "a client that has no answer yet is looked at",
        LOOKING,
        "        if is_awaited and self._may_look and (data := self._look(size)):\n",
        "        if self._may_look and (data := self._look(size)):\n",
        LOOKING_TESTS,
    ),
    Mutant(
        "on one core the broker takes the time in which the client could answer",
        LOOKING,
        "        self._may_look = cores > 1\n",
        "        self._may_look = True\n",
        LOOKING_TESTS,
    ),
)
