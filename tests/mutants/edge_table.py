"""The mutant list, continued: mistakes at the edge of one AMQP connection.

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
PROXY_HEADERS: Final = ("tests/core/api/test_proxy_protocol.py",)
AFTER_DISPATCH: Final = ("tests/core/engine/scheduling/test_after_dispatch.py",)

EDGE_MUTANTS: Final = (
    Mutant(
        "a confirm does not wait for the delivery of its message",
        AMQP + "server/connection.py",
        "        if not self._behind_deliveries and (to_anybody or self.consumers.attached):\n",
        "        if False:\n",
        OWN_DELIVERIES,
    ),
    Mutant(
        "who waits for deliveries is never called",
        "core/arneb_core/engine/scheduling/steps.py",
        "                del self._after_dispatch[back]\n                call(back)\n",
        "                del self._after_dispatch[back]\n",
        AFTER_DISPATCH,
    ),
    Mutant(
        "who waits for deliveries waits although nothing is ready",
        "core/arneb_core/engine/scheduling/steps.py",
        "        if self._ready and self.lease.holds:\n"
        "            self._after_dispatch.setdefault(",
        "        if True:\n            self._after_dispatch.setdefault(",
        AFTER_DISPATCH,
    ),
    Mutant(
        "the answer to a commit does not wait for the deliveries it brings about",
        AMQP + "server/operations/effects.py",
        "        await self._connection.deliveries_made()\n",
        "",
        OWN_DELIVERIES,
    ),
    Mutant(
        "a cancel and a consumer that comes overtake deliveries that are ready",
        AMQP + "server/operations/effects.py",
        "    return isinstance(effect, Consume | Cancel)\n",
        "    return False\n",
        EFFECTS,
    ),
    Mutant(
        "a cancel does not wait until what was published before it is in its queue",
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
        "who empties a queue waits for no deliveries but its own",
        AMQP + "server/connection.py",
        "(to_anybody or self.consumers.attached)",
        "self.consumers.attached",
        OWN_DELIVERIES,
    ),
    Mutant(
        "what a transaction brings about is written before its answer",
        AMQP + "server/operations/publishes.py",
        "                        self._context.events.answer_follows()\n",
        "                        pass\n",
        OWN_DELIVERIES,
    ),
    Mutant(
        "a transaction holds whatever comes",
        AMQP + "session/transaction.py",
        "        if wanted > self.most and self.held:\n",
        "        if False:\n",
        TRANSACTION_BYTES,
    ),
    Mutant(
        "a transaction that was dropped with its channel counts for ever",
        AMQP + "session/publish/publisher.py",
        "            self.transaction.end()\n",
        "",
        TRANSACTION_BYTES,
    ),
    Mutant(
        "a transaction forgets the mandatory messages whose queues went",
        AMQP + "session/publish/returns.py",
        "            elif not any(map(self._is_there, queues)):\n",
        "            elif False:\n",
        RETURNS,
    ),
    Mutant(
        "an answer in a transaction comes back twice",
        AMQP + "session/publish/publisher.py",
        "            if item.mandatory and not is_returned and self.transaction is not None:\n",
        "            if item.mandatory and self.transaction is not None:\n",
        RETURNS,
    ),
    Mutant(
        "all that a transaction gives back is written in one turn",
        AMQP + "session/publish/returns.py",
        "                raise Pause\n",
        "                pass\n",
        RETURNS,
    ),
    Mutant(
        "answers in a transaction cost nothing",
        AMQP + "session/consume/deliverer.py",
        "        transaction.expect(len(tags))\n",
        "",
        TRANSACTION_BYTES,
    ),
    Mutant(
        "a handshake is worked at by the event loop",
        "broker/arneb/listening/handshakes.py",
        "await trio.to_thread.run_sync(begun.tls.do_handshake, limiter=self._limiter)",
        "begun.tls.do_handshake()",
        HANDSHAKES,
    ),
    Mutant(
        "all who come shake hands at once",
        "broker/arneb/listening/handshakes.py",
        "(begun.tls.do_handshake, limiter=self._limiter)",
        "(begun.tls.do_handshake)",
        HANDSHAKES,
    ),
    Mutant(
        "what a client says in the same breath as its proxy is lost",
        "core/arneb_core/api/proxy_protocol.py",
        "        wanted = len(seen) if end < 0 else end + 2 - len(line)\n",
        "        wanted = len(seen)\n",
        PROXY_HEADERS,
    ),
    Mutant(
        "who comes by a proxy on this machine is on this machine",
        AMQP + "server/transport/remote.py",
        "        source.address.is_loopback,\n        port=source.port,\n",
        "        port=source.port,\n",
        ("tests/amqp_frontend/server/test_proxied.py",),
    ),
    Mutant(
        "an address of IPv4 inside IPv6 is another one",
        "core/arneb_core/api/ends.py",
        "    return mapped or address\n",
        "    return address\n",
        (
            "tests/core/api/test_ends.py",
            "tests/core/api/test_proxy_protocol.py",
            "tests/pulsar_frontend/server/test_proxied.py",
        ),
    ),
    Mutant(
        "a proxy may go on for ever",
        "core/arneb_core/api/proxy_protocol.py",
        "        if size > BINARY_BYTES_MAX:\n",
        "        if False:\n",
        PROXY_HEADERS,
    ),
)
