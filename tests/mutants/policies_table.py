"""Mutants of policies.

The rule: as in :mod:`tests.mutants.table`.
"""

from typing import Final

from tests.mutants.table import Mutant

TOPOLOGY: Final = "amqp_frontend/arneb_amqp/topology/"
TOPOLOGY_TESTS: Final = "tests/amqp_frontend/topology/"
MODEL_TESTS: Final = (TOPOLOGY_TESTS + "policies/test_policies.py",)
POLICY_UPDATES_TESTS: Final = (TOPOLOGY_TESTS + "test_policy_updates.py",)
TTL_TESTS: Final = (TOPOLOGY_TESTS + "queues/test_time_to_live.py",)
DYING_TESTS: Final = ("tests/core/engine/subscriptions/test_dead_lettering.py",)

PULSAR: Final = "pulsar_frontend/arneb_pulsar/"
BODIES_TESTS: Final = ("tests/pulsar_frontend/admin/policies/test_policy_bodies.py",)

CREATION_TESTS: Final = ("tests/pulsar_frontend/admin/namespaces/test_creation.py",)

ENFORCER_TESTS: Final = ("tests/pulsar_frontend/services/operations/test_policy_enforcer.py",)

ONE_LOG_TESTS: Final = ("tests/pulsar_frontend/admin/topics/test_one_log.py",)
NON_PERSISTENT_TESTS: Final = ("tests/pulsar_frontend/server/test_non_persistent.py",)

