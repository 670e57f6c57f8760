"""The mutant list, continued: mistakes of the client library's machines.

The rule: as in :mod:`tests.mutants.table`.
"""

from typing import Final

from tests.mutants.table import Mutant

CLIENT: Final = "pulsar_frontend/arneb_pulsar/client/"
PRODUCER_TESTS: Final = ("tests/pulsar_frontend/client/producer/test_machine.py",)
ACK_TESTS: Final = ("tests/pulsar_frontend/client/trackers/test_ack_grouping.py",)
PACKING_TESTS: Final = ("tests/pulsar_frontend/client/producer/test_packing.py",)
CONNECTION_TESTS: Final = ("tests/pulsar_frontend/client/connection/test_machine.py",)

HOSTILE_TESTS: Final = ("tests/pulsar_frontend/client/hostile/test_hostile_broker.py",)
WATCHING_TESTS: Final = ("tests/pulsar_frontend/client/testing/test_watching.py",)
POOL_TESTS: Final = ("tests/pulsar_frontend/client/connection/test_pool.py",)
FAKE_TESTS: Final = ("tests/pulsar_frontend/client/testing/test_fake_broker.py",)
CONSUMER_TESTS: Final = ("tests/pulsar_frontend/client/consumer/test_machine.py",)
PIECES_TESTS: Final = ("tests/pulsar_frontend/client/testing/test_pieces.py",)
TRANSACTION_TESTS: Final = ("tests/pulsar_frontend/client/test_transactions.py",)
SEEKING_TESTS: Final = ("tests/pulsar_frontend/client/testing/test_seeking.py",)

