"""Mistakes that let one client take everybody's turn."""

from typing import Final

from tests.mutants.table import Mutant

ROUTING: Final = "amqp_frontend/arneb_amqp/routing/"
TOPIC_TESTS: Final = ("tests/amqp_frontend/routing/test_topic.py",)
HEADERS_TESTS: Final = ("tests/amqp_frontend/routing/test_headers.py",)
SESSION: Final = "amqp_frontend/arneb_amqp/session/"
SESSION_TESTS: Final = ("tests/amqp_frontend/session/test_turns.py",)
READER_TESTS: Final = ("tests/amqp_frontend/wire/test_fast.py",)
SERVER_TESTS: Final = ("tests/amqp_frontend/server/test_turns.py",)
HASH_TESTS: Final = ("tests/amqp_frontend/routing/test_consistent_hash.py",)

TRANSLATING_TESTS: Final = ("tests/pulsar_frontend/session/test_translation.py",)

TURNS_MUTANTS: Final = (
    Mutant(
        "a run from AMQP is translated in one turn",
        "pulsar_frontend/arneb_pulsar/session/output.py",
        "            elif units <= 0:\n",
        "            elif units <= -(10**12):\n",
        TRANSLATING_TESTS,
    ),
    Mutant(
        "what is said behind a translation overtakes it",
        "pulsar_frontend/arneb_pulsar/session/output.py",
        "        if self._behind:\n            self._behind.append(frames)\n",
        "        if not self:\n            self._behind.append(frames)\n",
        TRANSLATING_TESTS,
    ),
    Mutant(
        "everybody has a long turn in every pass",
        "core/arneb_core/api/long_turns.py",
        "            self._left -= 1\n",
        "",
        ("tests/core/api/test_long_turns.py",),
    ),
    Mutant(
        "as many long turns begin in a pass when they have become long",
        "core/arneb_core/api/long_turns.py",
        "        if pass_s > PASS_S:\n",
        "        if pass_s < 0:\n",
        ("tests/core/api/test_long_turns.py",),
    ),
    Mutant(
        "only the fewest long turns begin in a short pass",
        "core/arneb_core/api/long_turns.py",
        "self._allowed = min(LONG_TURNS_MAX, 2 * self._allowed)",
        "pass",
        ("tests/core/api/test_long_turns.py",),
    ),
    Mutant(
        "whoever has little to say says it in the same pass as a thousand others",
        "core/arneb_core/api/long_turns.py",
        "        if self.short_left < 0:\n",
        "        if not self:\n",
        ("tests/core/api/test_long_turns.py",),
    ),
    Mutant(
        "a thousand connections write in one turn",
        "amqp_frontend/arneb_amqp/server/flusher.py",
        "        if len(flushes) <= FLUSHES_PER_TURN:\n",
        "        if flushes:\n",
        ("tests/amqp_frontend/server/test_flusher.py",),
    ),
    Mutant(
        "a commit holds the publishes of a thousand connections",
        "core/arneb_core/engine/committer.py",
        "            if appends >= COMMIT_APPENDS_MAX:\n",
        "            if appends < 0:\n",
        ("tests/core/engine/test_large_commits.py",),
    ),
    Mutant(
        "a commit holds the cursors of all subscriptions",
        "core/arneb_core/engine/committer.py",
        "        if len(dirty) > COMMIT_CURSORS_MAX:\n",
        "        if len(dirty) < 0:\n",
        ("tests/core/engine/test_large_commits.py",),
    ),
    Mutant(
        "who waits for a cursor is told when another was written",
        "core/arneb_core/engine/committer.py",
        "(self._receipts if receipt[0] in rest else commit.receipts)",
        "commit.receipts",
        ("tests/core/engine/test_large_commits.py",),
    ),
    Mutant(
        "cursors that did not fit into a commit are left behind at the end",
        "core/arneb_core/engine/committer.py",
        "False, bool(rest)\n",
        "False, False\n",
        ("tests/core/engine/test_large_commits.py",),
    ),
    Mutant(
        "half a million acknowledgements are one turn",
        "pulsar_frontend/arneb_pulsar/session/acknowledgements.py",
        "len(command.message_id) > IDS_PER_TURN",
        "len(command.message_id) < 0",
        ("tests/pulsar_frontend/session/test_pieces.py",),
    ),
    Mutant(
        "what stands behind a request in pieces overtakes it",
        "pulsar_frontend/arneb_pulsar/session/connection.py",
        "            if self._output.pieces is not None:\n                break\n",
        "",
        ("tests/pulsar_frontend/session/test_pieces.py",),
    ),
    Mutant(
        "each piece of an acknowledgement is answered",
        "pulsar_frontend/arneb_pulsar/session/acknowledgements.py",
        "request_id if behind >= len(ids) else None",
        "request_id",
        ("tests/pulsar_frontend/session/test_pieces.py",),
    ),
    Mutant(
        "all messages of a large batch are made when it is opened",
        "pulsar_frontend/arneb_pulsar/codec.py",
        "        if metadata.num_messages_in_batch > LARGE_BATCH:\n",
        "        if metadata.num_messages_in_batch < 0:\n",
        ("tests/pulsar_frontend/test_codec.py",),
    ),
    Mutant(
        "whoever asked last for a long turn has it first",
        "core/arneb_core/api/long_turns.py",
        "self._waiting.popitem(last=False)",
        "self._waiting.popitem(last=True)",
        ("tests/core/api/test_long_turns.py",),
    ),
    Mutant(
        "the cache of routes counts routes only",
        "amqp_frontend/arneb_amqp/routing/routes.py",
        "        self._targets += targets\n",
        "",
        ("tests/amqp_frontend/session/publish/test_publisher.py",),
    ),
    Mutant(
        "a dead letter is searched a way for without end",
        ROUTING + "router.py",
        "        return finished(_bounded(steps, exchange))\n",
        "        return finished(steps)\n",
        ("tests/amqp_frontend/routing/test_router.py",),
    ),
    Mutant(
        "a large batch is opened for every message of it",
        SESSION + "consume/unbatching.py",
        "            is_large = messages_in(entry) > LARGE_BATCH\n",
        "            is_large = False\n",
        ("tests/amqp_frontend/session/consume/test_unbatching.py",),
    ),
    Mutant(
        "a run's translation goes on whatever it costs",
        "pulsar_frontend/arneb_pulsar/session/translation.py",
        "(units > 0 or not entries)",
        "(units > 0 or entries is not None)",
        TRANSLATING_TESTS,
    ),
    Mutant(
        "headers of a hundred thousand fields are translated one by one",
        "amqp_frontend/arneb_amqp/translation.py",
        "    if len(spans) <= 2 * HEADER_FIELDS_MAX:\n",
        "    if len(spans) >= 0:\n",
        ("tests/amqp_frontend/test_codec.py",),
    ),
    Mutant(
        "every topic pattern is walked word by word",
        ROUTING + "topic.py",
        "    count = len(words)\n    if count <= SIMPLE_WORDS_ANYWHERE_MAX:\n",
        "    count = len(words)\n    if count >= 0:\n",
        TOPIC_TESTS,
    ),
    Mutant(
        "a packed # fits one word at most",
        ROUTING + "packed.py",
        " << 1 | state & stays\n",
        " << 1\n",
        TOPIC_TESTS,
    ),
    Mutant(
        "a hard match never pauses",
        ROUTING + "packed.py",
        "            yield None\n",
        "",
        TOPIC_TESTS,
    ),
    Mutant(
        "blocks of patterns that were removed stay",
        ROUTING + "packed.py",
        "        if block.live_bits < SPARSE_BITS and block is not self._newest:\n",
        "        if block.live_bits < 0:\n",
        TOPIC_TESTS,
    ),
    Mutant(
        "a pattern that wants all stands where everybody stands",
        ROUTING + "headers.py",
        "            least = sizes.index(min(sizes))\n",
        "            least = sizes.index(max(sizes))\n",
        HEADERS_TESTS,
    ),
    Mutant(
        "places that bindings left are never closed up",
        ROUTING + "consistent_hash.py",
        "        if len(self._places) < len(self._bindings) // 2:\n",
        "        if len(self._places) < 0:\n",
        HASH_TESTS,
    ),
    Mutant(
        "a session handles all that came in one turn",
        SESSION + "connection/session.py",
        "        while not (self.waiting or self.throttle.blocked) and self.work_left > 0:\n",
        "        while not (self.waiting or self.throttle.blocked):\n",
        SESSION_TESTS,
    ),
    Mutant(
        "publishes by headers are one turn",
        SESSION + "publish/publisher.py",
        "            if self._context.work_left <= 0:\n",
        "            if self._context.work_left is None:\n",
        SESSION_TESTS,
    ),
    Mutant(
        "what stands behind a pause comes before it",
        SESSION + "connection/session.py",
        "        self._items.appendleft(rest)\n",
        "        self._items.append(rest)\n",
        SESSION_TESTS,
    ),
    Mutant(
        "a search goes on where the topology was another",
        "amqp_frontend/arneb_amqp/routing/search.py",
        "        if self._steps is None or self._generation != self._router.generation:\n",
        "        if self._steps is None:\n",
        SESSION_TESTS,
    ),
    Mutant(
        "a read of single frames is one turn",
        "amqp_frontend/arneb_amqp/wire/fast.py",
        "            if frames + len(items) >= ITEMS_MAX:\n",
        "            if frames + len(items) < 0:\n",
        READER_TESTS,
    ),
    Mutant(
        "nobody else has a turn between two of a session's",
        "amqp_frontend/arneb_amqp/server/effects.py",
        "                    self._connection.flush()\n"
        "                    await self._long_turns.next()\n",
        "                    self._connection.flush()\n",
        SERVER_TESTS,
    ),
    Mutant(
        "what died frozen is kept for good",
        "broker/arneb/garbage.py",
        "        gc.unfreeze()\n        found = gc.collect()\n",
        "        found = gc.collect()\n",
        ("tests/broker/test_garbage.py",),
    ),
    Mutant(
        "the first full collection after a thaw waits for a quarter of everything",
        "broker/arneb/garbage.py",
        "        gc.collect()\n        self._thawed_at",
        "        self._thawed_at",
        ("tests/broker/test_garbage.py",),
    ),
    Mutant(
        "a connection of AMQP that is over stays until everything is collected",
        "amqp_frontend/arneb_amqp/server/effects.py",
        "        self._context.events = self._connection = NOBODY\n",
        "        self._connection = NOBODY\n",
        ("tests/amqp_frontend/server/test_given_up.py",),
    ),
    Mutant(
        "a channel that is closed stays until everything is collected",
        "amqp_frontend/arneb_amqp/session/channel/declarer.py",
        "        self._send = _say_nothing\n",
        "",
        ("tests/amqp_frontend/server/test_given_up.py",),
    ),
    Mutant(
        "a connection of Pulsar that is over stays until everything is collected",
        "pulsar_frontend/arneb_pulsar/server/connection.py",
        "        del self._effects\n",
        "",
        ("tests/pulsar_frontend/server/test_given_up.py",),
    ),
    Mutant(
        "millions of unanswered deliveries are forgotten in one turn",
        SESSION + "discarded.py",
        "            self._left.append(unacked)\n",
        "            unacked.shed(len(unacked))\n",
        ("tests/amqp_frontend/session/consume/test_many_answers.py",),
    ),
    Mutant(
        "a batch of any size is divided in one turn",
        "core/arneb_core/subscription/delivery.py",
        "                self.parts_left -= 1\n",
        "",
        ("tests/core/engine/test_engine_batches.py",),
    ),
    Mutant(
        "all consumers of a connection leave in one turn",
        "pulsar_frontend/arneb_pulsar/server/connection.py",
        "            await self._effects.release_in_turns()\n",
        "",
        ("tests/pulsar_frontend/server/test_given_up.py",),
    ),
    Mutant(
        "every full collection looks at everything",
        "broker/arneb/garbage.py",
        "            gc.freeze()\n            self._frozen_since = True\n",
        "            self._frozen_since = True\n",
        ("tests/broker/test_garbage.py",),
    ),
    Mutant(
        "nobody has a turn while thousands of bindings go",
        "amqp_frontend/arneb_amqp/topology/removal.py",
        "            return removed\n        await trio.lowlevel.checkpoint()\n",
        "            return removed\n",
        ("tests/amqp_frontend/topology/test_turns.py",),
    ),
    Mutant(
        "all that is unanswered means what comes later too",
        SESSION + "channel/channel.py",
        "                raise Pause(Ack(item.channel, DeliveryTag(tag))) from None\n",
        "                raise Pause(item) from None\n",
        ("tests/amqp_frontend/session/consume/test_many_answers.py",),
    ),
    Mutant(
        "millions of answers are one turn",
        SESSION + "consume/deliverer.py",
        "        if part is not None:\n"
        "            self._context.work_left = 0\n        return part\n",
        "        return None\n",
        ("tests/amqp_frontend/session/consume/test_many_answers.py",),
    ),
    Mutant(
        "a consumer that leaves gives millions back in one turn",
        "core/arneb_core/engine/consumer.py",
        "            await trio.lowlevel.checkpoint()\n            # What was answered",
        "            # What was answered",
        ("tests/core/engine/test_giving_back.py",),
    ),
    Mutant(
        "forgetting counts looks at all of them",
        "core/arneb_core/subscription/redeliveries.py",
        "            self.forget([each for each in chunk if each <= place])\n",
        "            self.forget([each for each in self.items() if each <= place])\n",
        ("tests/core/subscription/test_redeliveries.py",),
    ),
    Mutant(
        "a batch is cut in two, each with its commit",
        "amqp_frontend/arneb_amqp/server/connection.py",
        "                if size == FIRST_READ_BYTES:",
        "                if size > RECEIVE_BYTES_MAX:",
        ("tests/amqp_frontend/server/test_back_pressure.py",),
    ),
    Mutant(
        "rejections are given to the core one by one",
        SESSION + "effect_queue.py",
        "before is None or before.consumer != settled.consumer",
        "before is None or before.consumer == settled.consumer",
        ("tests/amqp_frontend/session/consume/test_deliverer.py",),
    ),
    Mutant(
        "what a failed call leaves waits for the next ring",
        "core/arneb_core/engine/loop_calls.py",
        "            self._make()\n            await trio.lowlevel.wait_readable(self._reader)\n"
        "            os.read(self._reader, RING_BYTES)\n            self._rung = False\n",
        "            await trio.lowlevel.wait_readable(self._reader)\n"
        "            os.read(self._reader, RING_BYTES)\n            self._rung = False\n"
        "            self._make()\n",
        ("tests/core/engine/test_reader.py",),
    ),
)
