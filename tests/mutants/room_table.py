"""Mutants of room: ledgers that stay, positions that begin again, descriptors that run out."""

from typing import Final

from tests.mutants.table import CORE, Mutant

BROKER: Final = "broker/arneb/"
CHANNELS_TESTS: Final = ("tests/amqp_frontend/session/connection/test_channels.py",)
LAST_LEDGER_TESTS: Final = ("tests/core/engine/trimming/test_last_ledger.py",)

ROOM_MUTANTS: Final = (
    Mutant(
        "a large commit overtakes itself",
        "core/arneb_core/engine/group_commit/overtaking.py",
        "                        if not under_way:\n",
        "                        if False:\n",
        ("tests/core/engine/group_commit/test_overtaking.py",),
    ),
    Mutant(
        "few large entries are written twice like many small ones",
        "core/arneb_core/store/commit/commit_log.py",
        "    if size > LARGE_BYTES_MAX and size > entries * LARGE_ENTRY_BYTES:\n",
        "    if False:\n",
        ("tests/core/store/commit/test_inline_commits.py",),
    ),
    Mutant(
        "a drained topic's last ledger stays until somebody publishes",
        CORE + "engine/trimming/trimming.py",
        "        ends = not log.planned and self.last_ledger_ends(",
        "        ends = False and self.last_ledger_ends(",
        LAST_LEDGER_TESTS,
    ),
    Mutant(
        "positions begin again after a trimmed last ledger",
        CORE + "engine/trimming/trimming.py",
        "            changes.puts.extend(log.plan_successor(ended_ms))\n",
        "            changes.puts.extend(log.plan_successor(ended_ms)[:1])\n",
        LAST_LEDGER_TESTS,
    ),
    Mutant(
        "a ledger ends under the entries of its own commit",
        CORE + "engine/trimming/trimming.py",
        "        ends = not log.planned and self",
        "        ends = self",
        LAST_LEDGER_TESTS,
    ),
    Mutant(
        "a reader that keeps up loses the last ledger",
        CORE + "engine/trimming/trimming.py",
        "        slowest = min(each.mark_delete for each in self._subscriptions.values())\n",
        "        slowest = self._slowest\n",
        LAST_LEDGER_TESTS,
    ),
    Mutant(
        "a channel that only sets a limit gets everything it may need",
        "amqp_frontend/arneb_amqp/session/channel/channel.py",
        "        if self._deliverer is not None:\n            self._deliverer.limit_to(",
        "        if self.deliverer is not None:\n            self._deliverer.limit_to(",
        CHANNELS_TESTS,
    ),
    Mutant(
        "closing a channel creates what it never had",
        "amqp_frontend/arneb_amqp/session/channel/channel.py",
        "return self._deliverer.leave() if self._deliverer is not None else Leave(self.id, ())",
        "return self.deliverer.leave()",
        CHANNELS_TESTS,
    ),
    Mutant(
        "limits set before the first consumer are forgotten",
        "amqp_frontend/arneb_amqp/session/channel/channel.py",
        "half.prefetch, half.window.limit = self._prefetch, self._limit",
        "half.prefetch, half.window.limit = 0, 0",
        CHANNELS_TESTS,
    ),
    Mutant(
        "cancelling the last consumer of an auto-delete queue sends another notice",
        "amqp_frontend/arneb_amqp/session/channel/channel.py",
        "if self._context.cancel_notify and not leaving:",
        "if self._context.cancel_notify:",
        ("tests/amqp_frontend/session/consume/test_deliverer.py",),
    ),
    Mutant(
        "an exclusive queue stays when its connection ends while others change much",
        "amqp_frontend/arneb_amqp/server/operations/methods.py",
        "        if self._made_exclusive:\n            async with",
        "        if self._made_exclusive:\n            self._made_exclusive = False\n"
        "            async with",
        ("tests/amqp_frontend/server/test_endings.py",),
    ),
    Mutant(
        "anybody binds the queue that answers come to",
        "amqp_frontend/arneb_amqp/topology/exchanges/exchanges.py",
        "        queue = await self._queues.access(binding.destination, owner)\n        return",
        "        queue = await self._queues.find(binding.destination)\n        return",
        ("tests/amqp_frontend/server/test_everyday.py",),
    ),
    Mutant(
        "all that dies at once is dead-lettered in one pass of the loop",
        "amqp_frontend/arneb_amqp/topology/dead_letters.py",
        "            if letters.work >= work and",
        "            if letters.work < 0 and",
        ("tests/amqp_frontend/topology/test_dead_letter_turns.py",),
    ),
    Mutant(
        "the pass in which messages begin to die makes twice as many dead letters",
        "amqp_frontend/arneb_amqp/topology/dead_letter_turns.py",
        "            self._later(self._first_pass)\n",
        "            self._later(self._pass)\n",
        ("tests/amqp_frontend/topology/test_dead_letter_turns.py",),
    ),
    Mutant(
        "a long history of deaths is read again for each message that has it",
        "amqp_frontend/arneb_amqp/topology/dead_letters.py",
        " and not letters.goes_on_with(entry):\n",
        ":\n",
        ("tests/amqp_frontend/topology/test_dead_letter_turns.py",),
    ),
    Mutant(
        "two long histories of deaths are read in one pass of the loop",
        "amqp_frontend/arneb_amqp/topology/dead_letter_turns.py",
        "    return LETTER_WORK + len(properties)\n",
        "    return LETTER_WORK + min(len(properties), WORK_PER_PASS // 2)\n",
        ("tests/amqp_frontend/topology/test_dead_letter_turns.py",),
    ),
    Mutant(
        "the disk alarm does not count what the store can reuse",
        BROKER + "settings/watermarks.py",
        "disk.f_bavail * disk.f_frsize + room_inside()",
        "disk.f_bavail * disk.f_frsize",
        ("tests/broker/monitoring/test_alarms.py",),
    ),
    Mutant(
        "strangers get the last descriptors",
        BROKER + "listening/accepting.py",
        "            if not self._is_reserved(stream.socket.fileno()):\n",
        "            if stream.socket.fileno() >= 0:\n",
        ("tests/broker/listening/test_accepting.py",),
    ),
    Mutant(
        "the data file is reopened to grow",
        CORE + "store/data_file/room.py",
        "            os.posix_fallocate(self._fd, self._allocated, size - self._allocated)\n",
        "            fd = os.dup(self._fd)\n"
        "            os.posix_fallocate(fd, self._allocated, size - self._allocated)\n"
        "            os.close(fd)\n",
        ("tests/core/store/test_environment_failures.py",),
    ),
    Mutant(
        "the flusher keeps the last connections alive while it waits",
        "amqp_frontend/arneb_amqp/server/transport/flusher.py",
        "            self._flush()\n",
        "            flushes, self._flushes = self._flushes, {}\n"
        "            for flush in flushes:\n"
        "                call(flush)\n",
        ("tests/amqp_frontend/server/transport/test_flusher.py",),
    ),
    Mutant(
        "a compacted file belongs to the user who compacted it",
        CORE + "store/directory/compacting.py",
        "        os.chown(new / DATA_NAME, owned.st_uid, owned.st_gid)\n",
        "",
        ("tests/core/store/directory/test_compacting.py",),
    ),
    Mutant(
        "the remains of a killed compaction stay forever",
        CORE + "store/environment.py",
        "            shutil.rmtree(directory.path / COMPACTED_NAME, ignore_errors=True)\n",
        "",
        ("tests/core/store/directory/test_compacting.py",),
    ),
)
