"""Mutants of semantics: mistakes that test suites of brokers' clients are known to miss, or nearly.

Each stands for a row of a table of defects that were put into brokers to see how sharp such a suite
is. Of Pulsar's first seven, the suite of its Python client notices none.

The rule: as in :mod:`tests.mutants.table`. Tests of the code kill these like all others; scenarios
of real clients must kill them too (:mod:`tests.mutants.black_box`).
"""

from typing import Final

from tests.mutants.table import BATCH_TESTS, CORE, ENGINE_TESTS, Mutant

PULSAR: Final = "pulsar_frontend/arneb_pulsar/"
AMQP: Final = "amqp_frontend/arneb_amqp/"
SERVING_TESTS: Final = ("tests/pulsar_frontend/server/test_listener.py",)
PUBLISHING_TESTS: Final = ("tests/amqp_frontend/session/publish/test_publisher.py",)

SEMANTICS_MUTANTS: Final = (
    Mutant(
        "Key_Shared is round robin",
        CORE + "dispatch/__init__.py",
        "    SubscriptionType.KEY_SHARED: _key_shared,\n",
        "    SubscriptionType.KEY_SHARED: _shared,\n",
        ("tests/core/engine/subscriptions/test_key_shared.py",),
    ),
    Mutant(
        "a seek keeps what was acknowledged alone",
        CORE + "cursor/acks.py",
        "        self._holes.clear()\n        for masked in list(self._masks):\n",
        "        for masked in list(self._masks):\n",
        ("tests/core/cursor/test_acks_model.py",),
    ),
    Mutant(
        "a seek keeps what was returned",
        CORE + "subscription/entries/ready.py",
        "        self._state.replay.clear()\n"
        "        self._reader.rewind(self._state.acks.mark_delete)\n",
        "        self._reader.rewind(self._state.acks.mark_delete)\n",
        ENGINE_TESTS,
    ),
    Mutant(
        "the checksum of a published message is not checked",
        PULSAR + "wire/checksum.py",
        "    if (found := crc32c(covered)) != expected:\n",
        "    if (found := crc32c(covered)) < 0:\n",
        ("tests/pulsar_frontend/packing/test_entries.py",),
    ),
    Mutant(
        "an ack of one message of a batch takes the batch",
        PULSAR + "server/consumers.py",
        "                consumer.acknowledge_messages(position, mask, done)\n",
        "                consumer.acknowledge([position], done)\n",
        SERVING_TESTS,
    ),
    Mutant(
        "a duplicate is stored again",
        PULSAR + "services/topics/deduplication.py",
        "        if sequence <= highest:\n",
        "        if False:\n",
        ("tests/pulsar_frontend/services/topics/test_deduplication.py",),
    ),
    Mutant(
        "individual acks are ignored",
        PULSAR + "server/consumers.py",
        "        whole, partial = effect.whole, effect.partial\n",
        "        whole, partial = effect.whole[:0], effect.partial[:0]\n",
        SERVING_TESTS,
    ),
    Mutant(
        "cumulative acks are ignored",
        PULSAR + "server/consumers.py",
        "    attached.consumer.acknowledge_until(effect.position, effect.mask, done)\n",
        "    attached.consumer.acknowledge([], done)\n",
        SERVING_TESTS,
    ),
    Mutant(
        "a consumer of the compacted topic reads everything",
        PULSAR + "server/attachments.py",
        "                if effect.compacted:\n",
        "                if False:\n",
        ("tests/pulsar_frontend/services/topics/test_compactor.py",),
    ),
    Mutant(
        "every producer shares its topic",
        PULSAR + "producers/access.py",
        "        match claim.mode:\n",
        "        match AccessMode.SHARED:\n",
        ("tests/pulsar_frontend/producers/test_access.py",),
    ),
    Mutant(
        "the last message id is off by one",
        PULSAR + "services/operations/topic_access.py",
        "(None, -1) if found is None else (found[0], ",
        "(None, -1) if found is None else (Position(found[0] - 1), ",
        SERVING_TESTS,
    ),
    Mutant(
        "returned messages are redelivered in reverse order",
        CORE + "subscription/sources/replay.py",
        "            for number in ready[: self._run_max]:\n",
        "            for number in sorted(ready[: self._run_max], reverse=True):\n",
        ENGINE_TESTS,
    ),
    Mutant(
        "a subscription is deleted with its last consumer",
        CORE + "engine/subscriptions/subscription.py",
        "        if not (self.permanent or self.is_fenced):\n",
        "        if not self.is_fenced:\n",
        ENGINE_TESTS,
    ),
    Mutant(
        "every message of a shared subscription is delivered twice",
        PULSAR + "session/consume/consumers.py",
        "            self._output.deliver(consumer.messages(event.run, checked=checked))\n",
        "            for _ in range(2 if consumer.shares else 1):\n"
        "                self._output.deliver(consumer.messages(event.run, checked=checked))\n",
        ("tests/pulsar_frontend/session/consume/test_consumers.py",),
    ),
    Mutant(
        "a redelivered batch does not say what is left of it",
        CORE + "subscription/entries/delivery.py",
        "entries[start:stop], sizes[start:stop], own or None)\n",
        "entries[start:stop], sizes[start:stop], None)\n",
        BATCH_TESTS,
    ),
    Mutant(
        "an ack of many leaves out the last",
        AMQP + "session/consume/unacked.py",
        "        tags: Sequence[int] = range(self._low, tag + 1)\n",
        "        tags: Sequence[int] = range(self._low, tag)\n",
        ("tests/amqp_frontend/session/consume/test_unacked.py",),
    ),
    Mutant(
        "an ack of many takes one too many",
        AMQP + "session/consume/unacked.py",
        "        tags: Sequence[int] = range(self._low, tag + 1)\n",
        "        tags: Sequence[int] = range(self._low, tag + 2)\n",
        ("tests/amqp_frontend/session/consume/test_unacked.py",),
    ),
    Mutant(
        "a confirm of two messages counts as one",
        AMQP + "session/publish/confirms.py",
        "        return Confirm(last_tag, count > 1, stored)\n",
        "        return Confirm(last_tag, count > 2, stored)\n",
        ("tests/amqp_frontend/session/publish/test_confirms.py",),
    ),
    Mutant(
        "a return comes behind its confirm",
        AMQP + "session/publish/publisher.py",
        "            self.returns.give_back(item.route, body, self.transaction)\n",
        "            if not (queues or self.transaction):\n"
        '                self._put((), [b""])\n'
        "                self.send_confirms()\n"
        "                self.returns.give_back(item.route, body, self.transaction)\n"
        "                return\n"
        "            self.returns.give_back(item.route, body, self.transaction)\n",
        PUBLISHING_TESTS,
    ),
    Mutant(
        "unacknowledged messages are lost with their channel",
        AMQP + "session/consume/deliverer.py",
        "        return Leave(self.channel, ids)\n",
        "        for answered in unacked.pop_all():\n"
        "            self._context.effects.acknowledge(answered)\n"
        "        return Leave(self.channel, ids)\n",
        ("tests/amqp_frontend/session/channel/test_channel_machine.py",),
    ),
    Mutant(
        "a dead letter goes where another with other headers went",
        "amqp_frontend/arneb_amqp/topology/dead_letter_runs.py",
        "        if parts is not None and resolved.is_of_all:\n",
        "        if parts is not None:\n",
        ("tests/amqp_frontend/topology/test_dead_letter_runs.py",),
    ),
    Mutant(
        "a dead letter has another one's deaths",
        "amqp_frontend/arneb_amqp/wire/cutting.py",
        "    marks = (expiration, *[fields[first:stop] for first, stop in spans])\n",
        "    marks = (expiration,)\n",
        ("tests/amqp_frontend/topology/test_dead_letter_runs.py",),
    ),
    Mutant(
        "a header that occurs twice is dead-lettered twice",
        "amqp_frontend/arneb_amqp/wire/cutting.py",
        "        seen.add(name)\n",
        "",
        ("tests/amqp_frontend/topology/test_dead_letter_runs.py",),
    ),
    Mutant(
        "each dead letter is computed by itself",
        "amqp_frontend/arneb_amqp/topology/dead_letter_runs.py",
        "        if parts is not None and form is not None:\n",
        "        if parts is not None and form is not None and not parts:\n",
        ("tests/amqp_frontend/topology/test_dead_letter_runs.py",),
    ),
)