CLIENT_MACHINE_MUTANTS: Final = (
    Mutant(
        "everything up to a message takes the pieces of the next with it",
        CLIENT + "consumer/acknowledging.py",
        "        if self._apart and (passing := self._apart.passing(entry, chunks)):\n",
        "        if not self._apart and (passing := self._apart.passing(entry, chunks)):\n",
        PIECES_TESTS,
    ),
    Mutant(
        "which entries are pieces is forgotten with the connection",
        CLIENT + "consumer/acknowledging.py",
        "        self._apart.disconnected()\n",
        "        self._apart.clear()\n",
        PIECES_TESTS,
    ),
    Mutant(
        "what was passed on a lost connection is taken for acknowledged",
        CLIENT + "trackers/pieces.py",
        "        self._passed = None\n\n    def clear(self) -> None:\n",
        "        self._entries = dict(self._entries)\n\n    def clear(self) -> None:\n",
        ("tests/pulsar_frontend/client/trackers/test_pieces.py",),
    ),
    Mutant(
        "a message of which a piece is refused is stored with the others",
        CLIENT + "producer/machine.py",
        "            if refused and not refused[-1].packed.is_followed_by(each.packed):\n",
        "            if refused:\n",
        PRODUCER_TESTS,
    ),
    Mutant(
        "only the message that was sent first can be refused",
        CLIENT + "producer/machine.py",
        "            if refused or each.packed.first == error.sequence_id:\n",
        "            if refused or each is self._pending[0]:\n",
        PRODUCER_TESTS,
    ),
    Mutant(
        "a broker that is back sends what it has not been told is done",
        CLIENT + "consumer/machine.py",
        "        self.acks.flush(now)\n        self._flow(self._queue.connected())\n",
        "        self._flow(self._queue.connected())\n        self.acks.flush(now)\n",
        CONSUMER_TESTS,
    ),
    Mutant(
        "seeks overtake each other",
        CLIENT + "consumer/consumer.py",
        "        if self._seeks is None:\n",
        "        if self._seeks is not where:\n",
        SEEKING_TESTS,
    ),
    Mutant(
        "a reader that began some time ago begins elsewhere when it comes back",
        CLIENT + "consumer/link.py",
        "(self._machine.start == LATEST or rolls_back)",
        "(self._machine.start == LATEST)",
        SEEKING_TESTS,
    ),
    Mutant(
        "a producer that its broker sends to another goes past the proxy",
        CLIENT + "attachment.py",
        "            return await make(address, self._through)\n",
        "            return await make(address)\n",
        ("tests/pulsar_client/test_proxied.py",),
    ),
    Mutant(
        "an answer by HTTP is read as long as it is",
        CLIENT + "connection/http_answers.py",
        "                if len(body) > ANSWER_BYTES_MAX:\n",
        "                if len(body) > 20 * ANSWER_BYTES_MAX:\n",
        ("tests/pulsar_frontend/client/connection/test_http_answers.py",),
    ),
    Mutant(
        "whoever speaks HTTP is asked again for thirty seconds",
        CLIENT + "connection/machine.py",
        "            if (error := _stranger(self.where, self._head)) is not None:\n",
        "            if (error := None) is not None:\n",
        CONNECTION_TESTS,
    ),
    Mutant(
        "a seek whose broker is lost is given up",
        CLIENT + "consumer/consumer.py",
        "                thrown_out = error.retriable and not self._machine.attached\n",
        "                thrown_out = False\n",
        ("tests/pulsar_frontend/client/testing/test_fake_broker.py",),
    ),
    Mutant(
        "a client that may not watch a long pattern watches nothing",
        CLIENT + "consumer/pattern.py",
        "                await self._watch_by(connection, ALL_TOPICS)\n",
        "                raise\n",
        WATCHING_TESTS,
    ),
    Mutant(
        "a client that watches all topics asks for the list whichever comes",
        CLIENT + "consumer/pattern.py",
        "        if self._chosen((*update.new_topics, *update.deleted_topics)):\n",
        "        if True:\n",
        WATCHING_TESTS,
    ),
    Mutant(
        "a client whose tasks ask at the same time goes round past the broker that is there",
        CLIENT + "rotation.py",
        "            which = (first + offset) % len(self._places)\n",
        "            which = self._first = (self._first + 1) % len(self._places)\n",
        POOL_TESTS,
    ),
    Mutant(
        "a client that comes back sends again the other way round",
        CLIENT + "producer/machine.py",
        "        self.output[:] = [each.packed.frame for each in self._pending]\n",
        "        self.output[:] = [each.packed.frame for each in self._pending][::-1]\n",
        PRODUCER_TESTS,
    ),
    Mutant(
        "a client that comes back forgets what has no receipt",
        CLIENT + "producer/machine.py",
        "        self.output[:] = [each.packed.frame for each in self._pending]\n",
        "        self.output.clear()\n",
        PRODUCER_TESTS,
    ),
    Mutant(
        "a message that was withdrawn is sent all the same",
        CLIENT + "producer/machine.py",
        "            messages = [each for each in taken if each.fate is Fate.HELD]\n",
        "            messages = list(taken)\n",
        PRODUCER_TESTS,
    ),
    Mutant(
        "a batch says the number of its first message for its last",
        CLIENT + "producer/packing.py",
        "        metadata.highest_sequence_id = last\n",
        "        metadata.highest_sequence_id = first\n",
        PACKING_TESTS,
    ),
    Mutant(
        "the last message of a batch is no reason to tell the broker, the short way",
        CLIENT + "trackers/ack_grouping.py",
        "        if not left:\n            return False\n        self._batches[entry] = left\n"
        "        return True\n",
        "        self._batches[entry] = left\n        return True\n",
        ACK_TESTS,
    ),
    Mutant(
        "parts of batches go the short way though the broker wants their indexes",
        CLIENT + "trackers/ack_grouping.py",
        "        if self._batch_index_acks or (left := self._batches.get(entry)) is None:\n",
        "        if (left := self._batches.get(entry)) is None:\n",
        ACK_TESTS,
    ),
    Mutant(
        "a message that is acknowledged after all comes again, where it is a part of a batch",
        CLIENT + "consumer/acknowledging.py",
        "        if self._unacked is not None or entry in self._given_back:\n",
        "        if self._unacked is not None:\n",
        ("tests/pulsar_frontend/client/testing/test_mechanisms.py",),
    ),
    Mutant(
        "what is acknowledged of a batch takes back what was given back of it",
        CLIENT + "consumer/acknowledging.py",
        "            left = self._given_back[entry] & ~(1 << max(index, 0))\n",
        "            left = 0\n",
        ("tests/pulsar_frontend/client/testing/test_mechanisms.py",),
    ),
    Mutant(
        "a message with an ack timeout goes the short way",
        CLIENT + "consumer/acknowledging.py",
        "        if self._unacked is not None or entry in self._given_back:\n",
        "        if entry in self._given_back:\n",
        ("tests/pulsar_frontend/client/testing/test_mechanisms.py",),
    ),
    Mutant(
        "permits are asked for too late",
        CLIENT + "trackers/receiver_queue.py",
        "        self.half = self._target // 2\n",
        "        self.half = self._target\n",
        ("tests/pulsar_frontend/client/testing/test_mechanisms.py",),
    ),
    Mutant(
        "nothing is compressed as well",
        CLIENT + "producer/packing.py",
        "        if self._compress is None or not payload:\n",
        "        if self._compress is None:\n",
        PACKING_TESTS,
    ),
    Mutant(
        "a stream that was flushed and not finished is damage",
        "pulsar_frontend/arneb_pulsar/wire/compression.py",
        "    found = zlib.decompressobj().decompress(data, len(buffer) + 1)\n",
        "    found = zlib.decompress(data)\n",
        ("tests/pulsar_frontend/wire/test_compression.py",),
    ),
    Mutant(
        "all pieces of a message are its first",
        CLIENT + "producer/packing.py",
        "            each.chunk_id = index\n",
        "            each.chunk_id = 0\n",
        PACKING_TESTS,
    ),
    Mutant(
        "whoever waits for an answer is not told that the connection is lost",
        CLIENT + "connection/machine.py",
        "        for reply in [*(each for _, _, each in requests.values()), *pongs]:\n",
        "        for reply in pongs:\n",
        CONNECTION_TESTS,
    ),
    Mutant(
        "a broker is given up before what lies unread is read",
        CLIENT + "connection/machine.py",
        "        elif not self._grace:\n",
        "        elif False:\n",
        CONNECTION_TESTS,
    ),
    Mutant(
        "a producer that is queued takes its place for granted",
        CLIENT + "connection/machine.py",
        "        if isinstance(command, CommandProducerSuccess) and not command.producer_ready:\n",
        "        if False:\n",
        CONNECTION_TESTS,
    ),
    Mutant(
        "an answer to another question is taken for the one that was asked for",
        CLIENT + "connection/machine.py",
        "        if (name := command.DESCRIPTOR.name) != expected:\n",
        "        if (name := command.DESCRIPTOR.name) == '':\n",
        HOSTILE_TESTS,
    ),
    Mutant(
        "signs of life pile up for a broker that does not read",
        CLIENT + "connection/machine.py",
        "                if not self.output or self.output[-1] is not PONG:\n",
        "                if True:\n",
        HOSTILE_TESTS,
    ),
    Mutant(
        "a broker may announce messages of any size",
        CLIENT + "connection/machine.py",
        "            self.message_bytes_max = min(command.max_message_size, ANNOUNCED_BYTES_MAX)\n",
        "            self.message_bytes_max = command.max_message_size\n",
        HOSTILE_TESTS,
    ),
    Mutant(
        "a client makes as many producers as a broker says",
        CLIENT + "lookup.py",
        "    if isinstance(partitions, int) and 0 <= partitions <= PARTITIONS_MAX:\n",
        "    if isinstance(partitions, int) and 0 <= partitions < 70_000:\n",
        HOSTILE_TESTS,
    ),
    Mutant(
        "a consumer takes more than it asked for, without end",
        CLIENT + "trackers/receiver_queue.py",
        "            self._unasked += 1\n",
        "            self._unasked += 0\n",
        HOSTILE_TESTS,
    ),
    Mutant(
        "a batch may have any number of messages",
        CLIENT + "consumer/unpacking.py",
        "        if not 0 <= count <= MESSAGES_MAX or (is_batch and not count):\n",
        "        if count < 0 or (is_batch and not count):\n",
        HOSTILE_TESTS,
    ),
    Mutant(
        "a client that is thrown out comes back at once, again and again",
        CLIENT + "attachment.py",
        "            if self._context.clock.now() - self._attached_at < STEADY_S:\n",
        "            if False:\n",
        HOSTILE_TESTS,
    ),
    Mutant(
        "connections to brokers that were asked once stay for ever",
        CLIENT + "connection/pool.py",
        "        for key in {*gone, *idle[:-IDLE_MAX]}:\n",
        "        for key in gone:\n",
        HOSTILE_TESTS,
    ),
    Mutant(
        "a reader takes the no of a broker that has let go of the topic for the last word",
        CLIENT + "consumer/consumer.py",
        "        return await patiently(self._context, partial(self._request, command, what))\n",
        "        return await self._request(command, what)\n",
        HOSTILE_TESTS,
    ),
    Mutant(
        "a consumer that was let go of at once takes itself for attached",
        CLIENT + "consumer/link.py",
        "        if wire.receivers.get(self._id) is not self:\n",
        "        if False:\n",
        FAKE_TESTS,
    ),
    Mutant(
        "a seek holds up whoever waits for a broker",
        CLIENT + "consumer/consumer.py",
        "        self._machine.begin_seek()\n        done,",
        "        self._machine.begin_seek()\n        self._seeking = True\n        done,",
        FAKE_TESTS,
    ),
    Mutant(
        "what a transaction acknowledges times out all the same",
        CLIENT + "consumer/consumer.py",
        "        acks.leave_to_transaction(entry, index, size, cumulative=cumulative)\n",
        "",
        TRANSACTION_TESTS,
    ),
    Mutant(
        "a transaction counts though a part of it could not be done",
        CLIENT + "transactions.py",
        "    State.FAILED: frozenset({State.ABORTING}),\n",
        "    State.FAILED: frozenset({State.ABORTING, State.COMMITTING}),\n",
        TRANSACTION_TESTS,
    ),
    Mutant(
        "a transaction that could not be committed is left to its time",
        CLIENT + "transactions.py",
        "                await self._give_up()\n                raise\n",
        "                raise\n",
        TRANSACTION_TESTS,
    ),
    Mutant(
        "acknowledgements wait for whatever else is due",
        CLIENT + "consumer/consumer.py",
        "self._timer.due > now + self._options.ack_group_s:\n",
        "not self._timer.is_set:\n",
        ("tests/pulsar_frontend/client/testing/test_mechanisms.py",),
    ),
    Mutant(
        "pieces are as large as the broker allows, whatever was asked for",
        CLIENT + "producer/packing.py",
        "        if len(payload) <= min(piece_bytes_max or bytes_max, bytes_max):\n",
        "        if len(payload) <= bytes_max:\n",
        PACKING_TESTS,
    ),
    Mutant(
        "pieces whose last never comes are kept for ever",
        CLIENT + "consumer/link.py",
        "            self._changed()  # pieces of a message,",
        "            pass  #",
        FAKE_TESTS,
    ),
    Mutant(
        "a receipt that comes twice is of the next piece",
        CLIENT + "producer/machine.py",
        "        if head.packed.piece and _place(receipt) in self._pieces_stored:\n",
        "        if False:\n",
        PRODUCER_TESTS,
    ),
    Mutant(
        "pieces of a message that was there wait for receipts of others",
        CLIENT + "producer/machine.py",
        "            if entry >= 0:  # what",
        "            if True:  # what",
        PRODUCER_TESTS,
    ),
    Mutant(
        "the last piece alone comes again",
        CLIENT + "consumer/machine.py",
        "        entries = [piece for each in entries for piece in self.acks.pieces_of(each)]\n",
        "",
        PIECES_TESTS,
    ),
    Mutant(
        "pieces without the others come again at once",
        CLIENT + "consumer/machine.py",
        "                self.acks.put_off(each.entries, now)\n",
        "                self.redeliver(each.entries)\n",
        CONSUMER_TESTS,
    ),
    Mutant(
        "the last piece of the message that one is behind waits for the others",
        CLIENT + "consumer/machine.py",
        "            is_passed = self._begins_behind(each.entries[-1])\n",
        "            is_passed = False\n",
        PIECES_TESTS,
    ),
    Mutant(
        "who begins at a message in pieces misses it",
        CLIENT + "consumer/machine.py",
        "        return start.first_chunk or start if is_wanted else start\n",
        "        return start\n",
        PIECES_TESTS,
    ),
    Mutant(
        "an id acknowledges the first piece of its message and the last",
        CLIENT + "consumer/acknowledging.py",
        "        if pieces := self._pieces.pop(entry, chunks):\n",
        "        if pieces := chunks:\n",
        PIECES_TESTS,
    ),
    Mutant(
        "a transaction acknowledges the last piece alone",
        CLIENT + "consumer/acknowledging.py",
        "            single = self._pieces.get(entry, pieces)[:-1]\n",
        "            single = pieces[:0]\n",
        PIECES_TESTS,
    ),
)