POLICY_MUTANTS: Final = (
    Mutant(
        "the priority of a policy is whatever was sent",
        "broker/arneb/http/management/parameters/policy_checks.py",
        "    if type(priority) not in (int, float):\n",
        "    if False:\n",
        ("tests/broker/http/management/parameters/test_policies.py",),
    ),
    Mutant(
        "a schema is kept for a topic whose namespace does not exist",
        PULSAR + "admin/topics/schemas.py",
        "    namespace_of(context, request)\n    return topic_in(request)\n",
        "    return topic_in(request)\n",
        ("tests/pulsar_frontend/services/topics/test_schemas.py",),
    ),
    Mutant(
        "retention keeps idle topics that have no messages",
        PULSAR + "services/operations/policy_enforcer.py",
        "    retention = topic.retention if topic.statistics().entries else Retention()\n",
        "    retention = topic.retention\n",
        ENFORCER_TESTS,
    ),
    Mutant(
        "a partitioned topic goes with its last idle partition, whatever the configuration says",
        PULSAR + "services/operations/policy_enforcer.py",
        " or not self._context.config.delete_inactive_partitioned_topics:\n",
        ":\n",
        ENFORCER_TESTS,
    ),
    Mutant(
        "a key-value schema that is given over HTTP is not the one that a producer brings",
        PULSAR + "admin/topics/schemas.py",
        '    return json.dumps(document, separators=(",", ":"), ensure_ascii=False)\n',
        "    return json.dumps(document)\n",
        ("tests/pulsar_frontend/services/topics/test_schemas.py",),
    ),
    Mutant(
        "consumers of partitions are joined by place even if a partition has fewer",
        PULSAR + "admin/documents/partition_sums.py",
        "        if len(consumers) != len(joined):\n",
        "        if len(consumers) > len(joined):\n",
        ("tests/pulsar_frontend/admin/documents/test_partition_sums.py",),
    ),
    Mutant(
        "messages with a shortened lifetime expire only at the next check",
        PULSAR + "services/topics/topic_policies.py",
        "            if before_s is None or ttl_s < before_s:\n",
        "            if False:\n",
        ENFORCER_TESTS,
    ),
    Mutant(
        "messages that expire at a consumer do not count",
        PULSAR + "services/operations/policy_enforcer.py",
        "max(0, now_ms - ttl_s * 1000), Departure.EXPIRED)\n",
        "max(0, now_ms - ttl_s * 1000))\n",
        ENFORCER_TESTS,
    ),
    Mutant(
        "a tenant of another cluster has namespaces here",
        PULSAR + "admin/namespaces/creation.py",
        " or {local}\n",
        " or set(allowed)\n",
        CREATION_TESTS,
    ),
    Mutant(
        "messages expired by an operator do not count",
        PULSAR + "admin/subscriptions/expiry.py",
        "skip_through(through, Departure.EXPIRED)\n",
        "skip_through(through)\n",
        ("tests/pulsar_frontend/admin/subscriptions/test_expiry.py",),
    ),
    Mutant(
        "a namespace forgets the values that it is created with",
        PULSAR + "admin/namespaces/creation.py",
        "        if not is_nothing(value := table.get(name)):\n",
        "        if value := None:\n",
        CREATION_TESTS,
    ),
    Mutant(
        "unsupported values given at creation are lost",
        PULSAR + "admin/namespaces/creation.py",
        "        if table.get(name) not in (None, {}):\n",
        "        if False:\n",
        CREATION_TESTS,
    ),
    Mutant(
        "an impossible value given at creation counts as malformed",
        PULSAR + "admin/namespaces/creation.py",
        "        raise AdminError(kind.invalid, str(error)) from error\n",
        "        raise AdminError(MALFORMED, str(error)) from error\n",
        CREATION_TESTS,
    ),
    Mutant(
        "an empty rate is 0",
        PULSAR + "namespaces/resource_groups.py",
        "            if not is_nothing(table.get(name))\n",
        "            if table.get(name) is not None\n",
        ("tests/pulsar_frontend/admin/policies/test_resource_groups.py",),
    ),
    Mutant(
        "a schema of another kind counts as impossible",
        PULSAR + "admin/topics/schemas.py",
        "        raise AdminError(MALFORMED, str(error)) from error\n",
        "        raise AdminError(INVALID, str(error)) from error\n",
        ("tests/pulsar_frontend/services/topics/test_schemas.py",),
    ),
    Mutant(
        "a value of another kind counts as impossible",
        PULSAR + "admin/policies/policies.py",
        "        except WrongKind as error:\n            raise AdminError(400,",
        "        except WrongKind as error:\n            raise AdminError(kind.invalid,",
        BODIES_TESTS,
    ),
    Mutant(
        "null is refused as not a document",
        PULSAR + "admin/policies/policies.py",
        "        if kind.boxed and (wanted is None or (kind.is_value and is_nothing(wanted))):\n",
        "        if False:\n",
        BODIES_TESTS,
    ),
    Mutant(
        "empty text counts as a value",
        PULSAR + "admin/policies/policies.py",
        "(wanted is None or (kind.is_value and is_nothing(wanted)))",
        "(wanted is None)",
        BODIES_TESTS,
    ),
    Mutant(
        "null is refused as no quota of a topic",
        PULSAR + "admin/policies/policies.py",
        "    if wanted is None and target.topic is not None:\n",
        "    if False:\n",
        BODIES_TESTS,
    ),
    Mutant(
        "any text is accepted as the address of a cluster",
        PULSAR + "admin/brokers/clusters.py",
        ' and not address.startswith(tuple(f"{each}//" for each in schemes)):',
        " and False:",
        ("tests/pulsar_frontend/admin/brokers/test_clusters.py",),
    ),
    Mutant(
        "a missing body sets a number to 0",
        PULSAR + "admin/policies/policies.py",
        "        elif not kind.boxed and kind.empty is None:\n",
        "        elif False:\n",
        BODIES_TESTS,
    ),
    Mutant(
        "a partition has its own policies",
        PULSAR + "admin/policies/policies.py",
        "    if topic.partition >= 0:\n",
        "    if False:\n",
        BODIES_TESTS,
    ),
    Mutant(
        "topics are deleted though nobody asked for it",
        PULSAR + "namespaces/rules.py",
        'enabled = read_flag(value.get("deleteWhileInactive"))',
        'enabled = read_flag(value.get("deleteWhileInactive", True))',
        ("tests/pulsar_frontend/namespaces/test_policies.py",),
    ),
    Mutant(
        "a number is stored that cannot be read again",
        PULSAR + "namespaces/coercion.py",
        "    return float(value) if math.isfinite(value) else None\n",
        "    return float(value)\n",
        ("tests/pulsar_frontend/namespaces/test_coercion.py", *BODIES_TESTS),
    ),
    Mutant(
        "how often subscriptions were blocked is remembered after they are gone",
        PULSAR + "services/limits/dispatch_throttles.py",
        "            if each in topic.subscriptions\n",
        "            if True\n",
        ("tests/pulsar_frontend/services/limits/test_dispatch_throttles.py",),
    ),
    Mutant(
        "the number of a strategy is that of another",
        PULSAR + "namespaces/coercion.py",
        "    return names[number] if 0 <= number < len(names) else None\n",
        "    return names[number - 1] if 0 <= number < len(names) else None\n",
        ("tests/pulsar_frontend/admin/policies/test_policy_bodies.py",),
    ),
    Mutant(
        "an unbounded delay is bounded by a negative number",
        PULSAR + "server/publishing.py",
        "elif run.delayed and limits.delay_ms_max > 0 and",
        "elif run.delayed and limits.delay_ms_max and",
        ("tests/pulsar_frontend/services/limits/test_topic_limits.py",),
    ),
    Mutant(
        "a tool that reads what cannot be set is refused",
        PULSAR + "admin/api.py",
        "        *unset.ROUTES,\n",
        "",
        ("tests/pulsar_frontend/admin/brokers/test_brokers.py",),
    ),
    Mutant(
        "the policy with the lowest priority applies",
        TOPOLOGY + "policies/policies.py",
        "(-each.priority, each.name)",
        "(each.priority, each.name)",
        MODEL_TESTS,
    ),
    Mutant(
        "a policy with a key that a queue does not know applies to it",
        TOPOLOGY + "policies/policies.py",
        " and is_for(each.definition, kind)",
        "",
        MODEL_TESTS,
    ),
    Mutant(
        "an empty pattern matches only the empty name",
        TOPOLOGY + "policies/policies.py",
        "return compiled(pattern) if pattern else lambda name: True",
        "return compiled(pattern)",
        MODEL_TESTS,
    ),
    Mutant(
        "an operator's limit replaces a lower one",
        TOPOLOGY + "policies/keys.py",
        "both[name] = min(definition[name], by_operator[name])",
        "both[name] = by_operator[name]",
        MODEL_TESTS,
    ),
    Mutant(
        "a policy sets its limit though the argument is lower",
        TOPOLOGY + "queues/effective.py",
        "asked[row.option] = min(asked[row.option], wanted)",
        "asked[row.option] = wanted",
        MODEL_TESTS,
    ),
    Mutant(
        "a policy's dead letter exchange takes precedence",
        TOPOLOGY + "policies/keys.py",
        "_ARGUMENT: Final = _wins(classic=Wins.ARGUMENT, quorum=Wins.ARGUMENT)",
        "_ARGUMENT: Final = _wins(classic=Wins.POLICY, quorum=Wins.POLICY)",
        MODEL_TESTS,
    ),
    Mutant(
        "a policy applies only to what is declared later",
        TOPOLOGY + "policy_updates.py",
        "if policies.for_queue(queue.name, queue.type) != queue.applied:",
        "if policies.for_queue(queue.name, queue.type) == queue.applied:",
        POLICY_UPDATES_TESTS,
    ),
    Mutant(
        "a queue declared during a change of policies gets the old ones",
        TOPOLOGY + "queues/queues.py",
        "if self.policies is not policies:",
        "if False:",
        POLICY_UPDATES_TESTS,
    ),
    Mutant(
        "a new time to live applies to existing messages",
        TOPOLOGY + "queues/time_to_live.py",
        "    if is_empty:\n        return wanted_ms\n",
        "    return wanted_ms\n",
        TTL_TESTS,
    ),
    Mutant(
        "a changed time to live is forgotten by a restart",
        TOPOLOGY + "queues/queues.py",
        "        queue.ttl = as_held(record.ttl, queue.options.message_ttl_ms)\n",
        "",
        POLICY_UPDATES_TESTS,
    ),
    Mutant(
        "a change of the time to live is not stored",
        TOPOLOGY + "queues/queues.py",
        "            if unit.metadata:\n                await self._core.committed(unit)\n",
        "",
        POLICY_UPDATES_TESTS,
    ),
    Mutant(
        "a queue keeps refusing when the policy is removed",
        TOPOLOGY + "queues/enforcing.py",
        "            self.refusing.pop(queue.name, None)\n",
        "",
        POLICY_UPDATES_TESTS,
    ),
    Mutant(
        "remembered routes outlive a policy",
        TOPOLOGY + "policy_updates.py",
        "                self._router.queues_changed()\n",
        "",
        POLICY_UPDATES_TESTS,
    ),
    Mutant(
        "dead letters go where they went first",
        TOPOLOGY + "queues/enforcing.py",
        "        queue.dead_lettering.target = target\n",
        "",
        POLICY_UPDATES_TESTS,
    ),
    Mutant(
        "a queue has expired before its policy was set",
        TOPOLOGY + "queues/queue.py",
        "            self.used_at_ms = monotonic_ms()  # the time begins now\n",
        "            pass\n",
        POLICY_UPDATES_TESTS,
    ),
    Mutant(
        "an alternate exchange of a policy takes precedence",
        "amqp_frontend/arneb_amqp/routing/router.py",
        "(self._alternates.get(exchange.name) if named is None else named) or None\n",
        "self._alternates.get(exchange.name, named) or None\n",
        POLICY_UPDATES_TESTS,
    ),
    Mutant(
        "dead letters that died before the exchange was removed stay forever",
        "core/arneb_core/subscription/departures/dead_lettering.py",
        "            while not self._target_failed:\n",
        "            while self.has_target and not self._target_failed:\n",
        DYING_TESTS,
    ),
    Mutant(
        "an entry lives as long as those that arrive now",
        "core/arneb_core/api/entries/expiry.py",
        "        ttl = ttl.of(published)\n",
        "        ttl = ttl.now_ms\n",
        DYING_TESTS,
    ),
    Mutant(
        "whoever sets a policy is answered before it applies",
        "core/arneb_core/access/catalogue.py",
        "                await follower(changed)\n",
        "                pass\n",
        POLICY_UPDATES_TESTS,
    ),
    Mutant(
        "an exclusive queue becomes a quorum queue by default",
        TOPOLOGY + "queues/declaration.py",
        "        if not self.durable or self.exclusive or self.auto_delete:\n",
        "        if not self.durable and not self.exclusive and not self.auto_delete:\n",
        ("tests/amqp_frontend/server/test_default_queue_type.py",),
    ),
    Mutant(
        "a delivery timeout never changes",
        "amqp_frontend/arneb_amqp/session/consume/deliverer.py",
        "            self._ack_timeouts.change(consumer.id, own_s)\n",
        "",
        ("tests/amqp_frontend/session/consume/test_ack_timeouts.py",),
    ),
    Mutant(
        "the replication clusters of a topic are accepted and forgotten",
        PULSAR + "admin/policies/replication.py",
        "    await target.change(lambda own: replace(own, clusters=wanted))\n",
        "",
        ("tests/pulsar_frontend/admin/brokers/test_brokers.py",),
    ),
    Mutant(
        "a non-persistent topic has policies whether it is used or not",
        PULSAR + "admin/policies/policies.py",
        "    if not context.topics.exists(topic) or not _is_known(context, topic):\n",
        "    if not context.topics.exists(topic):\n",
        ONE_LOG_TESTS,
    ),
    Mutant(
        "non-persistent topics have properties",
        PULSAR + "admin/calls/paths.py",
        "    if not topic.is_persistent:\n",
        "    if False:\n",
        ONE_LOG_TESTS,
    ),
    Mutant(
        "what no consumer could take of a non-persistent topic is said to have expired",
        PULSAR + "services/limits/rates.py",
        "    return 0 if _keeps_nothing(topic) else _expired(subscription)\n",
        "    return _expired(subscription)\n",
        NON_PERSISTENT_TESTS,
    ),
    Mutant(
        "rates of a subscription that has delivered nothing are not measured",
        PULSAR + "services/limits/rates.py",
        "            used = subscription.delivered_messages_total or subscription.departed\n",
        "            used = subscription.delivered_messages_total\n",
        NON_PERSISTENT_TESTS,
    ),
    Mutant(
        "limits of consumers hold for system topics",
        PULSAR + "services/limits/topic_limits.py",
        "        if on_topic and not name.is_system:\n",
        "        if on_topic:\n",
        ("tests/pulsar_frontend/services/limits/test_topic_limits.py",),
    ),
    Mutant(
        "what no consumer could take is not counted",
        "core/arneb_core/subscription/dispatching/dispatch_loop.py",
        "                state.count_departed(Departure.EXPIRED, gone, Fate.DROPPED)\n",
        "                pass\n",
        ("tests/core/engine/test_admin.py",),
    ),
    Mutant(
        "a topic without partitions is said to lack none",
        PULSAR + "admin/topics/topics.py",
        "    if not context.namespaces.partitions(name):\n"
        '        raise AdminError(404, f"Topic {name} does not exist")\n'
        "    await context.topics.make_missing(name)\n",
        "    await context.topics.make_missing(name)\n",
        ("tests/pulsar_frontend/admin/test_admin.py",),
    ),
    Mutant(
        "a subscription that does not exist is said not to be replicated",
        PULSAR + "admin/policies/unset.py",
        '        subscription_of(plain(context, part), request.names["subscription"])\n',
        "        plain(context, part)\n",
        ("tests/pulsar_frontend/admin/brokers/test_brokers.py",),
    ),
)
