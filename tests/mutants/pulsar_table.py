"""The mutant list, continued: mistakes at the Pulsar door.

The rule: as in :mod:`tests.mutants.table`.
"""

from typing import Final

from tests.mutants.table import Mutant

PULSAR: Final = "pulsar_frontend/arneb_pulsar/"
DEDUPLICATION_TESTS: Final = ("tests/pulsar_frontend/services/topics/test_deduplication.py",)
ACCESS_TESTS: Final = ("tests/pulsar_frontend/services/clients/test_producers.py",)
SCHEMA_TESTS: Final = (
    "tests/pulsar_frontend/services/topics/test_schemas.py",
    "tests/pulsar_frontend/schemas/test_compatibility.py",
)
IDENTITY_TESTS: Final = (
    "tests/pulsar_frontend/authentication/test_tokens.py",
    "tests/pulsar_frontend/session/connection/test_authentication.py",
    "tests/pulsar_frontend/services/clients/test_authenticator.py",
)
WATCHING_TESTS: Final = (
    "tests/pulsar_frontend/session/topics/test_watchers.py",
    "tests/pulsar_frontend/services/clients/test_watchers.py",
)

CLIENT_TESTS: Final = ("tests/pulsar_frontend/session/test_client.py",)
THROTTLE_TESTS: Final = "tests/pulsar_frontend/services/limits/test_throttles.py"

LISTENER_TESTS: Final = ("tests/pulsar_frontend/server/test_listener.py",)

ACTIVE_TESTS: Final = (
    "tests/pulsar_frontend/session/consume/test_active_consumers.py",
    "tests/pulsar_frontend/server/test_active_consumers.py",
)

