"""Mutants of handing over: which node a leader hands over to, which one goes first, and how soon.

The rule: as in :mod:`tests.mutants.table`.
"""

from typing import Final

from tests.mutants.table import Mutant

PROTOCOL: Final = "cluster/arneb_cluster/protocol/"
CLUSTERED: Final = "broker/arneb/clustered/"
TESTS: Final = "tests/cluster/protocol/"
LEADERSHIP_TESTS: Final = (TESTS + "test_leadership.py",)
SUCCESSOR_TESTS: Final = (TESTS + "test_successor.py",)
HAND_OVER_TESTS: Final = ("tests/cluster/test_hand_over.py",)
MEMBER_TESTS: Final = ("tests/cluster/test_member.py",)

HAND_OVER_MUTANTS: Final = (
    Mutant(
        "the active node does not let the successor go first",
        PROTOCOL + "lease.py",
        '        at_once = self.resigned and self.successor in ("", node)\n',
        "        at_once = self.resigned\n",
        LEADERSHIP_TESTS,
    ),
    Mutant(
        "a successor waits until it is active",
        PROTOCOL + "leadership.py",
        "        permitted = self._may_try or self.silence.is_called(self.node)\n",
        "        permitted = self._may_try\n",
        LEADERSHIP_TESTS,
    ),
    Mutant(
        "a successor that reads its name waits for the next tick",
        PROTOCOL + "leadership.py",
        "            self._look(now)  # clients wait for every tick\n",
        "            pass\n",
        LEADERSHIP_TESTS,
    ),
    Mutant(
        "a resignation does not name the successor",
        PROTOCOL + "window.py",
        "        self._add(Kind.RESIGNATION, stamp_ms, successor.encode(), stored)\n",
        '        self._add(Kind.RESIGNATION, stamp_ms, b"", stored)\n',
        (TESTS + "test_hand_over.py",),
    ),
    Mutant(
        "a new leader hands over to nobody",
        "cluster/arneb_cluster/handing_over.py",
        "            if not error.may_pass or shard.membership.is_settled:\n",
        "            if True:\n",
        ("tests/cluster/test_handing_over.py",),
    ),
    Mutant(
        "a leader waits forever for a missing member before it refuses",
        "cluster/arneb_cluster/handing_over.py",
        "            if not error.may_pass or shard.membership.is_settled:\n",
        "            if not error.may_pass:\n",
        ("tests/cluster/test_handing_over.py",),
    ),
    Mutant(
        "a leader hands over to a node that has not reported for long",
        PROTOCOL + "successor.py",
        "    if silent_s > HEARD_S:\n",
        "    if silent_s > HEARD_S * 1_000:\n",
        SUCCESSOR_TESTS,
    ),
    Mutant(
        "a leader hands over to a node that is taking a copy",
        PROTOCOL + "successor.py",
        "    if not member.is_copy:\n",
        "    if not member:\n",
        SUCCESSOR_TESTS,
    ),
    Mutant(
        "a leader hands over to a node that lacks much",
        PROTOCOL + "successor.py",
        "    if lag > LAG_RECORDS_MAX:\n",
        "    if lag > LAG_RECORDS_MAX * 1_000:\n",
        SUCCESSOR_TESTS,
    ),
    Mutant(
        "a leader hands over to the first node, not to the one that has most",
        PROTOCOL + "successor.py",
        "    return max(fit, key=lambda name: others[name].report.number)\n",
        "    return fit[0]\n",
        SUCCESSOR_TESTS,
    ),
    Mutant(
        "a leader that hands over does not name its successor",
        "cluster/arneb_cluster/handing_over.py",
        '    await shard.resign(f"handed over to {successor}", RESIGN_S, successor)\n',
        '    await shard.resign(f"handed over to {successor}", RESIGN_S)\n',
        HAND_OVER_TESTS,
    ),
    Mutant(
        "a node that does not lead tells nobody that it is to lead",
        CLUSTERED + "shards/hand_overs.py",
        "        if shard.state is not State.LEADING and isinstance(placement, Elsewhere):\n",
        "        if False:\n",
        HAND_OVER_TESTS,
    ),
    Mutant(
        "a node that does not lead answers requests meant for another",
        CLUSTERED + "shards/hand_overs.py",
        "        if shard is None or shard.state is not State.LEADING:\n",
        "        if shard is None:\n",
        HAND_OVER_TESTS,
    ),
    Mutant(
        "a leader's refusal is passed on as done",
        CLUSTERED + "shards/hand_overs.py",
        "        if not isinstance(done, dict):\n            raise NotPossible(str(refused))\n",
        "",
        HAND_OVER_TESTS,
    ),
    Mutant(
        "the next leader waits for the search for the last broker's garbage",
        CLUSTERED + "member.py",
        "            while part.shard.state in (State.RESIGNING, State.CLOSING):\n"
        "                await part.shard.changed()\n",
        "",
        HAND_OVER_TESTS,
    ),
    Mutant(
        "clients that were told to go are waited for as long as ever",
        "amqp_frontend/arneb_amqp/server/listener.py",
        "        with trio.move_on_after(self._goodbye_s):\n",
        "        with trio.move_on_after(GOODBYE_S):\n",
        ("tests/amqp_frontend/server/test_goodbye.py",),
    ),
    Mutant(
        "all nodes of a shard are equally preferred",
        "cluster/arneb_cluster/pulsar/election.py",
        "            priority_level=self._priority,\n",
        "",
        MEMBER_TESTS,
    ),
    Mutant(
        "a leader that stops does not name its successor",
        CLUSTERED + "shards/part.py",
        '            successor = successor_of(members, own, "", number, wall_clock_ms())\n',
        '            successor = ""\n',
        HAND_OVER_TESTS,
    ),
    Mutant(
        "a leader's engine is not opened as the settings say",
        CLUSTERED + "shards/part.py",
        "            applied=self._applied, opens=taking_over(config),\n",
        "            applied=self._applied,\n",
        MEMBER_TESTS,
    ),
    Mutant(
        "after a resignation nobody checks whether the active candidate is alive",
        PROTOCOL + "lease.py",
        "        return now >= self.since + SUSPECT_S\n",
        "        return not self.resigned and now >= self.since + SUSPECT_S\n",
        LEADERSHIP_TESTS,
    ),
)
