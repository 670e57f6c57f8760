"""Mutants of promises that break between two moments.

Something was true when it was checked and no longer when it was acted upon. Something was named in
one life and meant in another. Something was reported as done and was not.

The rule: as in :mod:`tests.mutants.table`.
"""

from typing import Final

from tests.mutants.table import CORE, Mutant

AMQP_TOPOLOGY: Final = "amqp_frontend/arneb_amqp/topology/"
PULSAR: Final = "pulsar_frontend/arneb_pulsar/"
GOING_TESTS: Final = ("tests/core/engine/catalog/test_topics_that_go.py",)
PULSAR_GOING_TESTS: Final = ("tests/pulsar_frontend/services/operations/test_topic_lifecycle.py",)
QUEUE_GOING_TESTS: Final = ("tests/amqp_frontend/topology/queues/test_queues_that_go.py",)

PROMISES_MUTANTS: Final = (
    Mutant(
        "a message to a topic that is deleted in the same commit is confirmed",
        CORE + "engine/group_commit/planned_commit.py",
        "            if not (takes_along and request.passes_over_gone):\n",
        "            if False:\n",
        GOING_TESTS,
    ),
    Mutant(
        "a record about a topic that is being deleted brings it back",
        CORE + "engine/group_commit/planned_commit.py",
        "        if of_topic is None or not (of_topic.gone or of_topic in self.going):\n",
        "        if of_topic is None or not of_topic.gone:\n",
        GOING_TESTS,
    ),
    Mutant(
        "a topic that is being deleted accepts messages",
        CORE + "engine/engine.py",
        "        if topic.fenced and topic.refuses(passes_over_gone):\n",
        "        if topic.gone and topic.refuses(passes_over_gone):\n",
        GOING_TESTS,
    ),
    Mutant(
        "an idle topic is deleted though a producer came meanwhile",
        PULSAR + "services/operations/policy_enforcer.py",
        "                    await drop(self._context, name, only_if=idle)\n",
        "                    await drop(self._context, name)\n",
        PULSAR_GOING_TESTS,
    ),
    Mutant(
        "an empty queue is deleted though something was published meanwhile",
        "amqp_frontend/arneb_amqp/topology/queues/queues.py",
        "        return await self.delete(queue, only_if=may_go)\n",
        "        return await self.delete(queue)\n",
        QUEUE_GOING_TESTS,
    ),
    Mutant(
        "what is kept in memory overtakes what waits for its commit",
        CORE + "engine/engine.py",
        "        elif isinstance(topic.log, MemoryLog) and not topic.appends_held_up:\n",
        "        elif isinstance(topic.log, MemoryLog):\n",
        GOING_TESTS,
    ),
    Mutant(
        "deliveries from before a seek are acknowledged after it",
        "amqp_frontend/arneb_amqp/session/deliveries.py",
        "    return ConsumerId(id_ + (1 << _EPOCH_SHIFT))\n",
        "    return id_\n",
        ("tests/amqp_frontend/server/test_consumers_again.py",),
    ),
    Mutant(
        "entries that wait for their group are retried again and again",
        CORE + "subscription/dispatching/grouped.py",
        "            if receiver is None or receiver.room > 0:\n",
        "            if True:\n",
        (
            "tests/core/engine/subscriptions/test_groups.py::test_a_group_that_waits_does_not_keep_a_queue_with_priorities_busy",
        ),
    ),
    Mutant(
        "a client is read while another task carries out its effects",
        "amqp_frontend/arneb_amqp/server/connection.py",
        "            if runner.busy:\n                await runner.finished()\n"
        "            self._in_turn, others = True, flusher.count\n"
        "            waiting = runner.run_turn()\n",
        "            self._in_turn, others = True, flusher.count\n"
        "            waiting = None if runner.busy else runner.run_turn()\n",
        ("tests/amqp_frontend/server/test_back_pressure.py",),
    ),
    Mutant(
        "an exclusive queue is open to everybody",
        PULSAR + "services/operations/topic_access.py",
        "    if owner is not None:\n",
        "    if False:\n",
        ("tests/pulsar_frontend/services/operations/test_topic_access.py",),
    ),
    Mutant(
        "credentials that were to expire do not, because the clock was set",
        "pulsar_frontend/arneb_pulsar/session/connection/authentication.py",
        "            self.deadline = self._output.now + min(left_s, CHECK_INTERVAL_S)\n",
        "            self.deadline = self._output.now + left_s\n",
        ("tests/pulsar_frontend/session/connection/test_authentication.py",),
    ),
    Mutant(
        "a partition comes back while its topic is deleted",
        PULSAR + "services/topics/topics.py",
        "        if not create or topic.base in self._leaving:\n",
        "        if not create:\n",
        PULSAR_GOING_TESTS,
    ),
    Mutant(
        "a queue stays though somebody else deleted its topic",
        AMQP_TOPOLOGY + "topology.py",
        "        core.accompany_deletions(self._going_with)\n",
        "",
        QUEUE_GOING_TESTS,
    ),
    Mutant(
        "a message on its way to a topic that somebody else deletes is confirmed",
        CORE + "engine/topics/topic.py",
        "        return not (passes_over_gone and self.takes_along)\n",
        "        return not passes_over_gone\n",
        (*GOING_TESTS, *QUEUE_GOING_TESTS),
    ),
    Mutant(
        "a message that waited while its queue was deleted over another protocol is confirmed",
        AMQP_TOPOLOGY + "queues/queues.py",
        "        return name in self._lost_lately and self.topic(name) is None\n",
        "        return False\n",
        ("tests/amqp_frontend/server/test_queues_that_go.py",),
    ),
    Mutant(
        "a queue that lost its topic deletes another one of that name",
        AMQP_TOPOLOGY + "queues/queues.py",
        "            if self.foreign_topic(queue.name) is queue.topic:\n",
        "            if True:\n",
        QUEUE_GOING_TESTS,
    ),
    Mutant(
        "bindings to a queue without a topic come back",
        AMQP_TOPOLOGY + "queues/queues.py",
        "                unit.metadata.append((QueueRecord(self.vhost, name).key, None))\n",
        "                unit.metadata = [(QueueRecord(self.vhost, name).key, None)]\n",
        QUEUE_GOING_TESTS,
    ),
    Mutant(
        "a queue is deleted because its topic is idle",
        PULSAR + "services/operations/policy_enforcer.py",
        "        if self._context.producers.of(topic)"
        " or AMQP_SUBSCRIPTION in topic.subscriptions:\n",
        "        if self._context.producers.of(topic):\n",
        ("tests/pulsar_frontend/services/operations/test_policy_enforcer.py",),
    ),
    Mutant(
        "new entries wait behind a waiting group",
        CORE + "subscription/dispatching/grouped.py",
        "        if taken is None and not held_up:\n",
        "        if taken is None and replay:\n",
        ("tests/core/engine/subscriptions/test_groups.py",),
    ),
    Mutant(
        "entries that wait for their group do not expire",
        CORE + "subscription/dispatching/grouped.py",
        "        if soonest_ms < self._expires_ms:\n",
        "        if False:\n",
        ("tests/core/engine/subscriptions/test_groups.py",),
    ),
    Mutant(
        "a replay of trimmed entries removes lower ones",
        CORE + "subscription/sources/replay.py",
        "            self._positions.remove_range(position, end + 1)\n",
        "            self._positions.remove_range(0, end + 1)\n",
        ("tests/core/engine/subscriptions/test_groups.py",),
    ),
    Mutant(
        "a client's messages are withheld from everybody when returning them takes long",
        "amqp_frontend/arneb_amqp/server/connection.py",
        "            if scope.cancelled_caught:\n",
        "            if not scope.shield:\n",
        ("tests/amqp_frontend/server/test_endings.py",),
    ),
    Mutant(
        "a backup lacks the journal",
        CORE + "store/directory/copying.py",
        "        if state.in_use:\n",
        "        if False:\n",
        ("tests/core/store/test_backup.py",),
    ),
    Mutant(
        "a backup has its name before it is on disk",
        CORE + "store/data_file/opening.py",
        "        sync_file(data)\n",
        "",
        ("tests/core/store/test_backup.py",),
    ),
    Mutant(
        "a backup is not checked",
        CORE + "store/backup.py",
        "                _check(making)\n",
        "                pass\n",
        ("tests/core/store/test_backup.py",),
    ),
    Mutant(
        "two processes that create the same directory interfere",
        CORE + "store/directory/atomic_directory.py",
        "            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)\n",
        "",
        ("tests/core/store/directory/test_atomic_directory.py",),
    ),
)
