"""Mutants of the Pulsar frontend.

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

IDS_TESTS: Final = ("tests/pulsar_frontend/server/test_ids_of_topics.py",)

PULSAR_MUTANTS: Final = (
    Mutant(
        "a topic gets the schema of a client that takes any",
        PULSAR + "schemas/compatibility.py",
        "    if schema.type is SchemaType.AUTO_CONSUME:\n",
        "    if False:\n",
        SCHEMA_TESTS,
    ),
    Mutant(
        "a client of a proxy is asked for the proof that the proxy must give",
        PULSAR + "session/connection/authentication.py",
        "        if self._asked or not self._refreshes or self._original:\n",
        "        if self._asked or not self._refreshes:\n",
        IDENTITY_TESTS,
    ),
    Mutant(
        "the active consumer is told right behind SUCCESS, before Go's client knows it",
        PULSAR + "session/consume/consumers.py",
        "            self._unannounced[event.key] = self._output.now + ACTIVE_AFTER_S\n",
        "            self._tell_active(consumer)\n",
        ACTIVE_TESTS,
    ),
    Mutant(
        "a consumer that asks for messages is told a second later whether it is active",
        PULSAR + "session/consume/consumers.py",
        "            if self._unannounced.pop(consumer.key, None) is not None:\n",
        "            if False:\n",
        ACTIVE_TESTS,
    ),
    Mutant(
        "a consumer that asks for none is told at its connection's next check whether it is active",
        PULSAR + "server/connection.py",
        "        if isinstance(event, events.ConsumerAttached):\n",
        "        if False:\n",
        ACTIVE_TESTS,
    ),
    Mutant(
        "a consumer that has left is told that it is active",
        PULSAR + "session/consume/consumers.py",
        "            self._unannounced.pop(consumer.key, None)\n            if self._by_id",
        "            if self._by_id",
        ACTIVE_TESTS,
    ),
    Mutant(
        "each message that forms its own run is parsed",
        PULSAR + "session/produce/producers.py",
        "                pattern.learn(run.bodies)\n",
        "                pass\n",
        ("tests/pulsar_frontend/session/produce/test_producers.py",),
    ),
    Mutant(
        "sends are compared by their bytes alone, wherever one ends",
        PULSAR + "wire/sends.py",
        "expected or set(map(len, found)) != {one}",
        "expected",
        ("tests/pulsar_frontend/wire/test_sends.py",),
    ),
    Mutant(
        "everything that was read is compared with each producer's next sends",
        PULSAR + "wire/sends.py",
        "min(left, counted + looked_at)",
        "left",
        ("tests/pulsar_frontend/wire/test_sends.py",),
    ),
    Mutant(
        "numbers that count up start over on each page",
        PULSAR + "wire/counting.py",
        "    low = first % PAGE\n",
        "    low = 0\n",
        ("tests/pulsar_frontend/wire/test_counting.py",),
    ),
    Mutant(
        "frames whose sizes differ by 256 bytes are cut as equal ones",
        PULSAR + "wire/frame.py",
        "    for offset in range(SIZES_BYTES):\n",
        "    for offset in (3, 7):\n",
        ("tests/pulsar_frontend/wire/test_frame.py",),
    ),
    Mutant(
        "every frame is cut as the first and the eighth",
        PULSAR + "wire/frame.py",
        "frames = min(frames, len(column) - len(column.lstrip(column[:1])))",
        "frames = min(frames, len(column))",
        ("tests/pulsar_frontend/wire/test_frame.py",),
    ),
    Mutant(
        "frames of equal but impossible sizes are cut",
        PULSAR + "wire/frame.py",
        "    if size + SIZE_BYTES > total or total > bound or len(data)",
        "    if size + SIZE_BYTES > total or len(data)",
        ("tests/pulsar_frontend/wire/test_frame.py",),
    ),
    Mutant(
        "a form is compiled for each producer's first message",
        PULSAR + "packing/metadata_pattern.py",
        "if self.skipped and self._messages >= OWN_PATTERN_MESSAGES",
        "if self.skipped",
        ("tests/pulsar_frontend/packing/test_entries.py",),
    ),
    Mutant(
        "a plus in a producer's name repeats what is before it",
        PULSAR + "packing/metadata_pattern.py",
        "re.escape(self.name_field)",
        "self.name_field",
        ("tests/pulsar_frontend/packing/test_entries.py",),
    ),
    Mutant(
        "a producer whose message failed may continue",
        PULSAR + "server/publishing.py",
        "                self.disconnect(key)\n",
        "                pass\n",
        DEDUPLICATION_TESTS,
    ),
    Mutant(
        "what waits behind a failed batch is stored, and the batch then taken for a duplicate",
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
        "what waits behind a failed run is stored before it",
        "core/arneb_core/engine/group_commit/request.py",
        "        (behind if fails else others).append(request)\n",
        "        others.append(request)\n",
        LISTENER_TESTS,
    ),
    Mutant(
        "an epoch is reported before it is on disk",
        PULSAR + "services/clients/producers.py",
        "        self._core.commit(unit, partial(self._epoch_stored, claim, epoch))\n",
        "        self._core.commit(unit, lambda error: None)\n"
        "        self._epoch_stored(claim, epoch, None)\n",
        ACCESS_TESTS,
    ),
    Mutant(
        "a fenced producer never learns what became of its messages",
        PULSAR + "session/produce/producers.py",
        "            self._fenced_out[producer.key] = producer\n",
        "            pass\n",
        ("tests/pulsar_frontend/session/produce/test_producers.py",),
    ),
    Mutant(
        "a fenced producer may come back",
        PULSAR + "producers/access.py",
        "        if claim.epoch is not None and claim.epoch < self.epoch:\n",
        "        if False and claim.epoch is not None:\n",
        ACCESS_TESTS,
    ),
    Mutant(
        "no waiting producer is admitted when the owner leaves",
        PULSAR + "producers/access.py",
        "        if self.owners or not self.waiting:\n",
        "        if self.owners or True:\n",
        ACCESS_TESTS,
    ),
    Mutant(
        "a restart forgets how far a producer got",
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
        "everything that waited for a batch is sorted in one turn",
        PULSAR + "services/topics/deduplication.py",
        "            if batch.sorted >= ENTRIES_PER_TURN:\n",
        "            if False:\n",
        DEDUPLICATION_TESTS,
    ),
    Mutant(
        "thousands of duplicates are reported in one turn, batch by batch",
        PULSAR + "services/topics/deduplication.py",
        "            if left <= 0:\n",
        "            if False:\n",
        DEDUPLICATION_TESTS,
    ),
    Mutant(
        "thousands of batches of duplicates are reported in one turn",
        PULSAR + "services/topics/deduplication.py",
        "        for _ in range(BATCHES_PER_TURN):\n",
        "        while True:\n",
        DEDUPLICATION_TESTS,
    ),
    Mutant(
        "each batch of duplicates is reported inside the one before",
        PULSAR + "services/topics/deduplication.py",
        "        self._flying = False\n        resolved,",
        "        self._flying = False\n        self._fly()\n        resolved,",
        DEDUPLICATION_TESTS,
    ),
    Mutant(
        "a failed message is taken for a duplicate",
        PULSAR + "services/topics/deduplication.py",
        "        if error is None:\n            self._outlived -= batch.forgotten\n",
        "        if True:\n            self._outlived -= batch.forgotten\n",
        DEDUPLICATION_TESTS,
    ),
    Mutant(
        "of the chunks of several messages that arrive together one counts",
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
        "Python's error text for a schema is refused",
        PULSAR + "schemas/compatibility.py",
        "        if schema.data and schema.data != NONE_OF_PYTHON:\n",
        "        if schema.data:\n",
        SCHEMA_TESTS,
    ),
    Mutant(
        "another Protocol Buffers message takes over a topic",
        PULSAR + "schemas/compatibility.py",
        "        if (before := _root_message(old)) != root:\n",
        "        if not (before := _root_message(old)):\n",
        ("tests/pulsar_frontend/schemas/test_descriptor.py",),
    ),
    Mutant(
        "a refused producer does not receive the exception's name",
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
        "a burst to a topic that keeps nothing goes to one of its consumers",
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
        "a line end is part of a token",
        PULSAR + "authentication/tokens.py",
        "            token.strip(),\n",
        "            token,\n",
        IDENTITY_TESTS,
    ),
    Mutant(
        "commands count before the credentials are checked",
        PULSAR + "session/transitions.py",
        "    ConnectionState.PROVING: frozenset(),\n",
        "    ConnectionState.PROVING: frozenset({BaseCommand.PING, BaseCommand.PRODUCER}),\n",
        IDENTITY_TESTS,
    ),
    Mutant(
        "administrators need no credentials",
        PULSAR + "services/clients/authenticator.py",
        "            return None\n        # A proxy",
        "            return NOBODY\n        # A proxy",
        IDENTITY_TESTS,
    ),
    Mutant(
        "a watcher does not learn of deleted topics",
        PULSAR + "session/topics/watched_names.py",
        "        if came is (at < len(names) and names[at] == name):\n",
        "        if not came or (at < len(names) and names[at] == name):\n",
        WATCHING_TESTS,
    ),
    Mutant(
        "a watcher learns of topics that are not on disk yet",
        "core/arneb_core/engine/catalog/catalog.py",
        "            topic = self._make_topic(topic_id, name, settings, LedgerIndex())\n",
        "            topic = self._make_topic(topic_id, name, settings, LedgerIndex())\n"
        "            self._topic_came(topic)\n",
        WATCHING_TESTS,
    ),
    Mutant(
        "the end of a topic is sent to clients that do not know the command",
        PULSAR + "session/client.py",
        "self.version >= 9 and self.name.startswith(HEARERS)",
        "self.version >= 9",
        CLIENT_TESTS,
    ),
    Mutant(
        "old clients are told of changes of the active consumer",
        PULSAR + "session/client.py",
        "        return self.version >= 12\n",
        "        return self.version >= 9\n",
        CLIENT_TESTS,
    ),
    Mutant(
        "a client that sent too much is read all the same",
        PULSAR + "server/connection.py",
        "            or self._effects.publishing.silent_until > 0\n",
        "",
        (THROTTLE_TESTS,),
    ),
    Mutant(
        "what was known before a start survives deduplication being turned off",
        PULSAR + "services/topics/deduplication.py",
        "        kept = self._kept.pop(topic.id, None)\n",
        "        kept = None\n",
        DEDUPLICATION_TESTS,
    ),
    Mutant(
        "messages sent when deduplication is turned off overtake waiting ones",
        PULSAR + "services/topics/deduplication.py",
        "        if present.is_over and self._by_topic.get(topic.id) is present:\n",
        "        if present.ended and self._by_topic.get(topic.id) is present:\n",
        DEDUPLICATION_TESTS,
    ),
    Mutant(
        "old numbers survive deduplication being turned off if the disk fails at that moment",
        PULSAR + "services/topics/deduplication.py",
        "        return self.ended and not (self._flying or self._held or self._outlived)\n",
        "        return self.ended and not (self._flying or self._held)\n",
        DEDUPLICATION_TESTS,
    ),
    Mutant(
        "a batch under way when deduplication is turned off leaves its numbers on disk",
        PULSAR + "services/topics/deduplication.py",
        "                    self._outlived.add(name)\n",
        "                    pass\n",
        DEDUPLICATION_TESTS,
    ),
    Mutant(
        "numbers stored after deduplication is on again are removed with those from before",
        PULSAR + "services/topics/deduplication.py",
        "        batch.forgotten = frozenset(self._outlived - batch.reaches.keys())\n",
        "        batch.forgotten = frozenset(self._outlived)\n",
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
        "a rate does not limit what was read while the producer was opened",
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
        "the end of a topic is sent to consumers of another subscription of the name",
        PULSAR + "services/clients/consumers.py",
        "            if each.subscription is subscription:\n",
        "            if each.subscription.name == subscription.name:\n",
        ("tests/pulsar_frontend/services/clients/test_consumers.py",),
    ),
    Mutant(
        "a failed request is counted forever",
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
        "an initial subscription is created on a non-persistent topic",
        PULSAR + "server/requests.py",
        "effect.initial_subscription and effect.topic.is_persistent:",
        "effect.initial_subscription:",
        ("tests/pulsar_frontend/server/test_non_persistent.py",),
    ),
    Mutant(
        "messages of two topics are delivered with the same ids",
        PULSAR + "server/attachments.py",
        "events.ConsumerAttached(effect.key, LedgerIds(topic.id))",
        "events.ConsumerAttached(effect.key)",
        IDS_TESTS,
    ),
    Mutant(
        "receipts of two topics have the same ids",
        PULSAR + "server/publishing.py",
        "        run.ledger_ids = LedgerIds(topic.id)\n",
        "",
        IDS_TESTS,
    ),
    Mutant(
        "a new epoch of a consumer forgets its topic's number",
        PULSAR + "session/consume/consumer.py",
        "self.consumer_id, self.partition, epoch, self.counts, self.ledger_ids\n",
        "self.consumer_id, self.partition, epoch, self.counts\n",
        ("tests/pulsar_frontend/session/consume/test_ids.py",),
    ),
    Mutant(
        "an id of another topic acknowledges a message of this one",
        "core/arneb_core/api/entries/ledger_ids.py",
        "        if mark and mark != self._mark:\n",
        "        if False:\n",
        (
            "tests/core/api/entries/test_ledger_ids.py",
            "tests/pulsar_frontend/packing/test_message_ids.py",
        ),
    ),
    Mutant(
        "an id that was saved before ids had a topic's number means nothing",
        "core/arneb_core/api/entries/ledger_ids.py",
        "        if mark and mark != self._mark:\n",
        "        if mark != self._mark:\n",
        ("tests/core/api/entries/test_ledger_ids.py",),
    ),
)
