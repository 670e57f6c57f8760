"""Mutants of observers, and of what is published about the broker.

The rule: as in :mod:`tests.mutants.table`.
"""

from typing import Final

from tests.mutants.table import Mutant

AMQP: Final = "amqp_frontend/arneb_amqp/"
TRACING_TESTS: Final = ("tests/amqp_frontend/server/test_tracing.py",)

PULSAR_TRACES: Final = ("tests/broker/monitoring/test_pulsar_traces.py",)

EVENT_TESTS: Final = ("tests/amqp_frontend/server/test_event_exchange.py",)

TRACING_MUTANTS: Final = (
    Mutant(
        "traced copies are traced",
        AMQP + "topology/tracing.py",
        "        if exchange == TRACE:\n            return\n",
        "",
        TRACING_TESTS,
    ),
    Mutant(
        "a copy is nested deeper than can be read again",
        AMQP + "wire/properties.py",
        ", deeper=COPY_DEPTH)",
        ")",
        TRACING_TESTS,
    ),
    Mutant(
        "unroutable messages are not traced",
        AMQP + "session/publish/publisher.py",
        "        elif self._vhost.is_traced and entries[0]:\n",
        "        elif False:\n",
        TRACING_TESTS,
    ),
    Mutant(
        "tracing cannot be switched off",
        AMQP + "topology/topology.py",
        "self.firehose = None if node is None else Tracing(self.name, self.notices, node)",
        'self.firehose = Tracing(self.name, self.notices, node or "")',
        TRACING_TESTS,
    ),
    Mutant(
        "a consumer is traced on another channel",
        AMQP + "session/consume/deliverer.py",
        "exclusive, arguments, windows, self.channel, answers",
        "exclusive, arguments, windows, 0, answers",
        TRACING_TESTS,
    ),
    Mutant(
        "events are made though nobody is bound",
        AMQP + "topology/broker_events.py",
        "        return self._teller is not None and self._teller.has_takers(EVENT)\n",
        "        return self._teller is not None\n",
        EVENT_TESTS,
    ),
    Mutant(
        "events contain the passwords of URIs",
        AMQP + "topology/catalogue_events.py",
        '            return _SECRET.sub("", value)\n',
        "            return value\n",
        EVENT_TESTS,
    ),
    Mutant(
        "the deletion of bindings with a queue is attributed to a user",
        AMQP + "topology/broker_events.py",
        "            user = BY_ITSELF if with_queue else acting_user()\n",
        "            user = acting_user()\n",
        EVENT_TESTS,
    ),
    Mutant(
        "an existing binding is published again",
        AMQP + "topology/exchanges/exchanges.py",
        "        if not self._router.bind(binding):\n            return\n",
        "        if not self._router.bind(binding):\n"
        "            return self._events.bound(self.vhost, binding)\n",
        EVENT_TESTS,
    ),
    Mutant(
        "a span begins its own trace",
        "broker/arneb/monitoring/traces.py",
        "            _PROPAGATOR.extract({PARENT: parent[0], STATE: parent[1]}),\n",
        "            None,\n",
        ("tests/broker/monitoring/test_traces.py",),
    ),
    Mutant(
        "the latest observer is the only one",
        AMQP + "topology/topology.py",
        "        self.tracing = Several(wanted) if len(wanted) > 1 else next(iter(wanted), None)\n",
        "        self.tracing = next(iter(wanted[-1:]), None)\n",
        ("tests/broker/monitoring/test_traces.py",),
    ),
    Mutant(
        "the delivered part of a batch is traced again",
        "broker/arneb/monitoring/pulsar_traces.py",
        "                if message[0] < 0 or mask >> message[0] & 1:\n",
        "                if True:\n",
        PULSAR_TRACES,
    ),
    Mutant(
        "an unreadable message ends the producer's connection",
        "broker/arneb/monitoring/pulsar_traces.py",
        "    except ValueError:\n        return",
        "    except KeyError:\n        return",
        PULSAR_TRACES,
    ),
    Mutant(
        "nobody observes Pulsar's deliveries",
        "pulsar_frontend/arneb_pulsar/server/attachments.py",
        "            sink = ObservedSink(sink, observer, self._connection, *of)\n",
        "            of = of[:1] + of[1:]\n",
        PULSAR_TRACES,
    ),
    Mutant(
        "a trace names a Pulsar message as the store's first topic would",
        "pulsar_frontend/arneb_pulsar/server/attachments.py",
        "            of = topic.name, subscription.name, LedgerIds(topic.id)\n",
        "            of = topic.name, subscription.name, LedgerIds()\n",
        PULSAR_TRACES,
    ),
)
