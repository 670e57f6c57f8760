"""Mistakes in who is told of what is appended, in what is counted, and in what Prometheus and the
management API are told of it."""

from typing import Final

from tests.mutants.table import CORE, Mutant

WORK_TESTS: Final = ("tests/core/engine/group_commit/test_work_of_a_commit.py",)
SLOWEST_TESTS: Final = ("tests/core/engine/trimming/test_slowest.py",)
LAST_LEDGER: Final = ("tests/core/engine/trimming/test_last_ledger.py",)
AMQP: Final = "amqp_frontend/arneb_amqp/"
HTTP: Final = "broker/arneb/http/"

TRAFFIC: Final = ("tests/amqp_frontend/session/test_traffic.py",)
METRICS: Final = ("tests/broker/metrics/test_rabbitmq.py",)
RATES: Final = ("tests/broker/http/management/figures/test_rates.py",)
TEXTS: Final = ("tests/broker/http/management/topology/test_queue_texts.py",)

TRAFFIC_MUTANTS: Final = (
    Mutant(
        "a confirm that was refused counts as one",
        AMQP + "session/publish/confirms.py",
        "        if stored:\n            self.confirmed += count\n",
        "        self.confirmed += count\n",
        TRAFFIC,
    ),
    Mutant(
        "what was given back counts as acknowledged",
        AMQP + "session/consume/deliverer.py",
        "        return answered - self._given_back - pending\n",
        "        return answered - pending\n",
        TRAFFIC,
    ),
    Mutant(
        "answers in a transaction count before it is committed",
        AMQP + "session/consume/deliverer.py",
        "        return answered - self._given_back - pending\n",
        "        return answered - self._given_back\n",
        TRAFFIC,
    ),
    Mutant(
        "what went nowhere is not counted",
        AMQP + "session/publish/publisher.py",
        "        self._traffic.dropped += count\n",
        "",
        TRAFFIC,
    ),
    Mutant(
        "an exchange takes what it has counted with it",
        AMQP + "traffic.py",
        "        self.gone.add(self.exchanges.pop(exchange))\n",
        "        self.exchanges.pop(exchange)\n",
        (*TRAFFIC, *METRICS),
    ),
    Mutant(
        "a vhost takes what it has counted with it",
        AMQP + "topology/topology.py",
        "                self._gone.add(VhostTraffic() if gone is None else gone.router.traffic)\n",
        "                self._gone.add(VhostTraffic())\n",
        METRICS,
    ),
    Mutant(
        "a queue takes with it how many of its messages died",
        AMQP + "topology/queues/queue.py",
        "            traffic.departed[self.type.value, reason, is_dead_letter] += count\n",
        "            pass\n",
        METRICS,
    ),
    Mutant(
        "a message that is got counts for its queue alone",
        AMQP + "server/operations/consumers.py",
        "    for each in (traffic, traffic.whole):\n",
        "    for each in (traffic,):\n",
        METRICS,
    ),
    Mutant(
        "series appear when something has happened",
        HTTP + "metrics/node.py",
        "            TYPES[each]: self._traffic.by_type.get(each.value, Consumed()) for each in"
        " QueueType\n",
        "            TYPES[each]: self._traffic.by_type[each.value]\n"
        "            for each in QueueType\n"
        "            if each.value in self._traffic.by_type\n",
        METRICS,
    ),
    Mutant(
        "a page of objects has the sums of them too",
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
        "what is like before is a sample of its own",
        HTTP + "management/figures/samples.py",
        "        if last.counters == counters:\n",
        "        if False:\n",
        RATES,
    ),
    Mutant(
        "what was kept of a queue is shown though the queue is another",
        HTTP + "management/topology/queue_texts.py",
        "    if kept is not None and kept.seen == seen:\n",
        "    if kept is not None:\n",
        TEXTS,
    ),
    Mutant(
        "what was kept of a queue is shown though its rates are not 0 yet",
        HTTP + "management/figures/samples.py",
        "        return numbers == self._last and self._rests(now)\n",
        "        return numbers == self._last\n",
        (*RATES, *TEXTS),
    ),
    Mutant(
        "what is kept of a queue does not count",
        HTTP + "management/figures/samples.py",
        "        self.bytes += (0 if kept is None",
        "        self.bytes += 0 and (0 if kept is None",
        RATES,
    ),
    Mutant(
        "the budget of samples is none",
        HTTP + "management/figures/rates.py",
        "        if self.bytes > self._bytes_max:\n",
        "        if self.bytes < 0:\n",
        RATES,
    ),
    Mutant(
        "a budget that is too small is passed over",
        HTTP + "management/figures/rates.py",
        "        while self.bytes > wanted and len(self._histories) > 1:\n",
        "        while False:\n",
        RATES,
    ),
    Mutant(
        "what was delivered of a deleted subscription never was, and a topic's rate is negative",
        "core/arneb_core/engine/topics/topic.py",
        "            self.departed_messages_total += subscription.delivered_messages_total\n",
        "",
        ("tests/broker/metrics/test_pulsar.py",),
    ),
    Mutant(
        "what was sent of a deleted subscription is forgotten with it",
        "pulsar_frontend/arneb_pulsar/services/clients/consumers.py",
        "            self._departed_bytes[topic.id] = departed + left.pop(name).bytes\n",
        "            self._departed_bytes[topic.id] = departed + 0 * left.pop(name).bytes\n",
        ("tests/pulsar_frontend/services/limits/test_rates.py",),
    ),
    Mutant(
        "what falls is told of as a counter",
        "broker/arneb/metrics/text.py",
        'self.name.endswith("_total") and not self.falls else',
        'self.name.endswith("_total") else',
        ("tests/broker/metrics/test_pulsar.py",),
    ),
    Mutant(
        "a rate of Pulsar's is worked out anew at once",
        "broker/arneb/metrics/pulsar.py",
        "        if before is not None and now - before.at_s < RATE_S_MIN:\n",
        "        if before is None:\n",
        ("tests/broker/metrics/test_pulsar.py",),
    ),
    Mutant(
        "Pulsar's metrics tell of topics that the broker keeps for itself",
        "broker/arneb/metrics/pulsar.py",
        "            if topic is not None and not topic.fenced and name.startswith(SCHEMES):\n",
        "            if topic is not None and not topic.fenced:\n",
        ("tests/broker/metrics/test_pulsar.py",),
    ),
    Mutant(
        "who has to have something depart is not told of what is appended",
        CORE + "subscription/state.py",
        "        return bool(self.consumers or self.may_depart or self.byte_counter)\n",
        "        return bool(self.consumers)\n",
        WORK_TESTS,
    ),
    Mutant(
        "a consumer of one of many subscriptions is not told of what is appended",
        CORE + "engine/subscriptions/subscription.py",
        "        self.topic.listening.begins(self)\n        self.unused = False\n",
        "        self.unused = False\n",
        WORK_TESTS,
    ),
    Mutant(
        "every subscription costs each append something, whoever uses it",
        CORE + "engine/subscriptions/listening.py",
        "        if self._log.has_expiring:\n",
        "        if True:\n",
        WORK_TESTS,
    ),
    Mutant(
        "who has left is asked once more whether an append concerns it",
        CORE + "engine/subscriptions/subscription.py",
        "        self.topic.listening.may_end(self)\n",
        "",
        WORK_TESTS,
    ),
    Mutant(
        "who has left is not told of appends, though something has to depart",
        CORE + "engine/subscriptions/listening.py",
        "        if not subscription.machine.state.listens:\n",
        "        if True:\n",
        WORK_TESTS,
    ),
    Mutant(
        "every subscription is looked at for each commit of a cursor",
        CORE + "engine/trimming/slowest.py",
        "            if len(self._subscriptions) > ASKED_ALL_MAX:\n",
        "            if False:\n",
        WORK_TESTS,
    ),
    Mutant(
        "all subscriptions are looked at before it is known that something may go",
        CORE + "engine/trimming/trimming.py",
        "        if through is not None:  # only now are all subscriptions worth asking\n",
        "        if True:\n",
        WORK_TESTS,
    ),
    Mutant(
        "a subscription that has moved on is still taken for the slowest",
        CORE + "engine/trimming/slowest.py",
        "            elif (mark := first.mark_delete) > before:\n",
        "            elif (mark := before) > before:\n",
        SLOWEST_TESTS,
    ),
    Mutant(
        "what comes behind the first few is not among the slowest",
        CORE + "engine/trimming/slowest.py",
        "            heappush(self._heap, self._entry(subscription))\n",
        "            pass\n",
        SLOWEST_TESTS,
    ),
    Mutant(
        "a subscription that has gone is the slowest for ever",
        CORE + "engine/trimming/slowest.py",
        "            if self._subscriptions.get(first.name) is not first:\n",
        "            if False:\n",
        SLOWEST_TESTS,
    ),
    Mutant(
        "all subscriptions that ever came are remembered",
        CORE + "engine/trimming/slowest.py",
        "            self._put_in_order()\n\n    @property\n",
        "            pass\n\n    @property\n",
        SLOWEST_TESTS,
    ),
    Mutant(
        "a topic does not say that a subscription has gone",
        CORE + "engine/topics/topic.py",
        "            self.trimming.goes()\n",
        "            pass\n",
        WORK_TESTS,
    ),
    Mutant(
        "ledgers go though a subscription was moved back into them",
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
        "the last ledger is held by who has acknowledged all of it",
        CORE + "engine/trimming/trimming.py",
        "        return bool(first.entries) and mark is not None and mark < first.last\n",
        "        return bool(first.entries) and mark is not None and mark <= first.last\n",
        LAST_LEDGER,
    ),
    Mutant(
        "a row of a frontend's overtakes one that was put before it",
        CORE + "engine/group_commit/overtaking.py",
        "            if has_rows:  # a request behind it may have the same rows\n",
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