PULSAR_MUTANTS: Final = (
    Mutant(
        "who is active is told right behind SUCCESS, when Go's client does not know its consumer",
        PULSAR + "session/consume/consumers.py",
        "            self._untold[event.key] = self._output.now + ACTIVE_AFTER_S\n",
        "            self._tell_active(consumer)\n",
        ACTIVE_TESTS,
    ),
    Mutant(
        "who asks for messages hears whether it is active when the second is over",
        PULSAR + "session/consume/consumers.py",
        "            if self._untold.pop(consumer.key, None) is not None:\n",
        "            if False:\n",
        ACTIVE_TESTS,
    ),
    Mutant(
        "who asks for none hears whether it is active when its connection is next looked at",
        PULSAR + "server/connection.py",
        "        if isinstance(event, events.ConsumerAttached):\n",
        "        if False:\n",
        ACTIVE_TESTS,
    ),
    Mutant(
        "who has left is told that it is active",
        PULSAR + "session/consume/consumers.py",
        "            self._untold.pop(consumer.key, None)\n            if self._by_id",
        "            if self._by_id",
        ACTIVE_TESTS,
    ),
    Mutant(
        "each message that is a run of its own is parsed",
        PULSAR + "session/produce/producers.py",
        "                    producer.name_field = name_field_of(run.bodies[0])\n",
        "                    pass\n",
        ("tests/pulsar_frontend/session/produce/test_producers.py",),
    ),
    Mutant(
        "a producer whose message failed may send on",
        PULSAR + "server/publishing.py",
        "                self.disconnect(key)\n",
        "                pass\n",
        DEDUPLICATION_TESTS,
    ),
    Mutant(
        "what waits behind a batch that failed is stored, and the batch then taken for a duplicate",
        PULSAR + "services/topics/deduplication.py",
        "        for held, offset in batch.runs:\n"
        "            held.owner.appended(held.run, error, Position(first + offset))\n"
        "            if held.expected is not None:\n"
        "                held.expected.end_one()\n"
        "        self._flying = False\n",
        "        self._flying = False\n"
        "        if self._held:\n"
        "            self._fly()\n"
        "        for held, offset in batch.runs:\n"
        "            held.owner.appended(held.run, error, Position(first + offset))\n"
        "        if self._flying:\n"
        "            return\n",
        DEDUPLICATION_TESTS,
    ),
    Mutant(
        "what waits behind a run that failed is stored before it",
        "core/arneb_core/engine/group_commit/request.py",
        "        (behind if fails else others).append(request)\n",
        "        others.append(request)\n",
        LISTENER_TESTS,
    ),
    Mutant(
        "an epoch is told before it is on disk",
        PULSAR + "services/clients/producers.py",
        "        self._core.commit(unit, partial(self._epoch_stored, claim, epoch))\n",
        "        self._core.commit(unit, lambda error: None)\n"
        "        self._epoch_stored(claim, epoch, None)\n",
        ACCESS_TESTS,
    ),
    Mutant(
        "a producer that was fenced out never hears what became of what it had sent",
        PULSAR + "session/produce/producers.py",
        "            self._fenced_out[producer.key] = producer\n",
        "            pass\n",
        ("tests/pulsar_frontend/session/produce/test_producers.py",),
    ),
    Mutant(
        "a producer that was fenced out may come back",
        PULSAR + "producers/access.py",
        "        if claim.epoch is not None and claim.epoch < self.epoch:\n",
        "        if False and claim.epoch is not None:\n",
        ACCESS_TESTS,
    ),
    Mutant(
        "nobody who waits is let in when the owner goes",
        PULSAR + "producers/access.py",
        "        if self.owners or not self.waiting:\n",
        "        if self.owners or True:\n",
        ACCESS_TESTS,
    ),
    Mutant(
        "how far a producer got is forgotten by a restart",
        PULSAR + "services/topics/deduplication.py",
        "batch.entries, done, batch.messages, metadata)\n",
        "batch.entries, done, batch.messages)\n",
        DEDUPLICATION_TESTS,
    ),
    Mutant(
        "what follows does not wait for what may fail",
        PULSAR + "services/topics/deduplication.py",
        "            if self._flying or not self._held:\n",
        "            if not self._held:\n",
        DEDUPLICATION_TESTS,
    ),
    Mutant(
        "all that waited for a batch is sorted in one turn",
        PULSAR + "services/topics/deduplication.py",
        "            if batch.sorted >= ENTRIES_PER_TURN:\n",
        "            if False:\n",
        DEDUPLICATION_TESTS,
    ),
    Mutant(
        "thousands of messages that were there are told in one turn, batch by batch",
        PULSAR + "services/topics/deduplication.py",
        "            if left <= 0:\n",
        "            if False:\n",
        DEDUPLICATION_TESTS,
    ),
    Mutant(
        "thousands of batches of duplicates are told in one turn",
        PULSAR + "services/topics/deduplication.py",
        "        for _ in range(BATCHES_PER_TURN):\n",
        "        while True:\n",
        DEDUPLICATION_TESTS,
    ),
    Mutant(
        "each batch of duplicates is told inside of the one before",
        PULSAR + "services/topics/deduplication.py",
        "        self._flying = False\n        settled,",
        "        self._flying = False\n        self._fly()\n        settled,",
        DEDUPLICATION_TESTS,
    ),
    Mutant(
        "a failed message is taken for a duplicate",
        PULSAR + "services/topics/deduplication.py",
        "        if error is None and not self.ended:\n            for name, reach in reaches:\n",
        "        if not self.ended:\n            for name, reach in reaches:\n",
        DEDUPLICATION_TESTS,
    ),
    Mutant(
        "of the chunks of several messages that come together one is a chunk",
        "pulsar_frontend/arneb_pulsar/session/produce/producers.py",
        "            sent.chunks.update(range(at, at + len(bodies)))\n",
        "            sent.chunks.add(at)\n",
        ("tests/pulsar_frontend/session/produce/test_producers.py",),
    ),
    Mutant(
        "the second chunk of a message is a duplicate of the first",
        PULSAR + "services/topics/deduplication.py",
        "        if index not in sent.chunks or _is_last_chunk(entry):\n",
        "        if True or _is_last_chunk(entry):\n",
        DEDUPLICATION_TESTS,
    ),
    Mutant(
        "only the latest schema is asked by transitive strategies",
        PULSAR + "schemas/compatibility.py",
        "        _check(present if strategy in TRANSITIVE else present[-1:], new, strategy)\n",
        "        _check(present[-1:], new, strategy)\n",
        SCHEMA_TESTS,
    ),
    Mutant(
        "what Python says of a schema of text is refused",
        PULSAR + "schemas/compatibility.py",
        "        if schema.data and schema.data != NONE_OF_PYTHON:\n",
        "        if schema.data:\n",
        SCHEMA_TESTS,
    ),
    Mutant(
        "another message of Protocol Buffers takes a topic over",
        PULSAR + "schemas/compatibility.py",
        "        if (before := _root_message(old)) != root:\n",
        "        if not (before := _root_message(old)):\n",
        ("tests/pulsar_frontend/schemas/test_descriptor.py",),
    ),
    Mutant(
        "a refused producer does not hear the exception's name",
        PULSAR + "session/errors.py",
        '    return replace(refusal, text=f"{JAVA_NAME}: {refusal.text}")\n',
        "    return refusal\n",
        SCHEMA_TESTS,
    ),
    Mutant(
        "a required field may be new",
        PULSAR + "schemas/resolution.py",
        "        return bool(reader.has_default)\n",
        "        return True\n",
        SCHEMA_TESTS,
    ),
    Mutant(
        "a consumer's schema is not checked",
        PULSAR + "server/attachments.py",
        "            await schemas.check_consumer(name, schema)\n",
        "            pass\n",
        SCHEMA_TESTS,
    ),
    Mutant(
        "a burst to a topic that keeps nothing goes to one of those who share it",
        PULSAR + "server/attachments.py",
        "if effect.topic.is_persistent else 1,\n",
        "if effect.topic.is_persistent else 20,\n",
        ("tests/pulsar_frontend/server/test_non_persistent.py",),
    ),
    Mutant(
        "a token does not expire",
        PULSAR + "authentication/tokens.py",
        "    if expires is not None and now_s >= expires:\n",
        "    if expires is not None and now_s < 0:\n",
        IDENTITY_TESTS,
    ),
    Mutant(
        "the end of a line is part of a token",
        PULSAR + "authentication/tokens.py",
        "            token.strip(),\n",
        "            token,\n",
        IDENTITY_TESTS,
    ),
    Mutant(
        "commands count before the proof is looked at",
        PULSAR + "session/transitions.py",
        "    ConnectionState.PROVING: frozenset(),\n",
        "    ConnectionState.PROVING: frozenset({BaseCommand.PING, BaseCommand.PRODUCER}),\n",
        IDENTITY_TESTS,
    ),
    Mutant(
        "administrators need no proof",
        PULSAR + "services/clients/authenticator.py",
        "            return None\n        # A proxy",
        "            return NOBODY\n        # A proxy",
        IDENTITY_TESTS,
    ),
    Mutant(
        "a watcher does not hear of what goes",
        PULSAR + "session/topics/watched_names.py",
        "        if came is (at < len(names) and names[at] == name):\n",
        "        if not came or (at < len(names) and names[at] == name):\n",
        WATCHING_TESTS,
    ),
    Mutant(
        "a watcher hears of topics that are not on disk yet",
        "core/arneb_core/engine/catalog/catalog.py",
        "            topic = self._make_topic(topic_id, name, settings, LedgerIndex())\n",
        "            topic = self._make_topic(topic_id, name, settings, LedgerIndex())\n"
        "            self._topic_came(topic)\n",
        WATCHING_TESTS,
    ),
    Mutant(
        "the end of a topic is told to clients that do not know it",
        PULSAR + "session/client.py",
        "self.version >= 9 and self.name.startswith(HEARERS)",
        "self.version >= 9",
        CLIENT_TESTS,
    ),
    Mutant(
        "old clients hear of changes of the active consumer",
        PULSAR + "session/client.py",
        "        return self.version >= 12\n",
        "        return self.version >= 9\n",
        CLIENT_TESTS,
    ),
    Mutant(
        "whoever sent too much is heard all the same",
        PULSAR + "server/connection.py",
        "            or self._effects.publishing.silent_until > 0\n",
        "",
        (THROTTLE_TESTS,),
    ),
    Mutant(
        "what was known before a start outlives deduplication being turned off",
        PULSAR + "services/topics/deduplication.py",
        "        kept = self._kept.pop(topic.id, None)\n",
        "        kept = None\n",
        DEDUPLICATION_TESTS,
    ),
    Mutant(
        "what is sent when deduplication is turned off overtakes what waits",
        PULSAR + "services/topics/deduplication.py",
        "            if present.idle:\n",
        "            if True:\n",
        DEDUPLICATION_TESTS,
    ),
    Mutant(
        "a rate is forgotten by a restart",
        PULSAR + "server/requests.py",
        "        self._context.throttles.refresh(topic)\n",
        "",
        (THROTTLE_TESTS,),
    ),
    Mutant(
        "a rate does not bind what the read brings that waited while the producer was opened",
        PULSAR + "server/connection.py",
        "            if len(data) > self._effects.publishing.receive_bytes:\n",
        "            if False:\n",
        (THROTTLE_TESTS,),
    ),
    Mutant(
        "all pieces of that read are one turn",
        PULSAR + "server/connection.py",
        "            await self._my_turn()  # hundreds of pieces in one turn would be 40 ms\n",
        "",
        (THROTTLE_TESTS,),
    ),
    Mutant(
        "the end of a topic is told to consumers of another subscription of the name",
        PULSAR + "services/clients/consumers.py",
        "            if each.subscription is subscription:\n",
        "            if each.subscription.name == subscription.name:\n",
        ("tests/pulsar_frontend/services/clients/test_consumers.py",),
    ),
    Mutant(
        "a request that failed is counted for ever",
        PULSAR + "server/request_tasks.py",
        "            await request(effect)\n        finally:\n",
        "            await request(effect)\n        except trio.Cancelled:\n"
        "            raise\n        else:\n",
        ("tests/pulsar_frontend/server/test_request_tasks.py",),
    ),
    Mutant(
        "a holder of state has no repr",
        PULSAR + "services/limits/throttles.py",
        "    def __repr__(self) -> str:\n",
        "    def describe(self) -> str:\n",
        ("tests/pulsar_frontend/test_reprs.py",),
    ),
    Mutant(
        "an initial subscription is made on a non-persistent topic",
        PULSAR + "server/requests.py",
        "effect.initial_subscription and effect.topic.is_persistent:",
        "effect.initial_subscription:",
        ("tests/pulsar_frontend/server/test_non_persistent.py",),
    ),
)
