"""The mutants: known mistakes of message brokers, as small changes to our code.

The rule: each names one mistake that a broker has made before, changes one place so that our code
makes it too, and names the tests that must notice. ``make mutants`` proves that they do.
``tests/mutants/test_table.py`` proves in every test run that each change still applies.
"""

from dataclasses import dataclass
from typing import Final

CORE: Final = "core/arneb_core/"
LEADERSHIP_TESTS: Final = ("tests/core/engine/group_commit/test_leadership.py",)
LOADING_TESTS: Final = ("tests/core/engine/catalog/test_loading.py",)
PLANNING_TESTS: Final = ("tests/core/engine/group_commit/test_planned_commit.py",)
ENGINE_TESTS: Final = ("tests/core/engine/test_engine.py",)
MODEL_TESTS: Final = ("tests/core/engine/test_engine_model.py",)
BATCH_TESTS: Final = ("tests/core/engine/subscriptions/test_batches.py",)
START_TESTS: Final = ("tests/core/engine/test_engine_starts.py",)
DEPARTURE_TESTS: Final = ("tests/core/engine/subscriptions/test_dead_lettering.py",)
FAILOVER_TESTS: Final = ("tests/core/engine/subscriptions/test_failover.py",)
PARTS_TESTS: Final = ("tests/core/engine/subscriptions/test_dead_lettering_batches.py",)
PRIORITY_TESTS: Final = ("tests/core/engine/subscriptions/test_priorities.py",)
BODY_TESTS: Final = (
    "tests/core/store/format/test_bodies.py",
    "tests/core/engine/group_commit/test_fan_out.py",
)
DISPATCH_TESTS: Final = ("tests/core/dispatch/test_shared.py",)


@dataclass(frozen=True, slots=True)
class Mutant:
    """One mistake."""

    name: str
    file: str
    old: str
    """Occurs once in ``file``."""
    new: str
    tests: tuple[str, ...]


