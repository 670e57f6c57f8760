"""Mutants of what the client library remembers between two events.

The rule: as in :mod:`tests.mutants.table`.
"""

from typing import Final

from tests.mutants.table import Mutant

CLIENT: Final = "pulsar_frontend/arneb_pulsar/client/"
TRACKERS: Final = CLIENT + "trackers/"
TESTS: Final = "tests/pulsar_frontend/client/"
ACK_TESTS: Final = (TESTS + "trackers/test_ack_grouping.py",)
BATCHING_TESTS: Final = (TESTS + "trackers/test_batching.py",)
CHUNK_TESTS: Final = (TESTS + "trackers/test_chunks.py",)
ENCRYPTION_TESTS: Final = (TESTS + "codec/test_encryption.py",)
NACK_TESTS: Final = (TESTS + "trackers/test_negative_acks.py",)
PROGRAM_TESTS: Final = (TESTS + "testing/test_fake_broker.py",)
QUEUE_TESTS: Final = (TESTS + "trackers/test_receiver_queue.py",)
REDELIVERY_TESTS: Final = (TESTS + "trackers/test_redelivery.py",)
ROUTING_TESTS: Final = (TESTS + "trackers/test_routing.py",)
SCHEMA_TESTS: Final = (TESTS + "codec/schemas/test_schemas.py",)
UNACKED_TESTS: Final = (TESTS + "trackers/test_unacked.py",)
WHEEL_TESTS: Final = (TESTS + "trackers/test_timer_wheel.py",)

