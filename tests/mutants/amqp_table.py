"""The mutant list, continued: mistakes at the AMQP door.

The rule: as in :mod:`tests.mutants.table`.
"""

from typing import Final

from tests.mutants.table import Mutant

DEATH_TESTS: Final = ("tests/amqp_frontend/routing/test_death.py",)
PIECES: Final = "amqp_frontend/arneb_amqp/session/publish/pieces.py"
PIECES_TESTS: Final = ("tests/amqp_frontend/session/publish/test_pieces.py",)
READER_TESTS: Final = ("tests/amqp_frontend/wire/test_fast.py",)
LIMITS_TESTS: Final = ("tests/amqp_frontend/topology/queues/test_limits.py",)

PLAIN_STRINGS: Final = "amqp_frontend/arneb_amqp/plain_strings.py"
READ_AHEAD_TESTS: Final = ("tests/amqp_frontend/server/test_read_ahead.py",)
PLAIN_STRINGS_TESTS: Final = ("tests/amqp_frontend/test_plain_strings.py",)

AMQP_MUTANTS: Final = (
    Mutant(
        "of two headers with one name the second counts for Pulsar's consumers",
        PLAIN_STRINGS,
        "if name is None or name in strings:\n",
        "if name is None:\n",
        PLAIN_STRINGS_TESTS,
    ),
    Mutant(
        "a text that is cut off is translated as far as it goes",
        PLAIN_STRINGS,
        "        if at != len(data):  # or",
        "        if at < len(data):  # or",
        PLAIN_STRINGS_TESTS,
    ),
    Mutant(
        "a null of an AMQP publisher is an empty message for Pulsar's consumers",
        "amqp_frontend/arneb_amqp/codec.py",
        "plain_strings(route, listed) if payload else None\n",
        "plain_strings(route, listed)\n",
        ("tests/amqp_frontend/test_plain_strings.py",),
    ),
    Mutant(
        "a fast publisher is read as far as there is memory",
        "amqp_frontend/arneb_amqp/server/read_ahead.py",
        "UNSTORED_BYTES_MAX or self._core.waiting_bytes > WAITING_BYTES_MUCH\n",
        "1 << 40 or self._core.waiting_bytes > WAITING_BYTES_MUCH\n",
        READ_AHEAD_TESTS,
    ),
    Mutant(
        "sixteen floods fill the core's room, and those who send little wait for it, too",
        "amqp_frontend/arneb_amqp/server/read_ahead.py",
        "UNSTORED_BYTES_MAX or self._core.waiting_bytes > WAITING_BYTES_MUCH\n",
        "UNSTORED_BYTES_MAX\n",
        READ_AHEAD_TESTS,
    ),
    Mutant(
        "a client that is not read is taken for dead",
        "amqp_frontend/arneb_amqp/server/connection.py",
        "            if not self._reading.waits_for_client:\n",
        "            if False:\n",
        ("tests/amqp_frontend/server/test_back_pressure.py",),
    ),
    Mutant(
        "an empty message takes a body frame along",
        "amqp_frontend/arneb_amqp/wire/publishes.py",
        "or not 0 < size <= size_max\n",
        "or size > size_max\n",
        ("tests/amqp_frontend/wire/test_assembly.py",),
    ),
    Mutant(
        "a run of several routes takes messages of another delivery mode",
        "amqp_frontend/arneb_amqp/wire/publishes.py",
        "                            or judgement != run_judgement\n",
        "",
        READER_TESTS,
    ),
    Mutant(
        "a message that is cut off is taken for as long as the one before it",
        "amqp_frontend/arneb_amqp/wire/rows.py",
        "        return header_known\n",
        "        return layout.row_bytes - FRAME_START_BYTES\n",
        READER_TESTS,
    ),
    Mutant(
        "a message by another route goes where the one before it went",
        PIECES,
        "route.traffic is not traffic or route.queues != queues",
        "route.traffic is not traffic",
        PIECES_TESTS,
    ),
    Mutant(
        "who may publish by one key may publish by any",
        PIECES,
        "        if not may_write and route.raw not in keyed:\n",
        "        if not may_write and not keyed:\n",
        PIECES_TESTS,
    ),
    Mutant(
        "what stands before a pause is published again behind it",
        "amqp_frontend/arneb_amqp/session/publish/publisher.py",
        "        except (StillSearching, Unsettled):\n"
        "            del run.routes[:done], run.bodies[:done]\n",
        "        except (StillSearching, Unsettled):\n",
        PIECES_TESTS,
    ),
    Mutant(
        "a blocked publish is let through",
        "amqp_frontend/arneb_amqp/session/connection/session.py",
        "        self._items.appendleft(item)\n        self.block()\n",
        "        self.block()\n",
        ("tests/amqp_frontend/session/connection/test_throttle.py",),
    ),
    Mutant(
        "whoever consumes is blocked as well",
        "amqp_frontend/arneb_amqp/session/connection/throttle.py",
        "        self.short = short\n        if short or not self.blocked:\n",
        "        self.short, self.blocked = short, bool(short)\n"
        "        if short or not self.blocked:\n",
        ("tests/amqp_frontend/session/connection/test_throttle.py",),
    ),
    Mutant(
        "a consumer that dies is not counted",
        "amqp_frontend/arneb_amqp/topology/queues/attachments.py",
        "release_all(count=True)",
        "release_all(count=False)",
        LIMITS_TESTS,
    ),
    Mutant(
        "a transient queue gets a dead letter again with every try",
        "core/arneb_core/engine/units.py",
        "            afterwards.append(partial(topic.append_now, entries, messages))\n",
        "            append(topic, entries, messages)\n",
        LIMITS_TESTS,
    ),
    Mutant(
        "headers count for the length of a queue that refuses",
        "amqp_frontend/arneb_amqp/topology/queues/options.py",
        "size_of=None if self.bytes_max is None else payload_bytes",
        "size_of=None if self.bytes_max is None else len",
        LIMITS_TESTS,
    ),
    Mutant(
        "a queue that refuses counts what waiting consumers will take",
        "amqp_frontend/arneb_amqp/topology/overflow.py",
        "        waiting = max(0, ready + len(self.incoming) - room)\n",
        "        waiting = ready + len(self.incoming)\n",
        LIMITS_TESTS,
    ),
    Mutant(
        "a full queue takes dead letters",
        "amqp_frontend/arneb_amqp/topology/overflow.py",
        "        if not overflow.takes(size):\n",
        "        if False:\n",
        LIMITS_TESTS,
    ),
    Mutant(
        "what is on its way into a queue that refuses does not count",
        "amqp_frontend/arneb_amqp/topology/overflow.py",
        "            overflow.let_in(size)\n",
        "            overflow.let_in(0)\n",
        LIMITS_TESTS,
    ),
    Mutant(
        "what lives no time takes room in a queue that refuses",
        "amqp_frontend/arneb_amqp/topology/overflow.py",
        "return bool(ahead) or not lives_no_time(entry, self._bounds.message_ttl_ms)",
        "return True",
        LIMITS_TESTS,
    ),
    Mutant(
        "x-death does not count",
        "amqp_frontend/arneb_amqp/routing/death.py",
        "_COUNT: long(count + 1)}",
        "_COUNT: long(1)}",
        DEATH_TESTS,
    ),
    Mutant(
        "a count that a client sends has no bound",
        "amqp_frontend/arneb_amqp/routing/death.py",
        "min(_number(same[0].get(_COUNT)), COUNT_MAX - 1)",
        "_number(same[0].get(_COUNT))",
        DEATH_TESTS,
    ),
    Mutant(
        "deaths without counts are one",
        "amqp_frontend/arneb_amqp/routing/death.py",
        "{**alike[0], _COUNT: long(len(alike))}",
        "{**alike[0], _COUNT: long(1)}",
        DEATH_TESTS,
    ),
    Mutant(
        "the latest death stands last",
        "amqp_frontend/arneb_amqp/routing/death.py",
        "    deaths = [latest, *others]\n",
        "    deaths = [*others, latest]\n",
        DEATH_TESTS,
    ),
    Mutant(
        "a circle of dead letters is not noticed",
        "amqp_frontend/arneb_amqp/routing/death.py",
        "            if death.get(_QUEUE) == name:\n",
        "            if death.get(_QUEUE) is name:\n",
        DEATH_TESTS,
    ),
    Mutant(
        "who deletes a queue hears of its consumers first",
        "amqp_frontend/arneb_amqp/session/channel/declarer.py",
        "        self._late = []\n",
        "        pass\n",
        ("tests/amqp_frontend/session/consume/test_deliverer.py",),
    ),
    Mutant(
        "what a queue delivered before it went makes room at once",
        "amqp_frontend/arneb_amqp/session/consume/deliverer.py",
        "            self.window.in_flight += count\n",
        "            pass\n",
        ("tests/amqp_frontend/session/consume/test_deliverer.py",),
    ),
    Mutant(
        "what a queue delivered before it went never makes room",
        "amqp_frontend/arneb_amqp/session/consume/deliverer.py",
        "            self.window.in_flight -= freed\n",
        "            pass\n",
        ("tests/amqp_frontend/session/consume/test_deliverer.py",),
    ),
    Mutant(
        "an answer that had to be routed is not returned",
        "amqp_frontend/arneb_amqp/session/publish/publisher.py",
        "        is_returned = item.mandatory and all(map(is_reply_queue, queues))\n",
        "        is_returned = item.mandatory and not queues\n",
        ("tests/amqp_frontend/session/publish/test_publisher.py",),
    ),
    Mutant(
        "the name to answer to outlives its consumer",
        "amqp_frontend/arneb_amqp/routing/reply_to.py",
        "        if tag == self.tag:\n",
        "        if False:\n",
        ("tests/amqp_frontend/session/test_reply_to.py",),
    ),
    Mutant(
        "who knows the name of answers that are over gets the late ones",
        "amqp_frontend/arneb_amqp/server/consumers.py",
        "            if wanted.answers:\n",
        "            if wanted.queue.startswith('amq.rabbitmq.reply-to.'):\n",
        ("tests/amqp_frontend/server/test_everyday.py",),
    ),
    Mutant(
        "answers are never overdue",
        "amqp_frontend/arneb_amqp/session/consume/ack_timeouts.py",
        "        return notes[0][1] + timeout_s <= now\n",
        "        return False\n",
        ("tests/amqp_frontend/session/consume/test_ack_timeouts.py",),
    ),
    Mutant(
        "what a stream's consumer did not ask for fills its window",
        "amqp_frontend/arneb_amqp/session/consume/deliverer.py",
        "                self._context.effects.acknowledge(passed)\n",
        "                pass\n",
        ("tests/amqp_frontend/session/consume/test_stream_reader.py",),
    ),
    Mutant(
        "messages in a stream expire",
        "amqp_frontend/arneb_amqp/topology/queues/queues.py",
        "            if queue is not None and queue.type is not QueueType.STREAM:\n",
        "            if queue is not None:\n",
        ("tests/amqp_frontend/topology/queues/test_streams.py",),
    ),
    Mutant(
        "an offset that has not come begins with the next message",
        "amqp_frontend/arneb_amqp/session/consume/stream_reader.py",
        "            if offset >= wanted.offset_min and self._matches(entry)\n",
        "            if self._matches(entry)\n",
        ("tests/amqp_frontend/session/consume/test_stream_reader.py",),
    ),
    Mutant(
        "a dead letter loses its priority",
        "amqp_frontend/arneb_amqp/topology/dead_letters.py",
        "head_of(raw, priority_and_flags | EntryFlag.DEAD_LETTERED)",
        "head_of(raw, priority_and_flags & 0xFF | EntryFlag.DEAD_LETTERED)",
        ("tests/amqp_frontend/topology/queues/test_limits.py",),
    ),
    Mutant(
        "a dead client keeps what it holds",
        "amqp_frontend/arneb_amqp/server/connection.py",
        '        self._server.nursery.start_soon(contain, "hanging up", self._hang_up)\n',
        "",
        ("tests/amqp_frontend/server/test_endings.py",),
    ),
    Mutant(
        "by TLS one message at a time is read",
        "core/arneb_core/api/tls_records.py",
        "            while piece := read(RECORD_BYTES_MAX):\n",
        "            if piece := read(RECORD_BYTES_MAX):\n",
        ("tests/core/api/test_tls_records.py",),
    ),
    Mutant(
        "what came before the end of TLS is lost",
        "core/arneb_core/api/tls_records.py",
        "            self.ended = True\n        return pieces[0]",
        '            self.ended = True\n            return b""\n        return pieces[0]',
        ("tests/core/api/test_tls_records.py",),
    ),
    Mutant(
        "what a client says in the breath of its handshake is lost",
        "amqp_frontend/arneb_amqp/server/secured_link.py",
        '        said, self._early = self._early, b""\n',
        '        said = self._early = b""\n',
        ("tests/amqp_frontend/server/test_tls.py",),
    ),
    Mutant(
        "by TLS nobody is told of an end",
        "core/arneb_core/api/tls_records.py",
        "            self._tls.unwrap()\n",
        "            pass\n",
        ("tests/core/api/test_tls_records.py",),
    ),
    Mutant(
        "whoever says goodbye is hung up on",
        "amqp_frontend/arneb_amqp/session/connection/lifecycle.py",
        'self.cut("closed by the client", peer_first=True)',
        'self.cut("closed by the client")',
        ("tests/amqp_frontend/session/connection/test_handshake.py",),
    ),
    Mutant(
        "where what is due went once, it goes for ever",
        "amqp_frontend/arneb_amqp/topology/exchanges/delayed.py",
        "            self._routes.clear()\n",
        "            pass\n",
        ("tests/amqp_frontend/topology/exchanges/test_delayed.py",),
    ),
    Mutant(
        "a queue is not routed to while its deletion is under way",
        "amqp_frontend/arneb_amqp/topology/removal.py",
        "    yield unit\n    removed = await _taken(steps)\n",
        "    removed = await _taken(steps)\n    yield unit\n",
        ("tests/amqp_frontend/topology/test_failures.py",),
    ),
    Mutant(
        "a binding that failed takes its source along, and what leads there",
        "amqp_frontend/arneb_amqp/topology/exchanges/exchanges.py",
        "                self._router.take_back(binding)\n",
        "                list(self._router.unbinding(binding))\n",
        ("tests/amqp_frontend/topology/test_failures.py",),
    ),
    Mutant(
        "an exchange that deletes itself is forgotten by the router alone",
        "amqp_frontend/arneb_amqp/routing/removals.py",
        "        going[source.name] = source\n",
        "        continue\n",
        ("tests/amqp_frontend/routing/test_removals.py",),
    ),
    Mutant(
        "carbon copies of what was delayed are forgotten",
        "amqp_frontend/arneb_amqp/routing/checks.py",
        'return not flags & _EXPIRATION and b"CC" not in properties',
        "return not flags & _EXPIRATION",
        ("tests/amqp_frontend/topology/exchanges/test_delayed.py",),
    ),
)
