"""Mutants of keys, and of limits of unacknowledged messages.

The rule: as in :mod:`tests.mutants.table`.
"""

from typing import Final

from tests.mutants.table import CORE, Mutant

KEY_SHARED: Final = CORE + "dispatch/key_shared.py"
KEY_SHARED_TESTS: Final = ("tests/core/engine/subscriptions/test_key_shared.py",)
KEYED_GROUP_TESTS: Final = (
    "tests/core/dispatch/test_key_shared.py",
    "tests/core/engine/subscriptions/test_key_shared_groups.py",
)
UNACKED_TESTS: Final = ("tests/core/engine/subscriptions/test_unacked.py",)
GROUP_TESTS: Final = ("tests/core/engine/subscriptions/test_groups.py",)
RANGED_TESTS: Final = ("tests/core/engine/subscriptions/test_ranged.py",)
SELECTOR_TESTS: Final = ("tests/core/dispatch/test_selector.py",)

LOOK_AHEAD_TESTS: Final = ("tests/pulsar_frontend/server/test_key_shared.py",)

KEYS_MUTANTS: Final = (
    Mutant(
        "whoever may leave one message unanswered never counts as shut off",
        CORE + "api/subscriptions/windows.py",
        "        return self.limit != self.most or self.in_flight >= self.most\n",
        "        return self.limit != self.most\n",
        ("tests/core/api/subscriptions/test_windows.py",),
    ),
    Mutant(
        "as much as by default waits for the turn of its key",
        "pulsar_frontend/arneb_pulsar/server/attachments.py",
        "        return replace(wanted, mode=mode, look_ahead=config.look_ahead)\n",
        "        return replace(wanted, mode=mode)\n",
        LOOK_AHEAD_TESTS,
    ),
    Mutant(
        "without its own limits what waits is not bounded",
        "pulsar_frontend/arneb_pulsar/config.py",
        "        if each or together:\n",
        "        if True:\n",
        LOOK_AHEAD_TESTS,
    ),
    Mutant(
        "a slot that has drained is not counted",
        KEY_SHARED,
        "                        self._drained[holder] = self._drained.get(holder, 0) + 1\n",
        "                        self._drained[holder] = self._drained.get(holder, 0)\n",
        ("tests/core/dispatch/test_key_shared.py",),
    ),
    Mutant(
        "keys are dealt out in turn",
        KEY_SHARED,
        "        owners = map(self._owner_of if lines is not slots else "
        "self._owners.__getitem__, lines)\n",
        "        count = len(self._receivers)\n"
        "        owners = [self._receivers[each % count] for each in range(len(slots))]\n",
        KEY_SHARED_TESTS,
    ),
    Mutant(
        "a key that moves does not drain",
        KEY_SHARED,
        " or line in waiting or line in draining:\n",
        " or line in waiting:\n",
        KEY_SHARED_TESTS,
    ),
    Mutant(
        "a waiting key that moves does not drain",
        KEY_SHARED,
        "        return not self.in_order or line not in self._draining\n",
        "        return True\n",
        KEY_SHARED_TESTS,
    ),
    Mutant(
        "a drained key is not released",
        KEY_SHARED,
        "                    if slot in waiting:\n",
        "                    if False:\n",
        KEY_SHARED_TESTS,
    ),
    Mutant(
        "new entries overtake waiting ones of their key",
        KEY_SHARED,
        " or line in waiting or line in draining:\n",
        " or line in draining:\n",
        KEY_SHARED_TESTS,
    ),
    Mutant(
        "returned entries go behind waiting ones",
        CORE + "dispatch/waiting_keys.py",
        "            self._by_slot[slot] = deque(sorted(set(self._by_slot[slot])))\n",
        "            pass\n",
        KEY_SHARED_TESTS,
    ),
    Mutant(
        "what waits is not bounded",
        KEY_SHARED,
        "        return len(self._waiting) < self._look_ahead.most(len(self._receivers))\n",
        "        return True\n",
        KEY_SHARED_TESTS,
    ),
    Mutant(
        "keys keep their owner when a consumer joins or leaves",
        KEY_SHARED,
        "        self._owners.clear()\n",
        "        pass\n",
        KEY_SHARED_TESTS,
    ),
    Mutant(
        "an acknowledged entry still holds its key",
        CORE + "subscription/state/in_flight.py",
        "        if taken and self.keys is not None:\n",
        "        if False and self.keys is not None:\n",
        KEY_SHARED_TESTS,
    ),
    Mutant(
        "permits do not count for keys",
        KEY_SHARED,
        "            if owner is None or owner not in rooms or",
        "            rooms.setdefault(owner, 1)\n            if owner is None or",
        KEY_SHARED_TESTS,
    ),
    Mutant(
        "new messages of other keys overtake one that came back and is being read",
        CORE + "subscription/dispatching/keyed.py",
        "        return handed_out if handed_out or self._is_reading else self._hand_out_new()\n",
        "        return handed_out or self._hand_out_new()\n",
        KEY_SHARED_TESTS,
    ),
    Mutant(
        "a batch delivered by key costs one permit",
        CORE + "subscription/dispatching/keyed.py",
        "            costs = list(map(self._cost, positions, entries))\n",
        "            pass\n",
        KEY_SHARED_TESTS,
    ),
    Mutant(
        "a new consumer takes the upper half",
        CORE + "dispatch/auto_split.py",
        "        self._receivers.insert(index, receiver)\n",
        "        self._receivers.insert(index + 1, receiver)\n",
        SELECTOR_TESTS,
    ),
    Mutant(
        "sticky ranges may overlap",
        CORE + "dispatch/sticky_ranges.py",
        "    present = sorted([*wanted, *taken])\n",
        "    present = sorted(wanted)\n",
        SELECTOR_TESTS,
    ),
    Mutant(
        "entries without a key go to one consumer",
        CORE + "dispatch/selector.py",
        "    if 0 in hashes:\n",
        "    if False:\n",
        SELECTOR_TESTS,
    ),
    Mutant(
        "a blocked consumer is released by the first acknowledgement",
        CORE + "api/subscriptions/windows.py",
        "            self.limit = self.resume + 1\n",
        "            self.limit = self.most\n",
        UNACKED_TESTS,
    ),
    Mutant(
        "a blocked consumer stays blocked",
        CORE + "api/subscriptions/windows.py",
        "        elif self.in_flight <= self.resume:\n",
        "        elif False:\n",
        UNACKED_TESTS,
    ),
    Mutant(
        "a leaving consumer's unacknowledged messages count forever",
        CORE + "subscription/state/in_flight.py",
        "        if messages:\n            self.freed(messages)\n        if taken",
        "        if messages and self.attached:\n            self.freed(1)\n        if taken",
        UNACKED_TESTS,
    ),
    Mutant(
        "permits are ignored",
        CORE + "dispatch/receiver.py",
        "        room = UNBOUNDED if self.unlimited else self.permits\n",
        "        room = UNBOUNDED\n",
        UNACKED_TESTS,
    ),
    Mutant(
        "a half-acknowledged batch costs all its permits",
        CORE + "subscription/entries/delivery.py",
        "                    masks[position], sizes[index] = free, free.bit_count()\n",
        "                    masks[position] = free\n",
        UNACKED_TESTS,
    ),
    Mutant(
        "one consumer gets more than its turn",
        CORE + "dispatch/shared.py",
        "                turn = left if len(waiting) == 1 else min(receiver.turn, left)\n",
        "                turn = left\n",
        UNACKED_TESTS,
    ),
    Mutant(
        "the chunks of a message are distributed like any others",
        CORE + "subscription/dispatching/grouped.py",
        "        receiver: Receiver | None = self._held.holders.get(group)\n",
        "        receiver: Receiver | None = None\n",
        GROUP_TESTS,
    ),
    Mutant(
        "a group whose consumer left stays with it",
        CORE + "subscription/dispatching/grouped.py",
        "        self._held.left(positions)\n",
        "        pass\n",
        GROUP_TESTS,
    ),
    Mutant(
        "chunks in a log that is opened are not searched for",
        CORE + "log/durable_log.py",
        "        self.groups_through = ledgers.last or BEFORE_ALL\n",
        "        self.groups_through = BEFORE_ALL\n",
        GROUP_TESTS,
    ),
    Mutant(
        "a waiting group stops everybody",
        CORE + "subscription/dispatching/grouped.py",
        " and replay.aside < LOOK_AHEAD_MAX:\n",
        " and not replay:\n",
        GROUP_TESTS,
    ),
    Mutant(
        "a consumer that joins between two chunks gets the rest of the message",
        KEY_SHARED,
        "        if self._groups:\n            self._sort_groups()\n",
        "",
        KEYED_GROUP_TESTS,
    ),
    Mutant(
        "waiting chunks stay behind their key when it moves",
        KEY_SHARED,
        "            self._waiting.part(slot_of(group), group)\n",
        "            pass\n",
        KEYED_GROUP_TESTS,
    ),
    Mutant(
        "the rest of a message that was given up waits forever",
        KEY_SHARED,
        "            self._waiting.rejoin(slot_of(group), group)\n            self._let_on",
        "            self._let_on",
        KEYED_GROUP_TESTS,
    ),
    Mutant(
        "a returned key leaves its chunks behind",
        KEY_SHARED,
        "            self._waiting.rejoin(slot_of(group), group)\n        for group",
        "            pass\n        for group",
        KEYED_GROUP_TESTS,
    ),
    Mutant(
        "a returned chunk has forgotten its message",
        KEY_SHARED,
        "        self._lately_of_groups.update(found)\n",
        "",
        KEYED_GROUP_TESTS,
    ),
    Mutant(
        "a group is lost forever",
        CORE + "dispatch/groups.py",
        "            del strays[group]\n",
        "            pass\n",
        KEYED_GROUP_TESTS,
    ),
    Mutant(
        "messages in chunks with different keys are taken for one",
        CORE + "dispatch/groups.py",
        "_number(entry, hint) * SLOTS + slot\n",
        "_number(entry, hint) * SLOTS + 1\n",
        KEYED_GROUP_TESTS,
    ),
    Mutant(
        "two chunked messages with equal hints are taken for one where keys move",
        CORE + "dispatch/groups.py",
        "        hint and _number(entry, hint) * SLOTS + slot\n",
        "        hint and hint * SLOTS + slot\n",
        ("tests/pulsar_frontend/packing/test_groups.py",),
    ),
    Mutant(
        "chunks in a log that is opened go by their key alone",
        CORE + "subscription/dispatching/keyed.py",
        "        if min(positions) > self._state.log.groups_through:\n",
        "        if self._state.log.groups_through < (1 << 63) - 1:\n",
        KEYED_GROUP_TESTS,
    ),
    Mutant(
        "an exclusive consumer of some keys gets all of them",
        CORE + "engine/subscriptions/consumer.py",
        "spec.sharing.ranges if spec.type.traits.one_consumer else ()",
        "()",
        RANGED_TESTS,
    ),
    Mutant(
        "skipped entries cost an exclusive consumer its permits",
        CORE + "engine/subscriptions/ranged_sink.py",
        "            self._flow(sum(compress(run.sizes(), [not each for each in wanted])))\n",
        "",
        RANGED_TESTS,
    ),
    Mutant(
        "skipped messages of a batch cost one permit",
        CORE + "engine/subscriptions/ranged_sink.py",
        "sum(compress(run.sizes(), [not each for each in wanted]))",
        "wanted.count(False)",
        RANGED_TESTS,
    ),
    Mutant(
        "an exclusive consumer may name invalid ranges",
        CORE + "subscription/consumers/membership.py",
        "    elif spec.type.traits.one_consumer and spec.sharing.ranges:\n",
        "    elif False:\n",
        RANGED_TESTS,
    ),
)
