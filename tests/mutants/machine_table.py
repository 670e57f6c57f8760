"""Mutants of a subscription as a state machine, and of what carries out its requests.

The rule: as in :mod:`tests.mutants.table`.
"""

from typing import Final

from tests.mutants.table import CORE, Mutant

MODEL_TESTS: Final = ("tests/core/subscription/test_machine_model.py",)
SCRIPTS: Final = ("tests/core/subscription/test_machine.py",)
LEAVING: Final = ("tests/core/subscription/departures/test_leaving.py",)

HOLDERS_TESTS: Final = ("tests/core/subscription/state/test_holders.py",)

MACHINE_MUTANTS: Final = (
    Mutant(
        "a turn that was given is requested again",
        CORE + "subscription/state/state.py",
        '        """The turn asked for has come."""\n        self._turn_wanted = False\n',
        '        """The turn asked for has come."""\n',
        MODEL_TESTS,
    ),
    Mutant(
        "a cursor whose changes were taken is not announced again",
        CORE + "subscription/state/state.py",
        '        """The changes are on their way to disk; later ones must be reported again."""\n'
        "        self._cursor_reported = False\n",
        '        """The changes are on their way to disk; later ones must be reported again."""\n',
        MODEL_TESTS,
    ),
    Mutant(
        "a failed removal loses track of a cursor",
        CORE + "subscription/state/state.py",
        "        if self._cursor_reported:\n            self._cursor_reported = False\n",
        "        if False:\n            self._cursor_reported = False\n",
        SCRIPTS,
    ),
    Mutant(
        "the last part of a divided batch is not delivered",
        CORE + "subscription/dispatching/dispatch_loop.py",
        "            if outbox.calls:\n",
        "            if outbox.calls and taken:\n",
        ("tests/core/subscription/dispatching/test_dispatch_loop.py",),
    ),
    Mutant(
        "calls left by a failed turn are made",
        CORE + "subscription/machine.py",
        "        self._outbox.drop_calls()\n",
        "",
        SCRIPTS,
    ),
    Mutant(
        "a late target takes dead letters out of a new reading",
        CORE + "subscription/departures/dead_lettering.py",
        "        if depart.holder is not self._state.holder:\n",
        "        if False:\n",
        ("tests/core/subscription/departures/test_dead_lettering.py",),
    ),
    Mutant(
        "a read that was answered wrongly is not repeated",
        CORE + "subscription/state/effects.py",
        "        if not call(then, found):\n",
        "        if not call(then, found) and False:\n",
        ("tests/core/engine/group_commit/test_commit_path.py",),
    ),
    Mutant(
        "messages without lifetime expire before a waiting consumer can get them",
        CORE + "subscription/departures/limit_enforcer.py",
        "        if has_room and self._ready.first() is state.reader:\n",
        "        if False:\n",
        ("tests/core/subscription/departures/test_limit_enforcer.py",),
    ),
    Mutant(
        "messages without lifetime expire together with those in front of them",
        CORE + "subscription/departures/limit_enforcer.py",
        "        expired = self.count_expired(entries, is_new=not cut)\n",
        "        expired = self.count_expired(at_hand[1])\n",
        ("tests/core/subscription/departures/test_limit_enforcer.py",),
    ),
    Mutant(
        "a consumer gets surplus messages before the turn that would drop them",
        CORE + "subscription/machine.py",
        "        if self.state.may_depart and not self.delivery.has_room:\n",
        "        if False:\n",
        ("tests/core/subscription/departures/test_limit_enforcer.py",),
    ),
    Mutant(
        "rejected messages leave in the order of the log",
        CORE + "subscription/departures/leaving.py",
        "            if later < earlier and len(self._sets) < SETS_MAX:\n",
        "            if False:\n",
        LEAVING,
    ),
    Mutant(
        "there may be one set per rejected entry",
        CORE + "subscription/departures/leaving.py",
        "            if later < earlier and len(self._sets) < SETS_MAX:\n",
        "            if later < earlier:\n",
        LEAVING,
    ),
    Mutant(
        "a batch whose messages are rejected one by one leaves twice",
        CORE + "subscription/departures/leaving.py",
        "        if not self._positions.isdisjoint(coming):\n",
        "        if False:\n",
        LEAVING,
    ),
    Mutant(
        "a crowd of consumers is served in one turn",
        "core/arneb_core/subscription/dispatching/dispatch_loop.py",
        "        if len(positions) > DELIVERIES_MAX and delivery.is_crowded:\n",
        "        if False:\n",
        ("tests/core/subscription/dispatching/test_dispatch_loop.py",),
    ),
    Mutant(
        "a turn counts entries, and not how many consumers they go to",
        "core/arneb_core/subscription/dispatching/dispatch_loop.py",
        "                taken_total += DELIVERY_ENTRIES * len(outbox.calls)\n",
        "",
        ("tests/core/subscription/dispatching/test_dispatch_loop.py",),
    ),
    Mutant(
        "a crowd that shares keys is given all that came back in one turn",
        "core/arneb_core/subscription/dispatching/keyed.py",
        "        return sum(map(self._hand_out_due_to, due[:DELIVERIES_MAX]))\n",
        "        return sum(map(self._hand_out_due_to, due))\n",
        ("tests/core/subscription/dispatching/test_dispatch_loop.py",),
    ),
    Mutant(
        "a crowd that shares keys is given all that is new in one turn",
        "core/arneb_core/subscription/dispatching/keyed.py",
        "        if len(positions) > DELIVERIES_MAX and self._delivery.is_crowded:\n",
        "        if False:\n",
        ("tests/core/subscription/dispatching/test_dispatch_loop.py",),
    ),
    Mutant(
        "an acknowledgement of what others hold asks everybody",
        "core/arneb_core/subscription/state/holders.py",
        "        if len(consumers) <= self._few:\n",
        "        if len(consumers) >= 0:\n",
        HOLDERS_TESTS,
    ),
    Mutant(
        "what was delivered since is not taken away from its holder",
        "core/arneb_core/subscription/state/in_flight.py",
        "            self._note_whole(run.positions)\n",
        "",
        HOLDERS_TESTS,
    ),
)
