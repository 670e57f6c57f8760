"""Mutants of traffic: who is told of appends, what is counted, and what Prometheus and the
management API show of it."""

from typing import Final

from tests.mutants.table import CORE, Mutant

WORK_TESTS: Final = ("tests/core/engine/group_commit/test_work_of_a_commit.py",)
SLOWEST_TESTS: Final = ("tests/core/engine/trimming/test_slowest_subscription.py",)
LAST_LEDGER: Final = ("tests/core/engine/trimming/test_last_ledger.py",)
AMQP: Final = "amqp_frontend/arneb_amqp/"
HTTP: Final = "broker/arneb/http/"

TRAFFIC: Final = ("tests/amqp_frontend/session/test_traffic.py",)
METRICS: Final = ("tests/broker/metrics/test_rabbitmq.py",)
RATES: Final = ("tests/broker/http/management/figures/test_rates.py",)
TEXTS: Final = ("tests/broker/http/management/topology/test_queue_texts.py",)

TRAFFIC_MUTANTS: Final = (
    Mutant(
        "a refused confirm counts as one",
        AMQP + "session/publish/confirms.py",
        "        if stored:\n            self.confirmed += count\n",
        "        self.confirmed += count\n",
        TRAFFIC,
    ),
    Mutant(
        "returned messages count as acknowledged",
        AMQP + "session/consume/answers.py",
        "        return answered - self._given_back - pending\n",
        "        return answered - pending\n",
        TRAFFIC,
    ),
    Mutant(
        "acknowledgements in a transaction count before it is committed",
        AMQP + "session/consume/answers.py",
        "        return answered - self._given_back - pending\n",
        "        return answered - self._given_back\n",
        TRAFFIC,
    ),
    Mutant(
        "unroutable messages are not counted",
        AMQP + "session/publish/publisher.py",
        "        self._traffic.dropped += count\n",
        "",
        TRAFFIC,
    ),
    Mutant(
        "a deleted exchange takes its counts with it",
        AMQP + "traffic.py",
        "        self.gone.add(self.exchanges.pop(exchange))\n",
        "        self.exchanges.pop(exchange)\n",
        (*TRAFFIC, *METRICS),
    ),
    Mutant(
        "a deleted vhost takes its counts with it",
        AMQP + "topology/topology.py",
        "                self._gone.add(VhostTraffic() if gone is None else gone.router.traffic)\n",
        "                self._gone.add(VhostTraffic())\n",
        METRICS,
    ),
    Mutant(
        "a deleted queue takes its count of dead letters with it",
        AMQP + "topology/queues/queue.py",
        "            traffic.departed[self.type.value, reason, fate] += count\n",
        "            pass\n",
        METRICS,
    ),
    Mutant(
        "dead letters that are kept count as those that may be lost",
        CORE + "subscription/departures/dead_lettering.py",
        "if self._state.limits.departing_max is None else Fate.KEPT\n",
        "if True else Fate.KEPT\n",
        METRICS,
    ),
    Mutant(
        "a message that is got counts only for its queue",
        AMQP + "server/operations/consumers.py",
        "    for each in (traffic, traffic.whole):\n",
        "    for each in (traffic,):\n",
        METRICS,
    ),
    Mutant(
        "series appear when something has happened",
        HTTP + "metrics/node_page.py",
        "            TYPES[each]: self._traffic.by_type.get(each.value, Consumed()) for each in"
        " QueueType\n",
        "            TYPES[each]: self._traffic.by_type[each.value]\n"
        "            for each in QueueType\n"
        "            if each.value in self._traffic.by_type\n",
        METRICS,
    ),
    Mutant(
        "a page of objects also has their sums",
        HTTP + "metrics/pages.py",
        "            tuple(each for each in summed if each[0] not in without),\n",
        "            tuple(summed),\n",
        METRICS,
    ),
    Mutant(
        "a page of very many objects is one turn",
        HTTP + "metrics/pages.py",
        "            if number % ROWS_PER_TURN == 0:\n",
        "            if number % 1_000_000 == 0:\n",
        METRICS,
    ),
    Mutant(
        "an unchanged value is a sample of its own",
        HTTP + "management/figures/samples.py",
        "        if last.counters == counters:\n",
        "        if False:\n",
        RATES,
    ),
    Mutant(
        "a queue's cached text is shown though the queue has changed",
        HTTP + "management/topology/queue_texts.py",
        "    if kept is not None and kept.seen == seen:\n",
        "    if kept is not None:\n",
        TEXTS,
    ),
    Mutant(
        "a queue's cached text is shown though its rates are not 0 yet",
        HTTP + "management/figures/samples.py",
        "        return numbers == self._last and self._rests(now)\n",
        "        return numbers == self._last\n",
        (*RATES, *TEXTS),
    ),
    Mutant(
        "a queue's cached text does not count",
        HTTP + "management/figures/samples.py",
        "        self.bytes += (0 if kept is None",
        "        self.bytes += 0 and (0 if kept is None",
        RATES,
    ),
    Mutant(
        "the budget of samples is not enforced",
        HTTP + "management/figures/rates.py",
        "        if self.bytes > self._bytes_max:\n",
        "        if self.bytes < 0:\n",
        RATES,
    ),
    Mutant(
        "a budget that is too small is ignored",
        HTTP + "management/figures/rates.py",
        "        while self.bytes > wanted and len(self._histories) > 1:\n",
        "        while False:\n",
        RATES,
    ),
    Mutant(
        "deliveries of a deleted subscription are subtracted, and a topic's rate is negative",
        "core/arneb_core/engine/topics/topic.py",
        "            self.departed_messages_total += subscription.delivered_messages_total\n",
        "",
        ("tests/broker/metrics/test_pulsar.py",),
    ),
    Mutant(
        "deliveries of a deleted subscription are forgotten with it",
        "pulsar_frontend/arneb_pulsar/services/clients/consumers.py",
        "            self._departed_bytes[topic.id] = departed + left.pop(name).bytes\n",
        "            self._departed_bytes[topic.id] = departed + 0 * left.pop(name).bytes\n",
        ("tests/pulsar_frontend/services/limits/test_rates.py",),
    ),
    Mutant(
        "a value that can fall is exported as a counter",
        "broker/arneb/metrics/text.py",
        'self.name.endswith("_total") and not self.falls else',
        'self.name.endswith("_total") else',
        ("tests/broker/metrics/test_pulsar.py",),
    ),
    Mutant(
        "a Pulsar rate is recomputed at once",
        "broker/arneb/metrics/pulsar.py",
        "        if before is not None and now - before.at_s < RATE_S_MIN:\n",
        "        if before is None:\n",
        ("tests/broker/metrics/test_pulsar.py",),
    ),
    Mutant(
        "Pulsar's metrics contain the broker's internal topics",
        "broker/arneb/metrics/pulsar.py",
        "            if topic is not None and not topic.fenced and name.startswith(SCHEMES):\n",
        "            if topic is not None and not topic.fenced:\n",
        ("tests/broker/metrics/test_pulsar.py",),
    ),
    Mutant(
        "a subscription with departures is not told of appends",
        CORE + "subscription/state/state.py",
        "        return bool(self.consumers or self.may_depart or self.byte_counter)\n",
        "        return bool(self.consumers)\n",
        WORK_TESTS,
    ),
    Mutant(
        "a consumer of one of many subscriptions is not told of appends",
        CORE + "engine/subscriptions/subscription.py",
        "        self.topic.listening.begins(self)\n        self.unused = False\n",
        "        self.unused = False\n",
        WORK_TESTS,
    ),
    Mutant(
        "every subscription makes each append dearer, whoever uses it",
        CORE + "engine/subscriptions/listening.py",
        "        if self._log.has_expiring:\n",
        "        if True:\n",
        WORK_TESTS,
    ),
    Mutant(
        "a consumer that has left is asked once more whether an append concerns it",
        CORE + "engine/subscriptions/subscription.py",
        "        self.topic.listening.may_end(self)\n",
        "",
        WORK_TESTS,
    ),
    Mutant(
        "a consumer that has left is not told of appends, though something has to depart",
        CORE + "engine/subscriptions/listening.py",
        "        if not subscription.machine.state.listens:\n",
        "        if True:\n",
        WORK_TESTS,
    ),
    Mutant(
        "every subscription is visited for each commit of a cursor",
        CORE + "engine/trimming/slowest_subscription.py",
        "            if len(self._subscriptions) > ASKED_ALL_MAX:\n",
        "            if False:\n",
        WORK_TESTS,
    ),
    Mutant(
        "all subscriptions are visited before it is known that something may be trimmed",
        CORE + "engine/trimming/trimming.py",
        "        if through is not None:  # only now are all subscriptions worth asking\n",
        "        if True:\n",
        WORK_TESTS,
    ),
    Mutant(
        "a subscription that has moved on still counts as the slowest",
        CORE + "engine/trimming/slowest_subscription.py",
        "            elif (mark := first.mark_delete) > before:\n",
        "            elif (mark := before) > before:\n",
        SLOWEST_TESTS,
    ),
    Mutant(
        "subscriptions after the first few are not among the slowest",
        CORE + "engine/trimming/slowest_subscription.py",
        "            heappush(self._heap, self._entry(subscription))\n",
        "            pass\n",
        SLOWEST_TESTS,
    ),
    Mutant(
        "a deleted subscription is the slowest forever",
        CORE + "engine/trimming/slowest_subscription.py",
        "            if self._subscriptions.get(first.name) is not first:\n",
        "            if False:\n",
        SLOWEST_TESTS,
    ),
    Mutant(
        "all subscriptions that ever existed are remembered",
        CORE + "engine/trimming/slowest_subscription.py",
        "            self._put_in_order()\n\n    @property\n",
        "            pass\n\n    @property\n",
        SLOWEST_TESTS,
    ),
    Mutant(
        "a topic does not report that a subscription was deleted",
        CORE + "engine/topics/topic.py",
        "            self.trimming.goes()\n",
        "            pass\n",
        WORK_TESTS,
    ),
    Mutant(
        "ledgers are trimmed though a subscription was moved back into them",
        CORE + "engine/trimming/trimming.py",
        "            through = self._through(self._slowest, retention, now_ms, ends=ends)\n",
        "            pass\n",
        LAST_LEDGER,
    ),
    Mutant(
        "the last ledger ends though a subscription was moved back into it",
        CORE + "engine/trimming/trimming.py",
        "        return self._ends(slowest, retention, now_ms, at_once)\n",
        "        return True\n",
        LAST_LEDGER,
    ),
    Mutant(
        "the last ledger is held by a subscription that has acknowledged all of it",
        CORE + "engine/trimming/trimming.py",
        "        return bool(first.entries) and mark is not None and mark < first.last\n",
        "        return bool(first.entries) and mark is not None and mark <= first.last\n",
        LAST_LEDGER,
    ),
    Mutant(
        "a frontend's row overtakes one that was put before it",
        CORE + "engine/group_commit/overtaking.py",
        "            if has_rows:  # a request after it may have the same rows\n",
        "            if False:\n",
        ("tests/core/engine/group_commit/test_overtaking.py",),
    ),
    Mutant(
        "a unit that acknowledges overtakes others",
        CORE + "engine/group_commit/request.py",
        "        others = self.acks or self.prefixes",
        "        others = self.prefixes",
        ("tests/core/engine/group_commit/test_beside_a_flood.py",),
    ),
)