CLIENT_MUTANTS: Final = (
    Mutant(
        "acknowledgements wait for a second",
        TRACKERS + "ack_grouping.py",
        "GROUP_S: Final = 0.1\n",
        "GROUP_S: Final = 1.0\n",
        ACK_TESTS,
    ),
    Mutant(
        "acknowledgements wait for any number of others",
        TRACKERS + "ack_grouping.py",
        "        return len(self._individual) + len(self._partial) >= self._group_max\n",
        "        return False\n",
        ACK_TESTS,
    ),
    Mutant(
        "with a time of zero an acknowledgement still waits",
        TRACKERS + "ack_grouping.py",
        "        if self._is_immediate:\n            return True\n",
        "",
        ACK_TESTS,
    ),
    Mutant(
        "a batch is acknowledged with the first of its messages",
        TRACKERS + "ack_grouping.py",
        "            if left:\n                self._remember(entry, left)\n"
        "                if not self._batch_index_acks:\n                    if receipt",
        "            if left and self._batch_index_acks:\n"
        "                self._remember(entry, left)\n"
        "                if not self._batch_index_acks:\n                    if receipt",
        ACK_TESTS,
    ),
    Mutant(
        "a cumulative acknowledgement inside a batch takes the whole batch",
        TRACKERS + "ack_grouping.py",
        "                    entry, left = (entry[0], entry[1] - 1), 0\n",
        "                    left = 0\n",
        ACK_TESTS,
    ),
    Mutant(
        "an earlier cumulative acknowledgement replaces a later one",
        TRACKERS + "ack_grouping.py",
        "        is_later = entry > self._cumulative\n",
        "        is_later = entry != self._cumulative\n",
        ACK_TESTS,
    ),
    Mutant(
        "waiting acknowledgements are lost with the connection",
        TRACKERS + "ack_grouping.py",
        "        if not self._is_cumulative_pending:\n            self._cumulative, "
        "self._cumulative_left = NOTHING, 0\n",
        "        self.clear()\n",
        ACK_TESTS,
    ),
    Mutant(
        "after a seek acknowledged messages are not delivered",
        TRACKERS + "ack_grouping.py",
        "        self._batches.clear()\n"
        "        self._cumulative, self._cumulative_left = NOTHING, 0\n",
        "        self._batches.clear()\n",
        ACK_TESTS,
    ),
    Mutant(
        "a consumer that seeks back gets nothing again",
        TRACKERS + "ack_grouping.py",
        "        if not self._is_cumulative_pending:\n            self._cumulative, "
        "self._cumulative_left = NOTHING, 0\n",
        "        pass\n",
        ACK_TESTS,
    ),
    Mutant(
        "receipts come with the first group",
        TRACKERS + "ack_grouping.py",
        "            if entry in self._individual or entry in self._partial:\n",
        "            if False:\n",
        ACK_TESTS,
    ),
    Mutant(
        "incomplete batches are kept forever",
        TRACKERS + "ack_grouping.py",
        "        if len(self._batches) > OPEN_BATCHES_MAX:\n",
        "        if False:\n",
        ACK_TESTS,
    ),
    Mutant(
        "what the broker knows of a batch is forgotten",
        TRACKERS + "ack_grouping.py",
        "        if left != (1 << size) - 1:\n",
        "        if False:\n",
        ACK_TESTS,
    ),
    Mutant(
        "something is due a tick before its time",
        TRACKERS + "timer_wheel.py",
        "        tick = ceil(at / self._tick_s)\n",
        "        tick = int(at / self._tick_s)\n",
        WHEEL_TESTS,
    ),
    Mutant(
        "an entry that is added again is due twice",
        TRACKERS + "timer_wheel.py",
        "            self._slots[known].discard(entry)\n",
        "            pass\n",
        WHEEL_TESTS,
    ),
    Mutant(
        "an early entry behind a later one is overlooked",
        TRACKERS + "timer_wheel.py",
        "not self._ticks or (self._is_sorted and entry >= self._latest)\n",
        "True\n",
        WHEEL_TESTS,
    ),
    Mutant(
        "a negative acknowledgement has no delay by default",
        TRACKERS + "negative_acks.py",
        "DELAY_S: Final = 60.0\n",
        "DELAY_S: Final = 1.0\n",
        NACK_TESTS,
    ),
    Mutant(
        "negative acknowledgements are not merged",
        TRACKERS + "negative_acks.py",
        "PRECISION_BITS: Final = 8\n",
        "PRECISION_BITS: Final = 0\n",
        NACK_TESTS,
    ),
    Mutant(
        "the number of negative acknowledgements is not bounded",
        TRACKERS + "negative_acks.py",
        "        if len(self._wheel) >= self._entries_max:\n",
        "        if False:\n",
        NACK_TESTS,
    ),
    Mutant(
        "every negative acknowledgement beyond the bound is logged",
        TRACKERS + "negative_acks.py",
        "            self._has_warned = True\n",
        "",
        NACK_TESTS,
    ),
    Mutant(
        "a message that is returned often is redelivered as soon as the first time",
        TRACKERS + "negative_acks.py",
        "self._backoff.delay_s(redelivery_count)",
        "self._backoff.delay_s(0)",
        NACK_TESTS,
    ),
    Mutant(
        "the delay grows without bound",
        TRACKERS + "redelivery.py",
        "max(redelivery_count, 0), self.max_s)",
        "max(redelivery_count, 0), self.max_s * 9)",
        REDELIVERY_TESTS,
    ),
    Mutant(
        "an Exclusive consumer asks for one entry",
        TRACKERS + "redelivery.py",
        "    if subscription_type not in REDELIVERED_SINGLY:\n        yield []\n        return\n",
        "",
        REDELIVERY_TESTS,
    ),
    Mutant(
        "one request asks for everything",
        TRACKERS + "redelivery.py",
        "REDELIVERED_IDS_MAX: Final = 1_000\n",
        "REDELIVERED_IDS_MAX: Final = 1_000_000\n",
        REDELIVERY_TESTS,
    ),
    Mutant(
        "the ack timeout ends a tick too early",
        TRACKERS + "unacked.py",
        "        self._wheel.put(entry, now + timeout_s)\n",
        "        self._wheel.put(entry, now + timeout_s - self._tick_s)\n",
        UNACKED_TESTS,
    ),
    Mutant(
        "cumulatively acknowledged messages time out",
        TRACKERS + "unacked.py",
        "        return self._wheel.discard_up_to(entry)\n",
        "        return 0\n",
        UNACKED_TESTS,
    ),
    Mutant(
        "a tick is longer than the timeout",
        TRACKERS + "unacked.py",
        "        self._tick_s = min(tick_s, ack_timeout_s)\n",
        "        self._tick_s = tick_s\n",
        UNACKED_TESTS,
    ),
    Mutant(
        "permits are given one by one",
        TRACKERS + "receiver_queue.py",
        "        if given < max(self._target // 2, 1):\n",
        "        if given < 1:\n",
        QUEUE_TESTS,
    ),
    Mutant(
        "permits are given when the queue is empty",
        TRACKERS + "receiver_queue.py",
        "        if given < max(self._target // 2, 1):\n",
        "        if given < max(self._target, 1):\n",
        QUEUE_TESTS,
    ),
    Mutant(
        "discarded messages lose their permits forever",
        TRACKERS + "receiver_queue.py",
        'are parts of a larger one."""\n        self.earned += count\n',
        'are parts of a larger one."""\n',
        QUEUE_TESTS,
    ),
    Mutant(
        "a new broker is given the permits owed to the old one",
        TRACKERS + "receiver_queue.py",
        "        self.earned = self._target - len(self._messages)\n",
        "        self.earned += self._target - len(self._messages)\n",
        QUEUE_TESTS,
    ),
    Mutant(
        "a queue of size 0 requests with every check",
        TRACKERS + "receiver_queue.py",
        "            given = given + 1 if self._is_waiting and not self._messages else 0\n",
        "            given = 1\n",
        QUEUE_TESTS,
    ),
    Mutant(
        "a paused queue asks for more",
        TRACKERS + "receiver_queue.py",
        "        if self._is_paused:\n",
        "        if False:\n",
        QUEUE_TESTS,
    ),
    Mutant(
        "an automatic queue grows while the application is slow",
        TRACKERS + "receiver_queue.py",
        "        self._is_waiting = False\n        self._was_full",
        "        self._is_waiting = False\n        self._grow()\n        self._was_full",
        QUEUE_TESTS,
    ),
    Mutant(
        "messages that will never be complete are kept",
        TRACKERS + "chunks.py",
        "        if len(self._pending) >= self._pending_max:\n",
        "        if False:\n",
        CHUNK_TESTS,
    ),
    Mutant(
        "a message with a missing chunk is assembled",
        TRACKERS + "chunks.py",
        "        elif index > len(pending.entries):\n",
        "        elif False:\n",
        CHUNK_TESTS,
    ),
    Mutant(
        "a chunk that arrives again is counted twice",
        TRACKERS + "chunks.py",
        "        elif index < len(pending.entries):\n",
        "        elif False:\n",
        CHUNK_TESTS,
    ),
    Mutant(
        "chunks wait forever",
        TRACKERS + "chunks.py",
        "            self._give_up(uuid, Reason.EXPIRED)\n",
        "            pass\n",
        CHUNK_TESTS,
    ),
    Mutant(
        "chunks without a beginning are requested again forever",
        TRACKERS + "chunks.py",
        "        is_late = self._is_late(self._since(entry, now), now)\n        self._give_up(uuid",
        "        is_late = False\n        self._give_up(uuid",
        CHUNK_TESTS,
    ),
    Mutant(
        "chunks that arrive again get their whole time again",
        TRACKERS + "chunks.py",
        "        return noted.setdefault(entry, now)\n",
        "        return now\n",
        CHUNK_TESTS,
    ),
    Mutant(
        "chunks of other consumers fill the records forever",
        TRACKERS + "chunks.py",
        "            if not self._is_late(noted[first] + self._expire_s, now):\n",
        "            if True:\n",
        CHUNK_TESTS,
    ),
    Mutant(
        "a message may be as large as its producer says",
        TRACKERS + "chunks.py",
        "not 0 <= total_bytes <= self._message_bytes_max",
        "total_bytes < 0",
        CHUNK_TESTS,
    ),
    Mutant(
        "messages without a key join the first key's batch",
        TRACKERS + "batching.py",
        "        batch = self._batches.get(message.order)\n",
        "        batch = self._batches.get(message.order or next(iter(self._batches), None))\n",
        BATCHING_TESTS,
    ),
    Mutant(
        "a batch waits from its last message",
        TRACKERS + "batching.py",
        "        if self._since is None:\n            self._since = now\n",
        "        self._since = now\n",
        BATCHING_TESTS,
    ),
    Mutant(
        "a batch has no bound in bytes",
        TRACKERS + "batching.py",
        " or self._bytes >= self._bytes_max\n",
        "\n",
        BATCHING_TESTS,
    ),
    Mutant(
        "a hash keeps its sign",
        TRACKERS + "routing.py",
        "    return murmur3(key, 0) & POSITIVE\n",
        "    return murmur3(key, 0)\n",
        ROUTING_TESTS,
    ),
    Mutant(
        "a character outside the first plane is one unit",
        TRACKERS + "routing.py",
        'iter_unpack(">H", text.encode("utf-16-be", "surrogatepass"))',
        'iter_unpack(">I", text.encode("utf-32-be", "surrogatepass"))',
        ROUTING_TESTS,
    ),
    Mutant(
        "with batching each message goes to another partition",
        TRACKERS + "routing.py",
        "        if self._batch_s > 0:\n",
        "        if False:\n",
        ROUTING_TESTS,
    ),
    Mutant(
        "a data key is used forever",
        CLIENT + "codec/encryption.py",
        "        elif now - self._since >= DATA_KEY_S:\n",
        "        elif False:\n",
        ENCRYPTION_TESTS,
    ),
    Mutant(
        "a nonce is used twice",
        CLIENT + "codec/encryption.py",
        "        nonce = self._random_bytes(NONCE_BYTES)\n",
        "        nonce = bytes(NONCE_BYTES)\n",
        ENCRYPTION_TESTS,
    ),
    Mutant(
        "only the owner of the first key can read a message",
        CLIENT + "codec/encryption.py",
        "            except CryptoError as error:\n                causes.append(str(error))\n",
        "            except CryptoError:\n                raise\n",
        ENCRYPTION_TESTS,
    ),
    Mutant(
        "data is read by the reader's schema instead of the writer's",
        CLIENT + "codec/schemas/avro_schema.py",
        "self._parsed if writer is None else _writer(writer.data, self.info.name)\n",
        "self._parsed\n",
        SCHEMA_TESTS,
    ),
    Mutant(
        "bytes after a value are ignored",
        CLIENT + "codec/schemas/avro_schema.py",
        "    if source.read(1):\n",
        "    if False:\n",
        SCHEMA_TESTS,
    ),
    Mutant(
        "what a broker sent before everything was requested loses its permit forever",
        CLIENT + "consumer/machine.py",
        "            self._skip(permits_of(command, body))\n",
        "",
        PROGRAM_TESTS,
    ),
)
