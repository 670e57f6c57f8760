"""The mutant list, continued: a subscription as a machine, and who carries out what it wants done.

The rule: as in :mod:`tests.mutants.table`.
"""

from typing import Final

from tests.mutants.table import CORE, Mutant

MODEL_TESTS: Final = ("tests/core/subscription/test_machine_model.py",)
SCRIPTS: Final = ("tests/core/subscription/test_machine.py",)
LEAVING: Final = ("tests/core/subscription/test_leaving.py",)

MACHINE_MUTANTS: Final = (
    Mutant(
        "a turn that was given is still wanted",
        CORE + "subscription/state.py",
        '        """The turn asked for has come."""\n        self._turn_wanted = False\n',
        '        """The turn asked for has come."""\n',
        MODEL_TESTS,
    ),
    Mutant(
        "a cursor whose changes were taken is not announced again",
        CORE + "subscription/state.py",
        '        """The changes are on their way to disk; later ones have to be told again."""\n'
        "        self._cursor_told = False\n",
        '        """The changes are on their way to disk; later ones have to be told again."""\n',
        MODEL_TESTS,
    ),
    Mutant(
        "a cursor is lost sight of by a removal that failed",
        CORE + "subscription/state.py",
        "        if self._cursor_told:\n            self._cursor_told = False\n",
        "        if False:\n            self._cursor_told = False\n",
        SCRIPTS,
    ),
    Mutant(
        "the last part of a divided batch is not put out for delivery",
        CORE + "subscription/dispatch_loop.py",
        "            if outbox.calls:\n",
        "            if outbox.calls and taken:\n",
        ("tests/core/subscription/test_dispatch_loop.py",),
    ),
    Mutant(
        "calls that a failed turn left are made",
        CORE + "subscription/machine.py",
        "        self._outbox.drop_calls()\n",
        "",
        SCRIPTS,
    ),
    Mutant(
        "a target that comes too late takes dead letters out of a new reading",
        CORE + "subscription/dead_lettering.py",
        "        if depart.holder is not self._state.holder:\n",
        "        if False:\n",
        ("tests/core/subscription/test_dead_lettering.py",),
    ),
    Mutant(
        "a read that was answered wrongly is not read again",
        CORE + "subscription/effects.py",
        "        if not call(then, found):\n",
        "        if not call(then, found) and False:\n",
        ("tests/core/engine/group_commit/test_commit_path.py",),
    ),
    Mutant(
        "what lives no time is gone before a consumer that waits for it can have it read",
        CORE + "subscription/limit_enforcer.py",
        "        if has_room and self._ready.first() is state.reader:\n",
        "        if False:\n",
        ("tests/core/subscription/test_limit_enforcer.py",),
    ),
    Mutant(
        "what lives no time goes with what has expired in front of it",
        CORE + "subscription/limit_enforcer.py",
        "        expired = self.count_expired(entries, is_new=not cut)\n",
        "        expired = self.count_expired(at_hand[1])\n",
        ("tests/core/subscription/test_limit_enforcer.py",),
    ),
    Mutant(
        "who comes behind what is too much gets it before the turn in which it is seen",
        CORE + "subscription/machine.py",
        "        if self.state.may_depart and not self.delivery.has_room:\n",
        "        if False:\n",
        ("tests/core/subscription/test_limit_enforcer.py",),
    ),
    Mutant(
        "what is rejected leaves in the order of the log",
        CORE + "subscription/leaving.py",
        "            if later < earlier and len(self._sets) < SETS_MAX:\n",
        "            if False:\n",
        LEAVING,
    ),
    Mutant(
        "there may be a set for each entry that is rejected",
        CORE + "subscription/leaving.py",
        "            if later < earlier and len(self._sets) < SETS_MAX:\n",
        "            if later < earlier:\n",
        LEAVING,
    ),
    Mutant(
        "a batch of which messages are rejected one by one leaves twice",
        CORE + "subscription/leaving.py",
        "        if not self._places.isdisjoint(coming):\n",
        "        if False:\n",
        LEAVING,
    ),
)
