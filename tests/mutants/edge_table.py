"""Mutants of the edge of a single AMQP connection.

The rule: as in :mod:`tests.mutants.table`.
"""

from typing import Final

from tests.mutants.table import Mutant

AMQP: Final = "amqp_frontend/arneb_amqp/"
OWN_DELIVERIES: Final = ("tests/amqp_frontend/server/test_own_deliveries.py",)
EFFECTS: Final = ("tests/amqp_frontend/server/operations/test_effects.py",)
RETURNS: Final = ("tests/amqp_frontend/session/publish/test_returns.py",)
TRANSACTION_BYTES: Final = ("tests/amqp_frontend/session/test_transaction.py",)
HANDSHAKES: Final = ("tests/broker/listening/test_handshakes.py",)
PROXY_HEADERS: Final = ("tests/core/api/connections/test_proxy_protocol.py",)
AFTER_DISPATCH: Final = ("tests/core/engine/scheduling/test_after_dispatch.py",)

EDGE_MUTANTS: Final = (
    Mutant(
        "a confirm does not wait for the delivery of its message",
        AMQP + "server/connection.py",
        "        if not self._awaits_deliveries and (to_anybody or self.consumers.attached):\n",
        "        if False:\n",
        OWN_DELIVERIES,
    ),
    Mutant(
        "a client that waits for deliveries is never called",
        "core/arneb_core/engine/scheduling/steps.py",
        "                del self._after_dispatch[back]\n                call(back)\n",
        "                del self._after_dispatch[back]\n",
        AFTER_DISPATCH,
    ),
    Mutant(
        "a client waits for deliveries though nothing is ready",
        "core/arneb_core/engine/scheduling/steps.py",
        "        if self._ready and self.lease.holds:\n"
        "            self._after_dispatch.setdefault(",
        "        if True:\n            self._after_dispatch.setdefault(",
        AFTER_DISPATCH,
    ),
    Mutant(
        "the answer to a commit does not wait for the deliveries it causes",
        AMQP + "server/operations/effects.py",
        "        await self._connection.deliveries_made()\n",
        "",
        OWN_DELIVERIES,
    ),
    Mutant(
        "a cancel and a new consumer overtake ready deliveries",
        AMQP + "server/operations/effects.py",
        "    return isinstance(effect, Consume | Cancel)\n",
        "    return False\n",
        EFFECTS,
    ),
    Mutant(
        "a cancel does not wait until earlier publishes are in its queue",
        AMQP + "server/operations/effects.py",
        "(Perform, Get, Consume, Cancel, Leave, EndConnection)",
        "(Perform, Get, Consume, Leave, EndConnection)",
        OWN_DELIVERIES,
    ),
    Mutant(
        "a purge takes what is about to be delivered",
        AMQP + "server/operations/effects.py",
        "        return isinstance(effect.command, Queue.Purge | Queue.Delete)\n",
        "        return False\n",
        EFFECTS,
    ),
    Mutant(
        "a purge waits only for its own connection's deliveries",
        AMQP + "server/connection.py",
        "(to_anybody or self.consumers.attached)",
        "self.consumers.attached",
        OWN_DELIVERIES,
    ),
    Mutant(
        "the deliveries of a transaction are written before its answer",
        AMQP + "server/operations/publishes.py",
        "                        self._context.core_events.answer_follows()\n",
        "                        pass\n",
        OWN_DELIVERIES,
    ),
    Mutant(
        "a transaction is not bounded",
        AMQP + "session/transaction.py",
        "        if wanted > self.most and self.held:\n",
        "        if False:\n",
        TRANSACTION_BYTES,
    ),
    Mutant(
        "a transaction that was dropped with its channel counts forever",
        AMQP + "session/publish/publisher.py",
        "            self.transaction.end()\n",
        "",
        TRANSACTION_BYTES,
    ),
    Mutant(
        "a transaction forgets mandatory messages whose queues were deleted",
        AMQP + "session/publish/returns.py",
        "            elif not any(map(self._is_there, queues)):\n",
        "            elif False:\n",
        RETURNS,
    ),
    Mutant(
        "a reply in a transaction is returned twice",
        AMQP + "session/publish/publisher.py",
        "            if item.mandatory and not goes_back and self.transaction is not None:\n",
        "            if item.mandatory and self.transaction is not None:\n",
        RETURNS,
    ),
    Mutant(
        "mandatory messages in a run are published as if they were not",
        AMQP + "session/publish/publisher.py",
        "        if needs_inspection(run, route, queues, in",
        "        if not run.mandatory and needs_inspection(run, route, queues, in",
        RETURNS,
    ),
    Mutant(
        "mandatory messages with several keys are forgotten by a transaction",
        AMQP + "session/publish/publisher.py",
        "                if run.mandatory and self.transaction is not None\n",
        "                if False\n",
        RETURNS,
    ),
    Mutant(
        "a mandatory reply with other keys around it is not returned",
        AMQP + "session/publish/pieces.py",
        "                or (run.mandatory and is_returned(route.queues))\n",
        "",
        ("tests/amqp_frontend/session/publish/test_pieces.py",),
    ),
    Mutant(
        "messages without a queue are returned in one turn, however many",
        AMQP + "session/publish/publisher.py",
        "            if at and self._context.work_left <= 0:\n"
        "                raise Pause(replace(run, bodies=run.bodies[at:]))\n",
        "",
        ("tests/amqp_frontend/session/publish/test_publisher.py",),
    ),
    Mutant(
        "mandatory publishes join a run that is not",
        AMQP + "wire/publishes.py",
        "                            or known.mandatory != run_mandatory\n",
        "",
        ("tests/amqp_frontend/wire/test_fast.py",),
    ),
    Mutant(
        "messages of a run have the expiration of its first one",
        AMQP + "wire/property_judge.py",
        "            return judgement | _lifetime(data[begin:end]) if begin else judgement\n"
        "        found",
        "            return judgement | 11 << _LIFETIME_SHIFT if begin else judgement\n"
        "        found",
        ("tests/amqp_frontend/wire/test_property_judge.py",),
    ),
    Mutant(
        "messages with another expiration join a run",
        AMQP + "wire/publishes.py",
        "        and last.expiration_ms == expiration_ms\n",
        "",
        ("tests/amqp_frontend/wire/test_fast.py",),
    ),
    Mutant(
        "messages with another priority join a run",
        AMQP + "wire/publishes.py",
        "        and last.priority == priority\n",
        "",
        ("tests/amqp_frontend/wire/test_fast.py",),
    ),
    Mutant(
        "an expiration with a sign is taken for a number",
        AMQP + "wire/property_judge.py",
        "    if text.isdigit() and ",
        "    if text.lstrip(b'+-').isdigit() and ",
        ("tests/amqp_frontend/wire/test_property_judge.py",),
    ),
    Mutant(
        "an expiration of a run is forgotten where routes differ",
        AMQP + "session/publish/pieces.py",
        "    expires = _expires_at_ms(run, now_ms)\n",
        "    expires = 0\n",
        ("tests/amqp_frontend/session/publish/test_pieces.py",),
    ),
    Mutant(
        "a priority of a run is forgotten where one route is used",
        AMQP + "session/publish/pieces.py",
        "        priority=run.priority,\n    )",
        "    )",
        ("tests/amqp_frontend/session/publish/test_pieces.py",),
    ),
    Mutant(
        "a queue does not learn that messages of a run expire",
        AMQP + "session/publish/publisher.py",
        "        self._put(queues, entries, expiring=run.expiration_ms is not None)\n",
        "        self._put(queues, entries)\n",
        ("tests/amqp_frontend/session/publish/test_pieces.py",),
    ),
    Mutant(
        "a queue does not learn that messages with several keys expire",
        AMQP + "session/publish/publisher.py",
        "entries[:count], expiring=run.expiration_ms is not None)",
        "entries[:count])",
        ("tests/amqp_frontend/session/publish/test_pieces.py",),
    ),
    Mutant(
        "an exchange that reads headers forgets that messages expire",
        AMQP + "session/publish/pieces.py",
        "        run.mandatory or run.priority > 0 or run.expiration_ms is not None\n",
        "        run.mandatory or run.priority > 0\n",
        ("tests/amqp_frontend/session/publish/test_pieces.py",),
    ),
    Mutant(
        "a direct reply-to is taken for a queue's name",
        AMQP + "wire/property_judge.py",
        "                elif data[at : at + 1 + len(_DIRECT)] != _DIRECT:\n",
        "                else:\n",
        ("tests/amqp_frontend/wire/test_property_judge.py",),
    ),
    Mutant(
        "a queue's name as long as the direct reply-to's is any text",
        AMQP + "wire/property_judge.py",
        "                    if data[at] != len(DIRECT_REPLY_TO):\n",
        "                    if True:\n",
        ("tests/amqp_frontend/wire/test_property_judge.py",),
    ),
    Mutant(
        "a priority is forgotten after one of 0",
        AMQP + "wire/property_judge.py",
        "                if not priority:\n                    flags &= ~_PRIORITY\n",
        "                if not priority:\n                    flags &= ~_PRIORITY\n"
        "                free += (at, end)\n",
        ("tests/amqp_frontend/wire/test_property_judge.py",),
    ),
    Mutant(
        "everything that a transaction returns is written in one turn",
        AMQP + "session/publish/returns.py",
        "                raise Pause\n",
        "                pass\n",
        RETURNS,
    ),
    Mutant(
        "acknowledgements in a transaction do not count",
        AMQP + "session/consume/answers.py",
        "        transaction.expect(len(tags))\n",
        "",
        TRANSACTION_BYTES,
    ),
    Mutant(
        "the event loop does a handshake's work",
        "broker/arneb/listening/handshakes.py",
        "await trio.to_thread.run_sync(begun.tls.do_handshake, limiter=self._limiter)",
        "begun.tls.do_handshake()",
        HANDSHAKES,
    ),
    Mutant(
        "all new clients shake hands at once",
        "broker/arneb/listening/handshakes.py",
        "(begun.tls.do_handshake, limiter=self._limiter)",
        "(begun.tls.do_handshake)",
        HANDSHAKES,
    ),
    Mutant(
        "data that a client sends together with its proxy's header is lost",
        "core/arneb_core/api/connections/proxy_protocol.py",
        "        wanted = len(seen) if end < 0 else end + 2 - len(line)\n",
        "        wanted = len(seen)\n",
        PROXY_HEADERS,
    ),
    Mutant(
        "a client of a local proxy counts as local",
        AMQP + "server/transport/remote.py",
        "        source.address.is_loopback,\n        port=source.port,\n",
        "        port=source.port,\n",
        ("tests/amqp_frontend/server/test_proxied.py",),
    ),
    Mutant(
        "an IPv4 address inside IPv6 is a different one",
        "core/arneb_core/api/connections/endpoints.py",
        "    return mapped or address\n",
        "    return address\n",
        (
            "tests/core/api/connections/test_endpoints.py",
            "tests/core/api/connections/test_proxy_protocol.py",
            "tests/pulsar_frontend/server/test_proxied.py",
        ),
    ),
    Mutant(
        "a proxy header may be endless",
        "core/arneb_core/api/connections/proxy_protocol.py",
        "        if size > BINARY_BYTES_MAX:\n",
        "        if False:\n",
        PROXY_HEADERS,
    ),
)