MUTANTS: Final = (
    Mutant(
        "a shared body is deleted with the first queue that no longer needs it",
        CORE + "store/commit/transaction.py",
        "            left = 0 if value is None else unpack_number(bytes(value)) - released\n",
        "            left = 0\n",
        BODY_TESTS,
    ),
    Mutant(
        "a shared body stays forever",
        CORE + "store/commit/transaction.py",
        "                    self._release(references)\n",
        "                    pass\n",
        BODY_TESTS,
    ),
    Mutant(
        "a body is shared with a topic that keeps nothing on disk",
        CORE + "store/format/bodies.py",
        "    return {number: key for number, key in keys.items() if counts[number] > 1}\n",
        "    return keys\n",
        BODY_TESTS,
    ),
    Mutant(
        "confirm before fsync",
        CORE + "store/commit/local.py",
        "        ending = self._ending(commit)\n",
        "        self._in_loop(self._ended, commit, CommitReport(0, 0, 0))\n"
        "        self._ending(commit)\n"
        "        return True\n",
        ENGINE_TESTS,
    ),
    Mutant(
        "a failed commit is confirmed",
        CORE + "engine/group_commit/planned_commit.py",
        "                request.fail(error)\n",
        "                request.succeed([Position(1 << 32)])\n",
        ENGINE_TESTS,
    ),
    Mutant(
        "a commit is planned on what is stored, though others are in progress",
        CORE + "log/durable_log.py",
        "        newest = planned[-1] if planned else self.ledgers.newest\n",
        "        newest = self.ledgers.newest\n",
        PLANNING_TESTS,
    ),
    Mutant(
        "what followed a refused commit counts as stored",
        CORE + "engine/group_commit/committer.py",
        "        for commit in reversed(commits[1:]):\n",
        "        for commit in commits[1:]:\n"
        "            commit.stored()\n"
        "        for commit in ():\n",
        PLANNING_TESTS,
    ),
    Mutant(
        "the outcome of a commit is reported to the newest one in progress",
        CORE + "engine/group_commit/committer.py",
        "        commit = self._under_way.popleft()\n",
        "        commit = self._under_way.pop()\n",
        PLANNING_TESTS,
    ),
    Mutant(
        "what a refused commit planned stays planned",
        CORE + "engine/group_commit/planned_commit.py",
        "            topic.log.planned.pop()\n",
        "            pass\n",
        PLANNING_TESTS,
    ),
    Mutant(
        "what followed a refused commit returns in the wrong order",
        CORE + "engine/group_commit/committer.py",
        "        for commit in reversed(commits[1:]):\n",
        "        for commit in commits[1:]:\n",
        PLANNING_TESTS,
    ),
    Mutant(
        "waiting callers are told nothing when leadership is lost",
        CORE + "engine/group_commit/committer.py",
        "        for request in waiting:\n            self.waiting_bytes -= request.size\n",
        "        for request in ():\n            self.waiting_bytes -= request.size\n",
        PLANNING_TESTS,
    ),
    Mutant(
        "consumers stay when leadership is lost",
        CORE + "engine/engine.py",
        '                subscription.machine.put_out("leadership lost")\n',
        "                pass\n",
        LEADERSHIP_TESTS,
    ),
    Mutant(
        "a node that lost leadership still accepts what is only kept in memory",
        CORE + "engine/engine.py",
        "            topic.fenced, topic.takes_along = True, False\n            for",
        "            for",
        LEADERSHIP_TESTS,
    ),
    Mutant(
        "a start reads the catalog in the event loop",
        CORE + "engine/catalog/catalog.py",
        "await trio.to_thread.run_sync(_recovered, store, counts)",
        "_recovered(store, counts)",
        LOADING_TESTS,
    ),
    Mutant(
        "a start creates all its topics in one turn",
        CORE + "engine/catalog/catalog.py",
        "        if self._made % LOADED_MAX == LOADED_MAX - 1:\n",
        "        if self._made < 0:\n",
        LOADING_TESTS,
    ),
    Mutant(
        "a delayed index is rebuilt in the event loop",
        CORE + "engine/catalog/delayed_indexes.py",
        "await in_thread(_after, store, topic.id, after, end, known, settings.seal_entries)",
        "_after(store, topic.id, after, end, known, settings.seal_entries)",
        LOADING_TESTS,
    ),
    Mutant(
        "dispatch before the commit is on disk",
        CORE + "engine/group_commit/committer.py",
        "        self._under_way.append(commit)\n",
        "        self._under_way.append(commit)\n"
        "        for topic, run in commit.runs.items():\n"
        "            topic.confirm(run)\n"
        "        commit.runs.clear()\n",
        ENGINE_TESTS,
    ),
    Mutant(
        "receipt before the ack is durable",
        CORE + "engine/scheduling/steps.py",
        "            self._committer.cursor_changed(subscription, done)\n",
        "            self._committer.cursor_changed(subscription, None)\n"
        "            if done is not None:\n"
        "                waiter = done\n"
        "                self._completed.append(lambda: waiter(None))\n",
        ENGINE_TESTS,
    ),
    Mutant(
        "a failed ack is forgotten",
        CORE + "cursor/cursor.py",
        "        self.acks.mark_dirty_again(changes.acks)\n",
        "        pass\n",
        ENGINE_TESTS,
    ),
    Mutant(
        "exclusive not enforced",
        CORE + "subscription/consumers/membership.py",
        "    if spec.type.traits.one_consumer:\n",
        "    if False:\n",
        ENGINE_TESTS,
    ),
    Mutant(
        "type mismatch allowed",
        CORE + "subscription/consumers/membership.py",
        "    if spec.type is not state.type:\n",
        "    if False:\n",
        ENGINE_TESTS,
    ),
    Mutant(
        "permits ignored",
        CORE + "dispatch/receiver.py",
        "        room = UNBOUNDED if self.unlimited else self.permits\n",
        "        room = UNBOUNDED\n",
        DISPATCH_TESTS,
    ),
    Mutant(
        "prefetch ignored",
        CORE + "dispatch/receiver.py",
        "            if window.limit and window.limit - window.in_flight < room:\n",
        "            if False:\n",
        ENGINE_TESTS,
    ),
    Mutant(
        "the engine stops before its users",
        CORE + "api/process/supervision.py",
        "        nursery.cancel_scope.shield = True\n",
        "",
        ("tests/core/engine/test_engine_life.py",),
    ),
    Mutant(
        "a message's lifetime begins before its transaction is committed",
        "amqp_frontend/arneb_amqp/server/operations/stamping.py",
        "            entries[index] = published_at(entry, request.published_ms)\n",
        "            pass\n",
        ("tests/amqp_frontend/server/operations/test_stamping.py",),
    ),
    Mutant(
        "messages of a batch that another consumer acknowledged still fill their holder's window",
        CORE + "subscription/entries/acknowledgements.py",
        "                consumer.shrink(position, mask, self.acks)\n",
        "                pass\n",
        ("tests/core/engine/subscriptions/test_batches.py",),
    ),
    Mutant(
        "one queue starves the others under a channel's prefetch",
        CORE + "subscription/state/in_flight.py",
        "                    sharers[self] = None\n",
        "                    window.sharers = {self: None, **sharers}\n",
        ("tests/core/engine/group_commit/test_units.py",),
    ),
    Mutant(
        "a consumer without acks takes from a channel whose prefetch is used up",
        CORE + "dispatch/receiver.py",
        "            if 0 < window.limit <= window.in_flight:\n",
        "            if False:\n",
        DISPATCH_TESTS,
    ),
    Mutant(
        "a half-acknowledged batch counts with its whole size",
        CORE + "subscription/entries/delivery.py",
        "                    masks[position], sizes[index] = free, free.bit_count()\n",
        "                    masks[position] = free\n",
        ENGINE_TESTS,
    ),
    Mutant(
        "ack set ignored",
        CORE + "subscription/entries/delivery.py",
        "        whole = (1 << size) - 1 if unacked is None else unacked\n",
        "        whole = (1 << size) - 1\n",
        BATCH_TESTS,
    ),
    Mutant(
        "unacked messages of a leaving consumer are lost",
        CORE + "subscription/consumers/consumer.py",
        "            self.release_all(count=False)\n",
        "            pass\n",
        ENGINE_TESTS,
    ),
    Mutant(
        "requeue at the tail",
        CORE + "subscription/entries/ready.py",
        "        return replay or self._reader\n",
        "        tail = self._reader\n"
        "        return tail if tail.peek() or not replay else replay\n",
        ENGINE_TESTS,
    ),
    Mutant(
        "redelivered is never set",
        CORE + "subscription/state/past_deliveries.py",
        "        return seen or None\n",
        "        return None\n",
        ENGINE_TESTS,
    ),
    Mutant(
        "redelivery count always 0",
        CORE + "subscription/state/past_deliveries.py",
        "        if count:\n",
        "        if False:\n",
        ENGINE_TESTS,
    ),
    Mutant(
        "a crash forgets what may have been delivered",
        CORE + "engine/catalog/catalog.py",
        " if clean else topic.last or BEFORE_ALL\n",
        " if clean else BEFORE_ALL\n",
        ENGINE_TESTS,
    ),
    Mutant(
        "seek keeps old acks",
        CORE + "cursor/cursor.py",
        "        self.acks.reset(position, mask)\n",
        "        self.acks.restore([position])\n",
        ENGINE_TESTS,
    ),
    Mutant(
        "cumulative ack on a shared subscription",
        CORE + "subscription/consumers/consumer.py",
        "        if kind is None or not kind.traits.cumulative_acks_allowed:\n",
        "        if False:\n",
        ENGINE_TESTS,
    ),
    Mutant(
        "latest is earliest",
        CORE + "engine/topics/topic.py",
        "        found = ledgers.first if initial is InitialPosition.EARLIEST else None\n",
        "        found = ledgers.first\n",
        START_TESTS,
    ),
    Mutant(
        "a reader starts after its start position",
        CORE + "engine/topics/topic.py",
        "            found = ledgers.after(before(start))\n",
        "            found = ledgers.after(start)\n",
        ENGINE_TESTS,
    ),
    Mutant(
        "a purge takes what is in flight",
        CORE + "cursor/cursor.py",
        "        self.acks.restore(left, {**held, **masks})\n",
        "        pass\n",
        ENGINE_TESTS,
    ),
    Mutant(
        "holes are not written",
        CORE + "cursor/cursor.py",
        "                changes.puts.append((Table.CURSORS, prefix + suffix, value))\n",
        "                pass\n",
        ENGINE_TESTS,
    ),
    Mutant(
        "ledgers are trimmed before the slowest cursor has passed them",
        CORE + "engine/trimming/trimming.py",
        "        return min(\n            (each.mark_delete ",
        "        return max(\n            (each.mark_delete ",
        START_TESTS,
    ),
    Mutant(
        "every other message goes to the same consumer",
        CORE + "dispatch/shared.py",
        "                waiting.rotate(-1)\n",
        "                pass\n",
        ENGINE_TESTS,
    ),
    Mutant(
        "lower priorities are served too",
        CORE + "dispatch/shared.py",
        "            insort(self._levels, level, key=lambda each: each.priority)\n",
        "            self._levels.insert(0, level)\n",
        DISPATCH_TESTS,
    ),
    Mutant(
        "a damaged block is read as if it were intact",
        CORE + "store/format/block.py",
        "    if crc != expected:\n",
        "    if False:\n",
        ("tests/core/store/format/test_block.py",),
    ),
    Mutant(
        "what has expired is delivered",
        CORE + "api/entries/expiry.py",
        "        if is_up and not (is_new",
        "        if False and not (is_new",
        DEPARTURE_TESTS,
    ),
    Mutant(
        "a full queue drops one too few",
        CORE + "subscription/departures/limit_enforcer.py",
        "            messages = self._counters.ready_messages - limits.ready_messages_max\n",
        "            messages = self._counters.ready_messages - limits.ready_messages_max - 1\n",
        DEPARTURE_TESTS,
    ),
    Mutant(
        "what is in flight counts for the length limit",
        CORE + "subscription/entries/counters.py",
        "        return max(0, self._state.cursor.backlog_messages - away)\n",
        "        return self._state.cursor.backlog_messages\n",
        DEPARTURE_TESTS,
    ),
    Mutant(
        "a rejected message is lost when the commit fails",
        CORE + "subscription/consumers/consumer.py",
        "        dead_lettering.reject(Departure.REJECTED, mine, sizes)\n",
        "        self.acknowledge(mine)\n",
        DEPARTURE_TESTS,
    ),
    Mutant(
        "the delivery limit is off by one",
        CORE + "subscription/consumers/returns.py",
        "redelivery_count(each) > limit]",
        "redelivery_count(each) >= limit]",
        DEPARTURE_TESTS,
    ),
    Mutant(
        "the last message expires instead of the first",
        CORE + "subscription/departures/limit_enforcer.py",
        "Departure.EXPIRED, positions[:count], entries[:count]",
        "Departure.EXPIRED, positions[-count:], entries[-count:]",
        DEPARTURE_TESTS,
    ),
    Mutant(
        "a full queue drops its last message",
        CORE + "subscription/departures/limit_enforcer.py",
        "Departure.MAX_LENGTH, positions[:count], entries[:count]",
        "Departure.MAX_LENGTH, positions[-count:], entries[-count:]",
        DEPARTURE_TESTS,
    ),
    Mutant(
        "a lifetime of zero is extended by a requeue",
        CORE + "api/entries/expiry.py",
        "not (is_new and lives_no_time(entry, ttl))",
        "not lives_no_time(entry, ttl)",
        DEPARTURE_TESTS,
    ),
    Mutant(
        "messages that have left a batch are dead-lettered with the rest",
        CORE + "subscription/departures/dead_lettering.py",
        "        if self._state.divided:\n",
        "        if False:\n",
        PARTS_TESTS,
    ),
    Mutant(
        "the bytes waiting for a target are not bounded",
        CORE + "subscription/departures/outstanding.py",
        "            if left <= 0:\n                return index\n",
        "",
        PARTS_TESTS,
    ),
    Mutant(
        "a unit takes more of a batch than its part",
        CORE + "subscription/consumers/consumer.py",
        "            elif held := self.masks.get(position, 0) & mask:\n",
        "            elif held := self.masks.get(position, 0):\n",
        PARTS_TESTS,
    ),
    Mutant(
        "a message of a batch is redelivered without end",
        CORE + "subscription/consumers/returns.py",
        "        self._dead_lettering.reject_messages(Departure.DELIVERY_LIMIT, position, mask)\n"
        "        return True\n",
        "        return False\n",
        PARTS_TESTS,
    ),
    Mutant(
        "returned messages are delivered again before the limit is checked",
        CORE + "subscription/departures/limit_enforcer.py",
        "            self._has_returned = True\n",
        "            self._has_returned = False\n",
        DEPARTURE_TESTS,
    ),
    Mutant(
        "a message that has just arrived makes returned ones exceed the limit",
        CORE + "subscription/departures/limit_enforcer.py",
        "                messages -= self._state.log.ledgers.count_after(self.judged_through)\n",
        "                pass\n",
        DEPARTURE_TESTS,
    ),
    Mutant(
        "returned messages count with no bytes",
        CORE + "subscription/state/byte_counter.py",
        "                self._ready += size\n",
        "                pass\n",
        ("tests/core/engine/subscriptions/test_byte_counter.py",),
    ),
    Mutant(
        "two consumers of one channel get their messages out of order",
        CORE + "subscription/entries/delivery.py",
        "        if len({receiver.line for receiver in gathered}) < len(gathered):\n",
        "        if False:\n",
        ("tests/core/engine/subscriptions/test_line.py",),
    ),
    Mutant(
        "a full consumer keeps its turn",
        CORE + "dispatch/shared.py",
        "            self.round += free\n",
        "            self.round.extendleft(free)\n",
        DISPATCH_TESTS,
    ),
    Mutant(
        "failover goes by arrival, not by name",
        CORE + "dispatch/failover.py",
        "key=lambda each: each.name\n",
        "key=lambda each: 0\n",
        FAILOVER_TESTS,
    ),
    Mutant(
        "a single active consumer is replaced by a better one",
        CORE + "dispatch/failover.py",
        "    return before or min(",
        "    return min(",
        FAILOVER_TESTS,
    ),
    Mutant(
        "a cancelled consumer stays active",
        CORE + "subscription/entries/delivery.py",
        "        self._members.remove(consumer.receiver)\n\n    def add",
        "        pass\n\n    def add",
        FAILOVER_TESTS,
    ),
    Mutant(
        "priorities are ignored",
        CORE + "subscription/sources/priorities.py",
        "found.setdefault(min(entry[PRIORITY_OFFSET], highest), [])",
        "found.setdefault(min(0, highest), [])",
        PRIORITY_TESTS,
    ),
    Mutant(
        "the least urgent goes first",
        CORE + "subscription/sources/priorities.py",
        "            self._sets = dict(sorted(self._sets.items(), reverse=True))\n",
        "            self._sets = dict(sorted(self._sets.items()))\n",
        PRIORITY_TESTS,
    ),
    Mutant(
        "returned messages go behind others of their priority",
        CORE + "subscription/sources/priorities.py",
        "        self._returned.add(positions)\n",
        "        self._set_of(0).add(positions)\n",
        PRIORITY_TESTS,
    ),
    Mutant(
        "a priority above the highest is its own priority",
        CORE + "subscription/sources/priorities.py",
        "min(entry[PRIORITY_OFFSET], highest)",
        "entry[PRIORITY_OFFSET]",
        PRIORITY_TESTS,
    ),
    Mutant(
        "deliveries begin before everything is read",
        CORE + "subscription/sources/priorities.py",
        "                    self.is_sorting = True\n                    self._wake()\n"
        "                    return False\n",
        "                    return True\n",
        PRIORITY_TESTS,
    ),
    Mutant(
        "a short queue with priorities is read once for each of them",
        CORE + "subscription/sources/priorities.py",
        "            if kept_bytes <= KEPT_BYTES_MAX:\n",
        "            if not kept_bytes:\n",
        PRIORITY_TESTS,
    ),
    Mutant(
        "everything that was read stays in memory",
        CORE + "subscription/sources/priorities.py",
        "            if kept_bytes <= KEPT_BYTES_MAX:\n",
        "            if kept_bytes:\n",
        PRIORITY_TESTS,
    ),
    Mutant(
        "offsets begin again when ledgers go",
        CORE + "log/durable_log.py",
        "LedgerRecord(opened.created_ms, messages_before=opened.messages_before)",
        "LedgerRecord(opened.created_ms)",
        ("tests/core/log/test_offsets.py",),
    ),
    Mutant(
        "a batch has one offset",
        CORE + "log/offsets.py",
        "                counted, index = counted + size, index + 1\n",
        "                counted, index = counted + 1, index + 1\n",
        ("tests/core/log/test_offsets.py",),
    ),
)
