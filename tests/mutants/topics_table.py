"""Mistakes with topics: partitions, policies, non-persistent topics, the admin API."""

from typing import Final

from tests.mutants.table import Mutant

PULSAR: Final = "pulsar_frontend/arneb_pulsar/"
TESTS: Final = "tests/pulsar_frontend/"
ADMIN_TESTS: Final = (TESTS + "admin/test_admin.py",)
CALLS_TESTS: Final = (TESTS + "admin/test_calls.py",)
ENFORCER_TESTS: Final = (
    TESTS + "services/test_policy_enforcer.py",
    TESTS + "services/test_topic_policies.py",
    TESTS + "services/test_quotas.py",
    TESTS + "services/test_termination.py",
)
COMPACTION_TESTS: Final = (TESTS + "services/test_compactor.py",)
NON_PERSISTENT_TESTS: Final = (TESTS + "server/test_non_persistent.py",)
POLICY_TESTS: Final = ("tests/pulsar_frontend/namespaces/test_policies.py",)
EXPIRY_TESTS: Final = (TESTS + "admin/test_expiry.py",)
SYSTEM_TESTS: Final = (TESTS + "services/test_system_topics.py",)
DEFAULTS_TESTS: Final = (
    TESTS + "namespaces/test_defaults.py",
    TESTS + "services/test_default_policies.py",
)

TOPIC_MUTANTS: Final = (
    Mutant(
        "a partition beyond the last is made",
        PULSAR + "services/topics.py",
        "        elif topic.partition >= partitions:\n",
        "        elif topic.partition > partitions + 9:\n",
        ADMIN_TESTS,
    ),
    Mutant(
        "new partitions lack the subscriptions of the first",
        PULSAR + "services/topics.py",
        "            for index in range(present.partitions, partitions)\n",
        "            for index in range(0)\n",
        ADMIN_TESTS,
    ),
    Mutant(
        "partitioned topics are forgotten by a restart",
        PULSAR + "services/namespaces.py",
        "        self._partitioned = {\n"
        '            name: Partitioned(each["partitions"], each.get("properties", {}))\n',
        "        self._partitioned = {\n"
        '            "": Partitioned(each["partitions"], each.get("properties", {}))\n',
        ADMIN_TESTS,
    ),
    Mutant(
        "what cannot be made durable is there all the same",
        PULSAR + "services/namespaces.py",
        "            await self._put(\n                PARTITIONED + str(topic),\n",
        "            self._partitioned[str(topic)] = made\n"
        "            await self._put(\n                PARTITIONED + str(topic),\n",
        ADMIN_TESTS,
    ),
    Mutant(
        "a topic in use is deleted without force",
        PULSAR + "admin/topics.py",
        '    return None if request.flag("force") else is_unused\n',
        "    return None\n",
        ADMIN_TESTS,
    ),
    Mutant(
        "a partitioned topic that is asked for one log is said not to be there",
        PULSAR + "admin/topics.py",
        "    if context.namespaces.partitions(name):\n        raise AdminError(405, refusal)\n",
        "",
        ("tests/pulsar_frontend/admin/test_one_log.py",),
    ),
    Mutant(
        "a message without a value is shown as an empty one",
        PULSAR + "admin/messages.py",
        '"partition_key", "null_value",\n',
        '"partition_key",\n',
        (TESTS + "admin/test_messages.py",),
    ),
    Mutant(
        "numbers of 64 bits are written as Java cannot read them",
        PULSAR + "admin/messages.py",
        "    if isinstance(value, int) and value >> 63 == 1:\n",
        "    if False:\n",
        (TESTS + "admin/test_messages.py",),
    ),
    Mutant(
        "a topic that keeps nothing is asked for its log",
        PULSAR + "admin/topics.py",
        '    if not name.is_persistent:\n        raise AdminError(405, f"{what} a non-persistent',
        '    if False:\n        raise AdminError(405, f"{what} a non-persistent',
        ("tests/pulsar_frontend/admin/test_one_log.py",),
    ),
    Mutant(
        "skipping leaves what is in flight",
        "core/arneb_core/subscription/machine.py",
        "            consumer.acknowledge([each for each in consumer.places if each <= place])\n",
        "            consumer.acknowledge([])\n",
        ADMIN_TESTS,
    ),
    Mutant(
        "a percent-encoded slash parts a name",
        PULSAR + "admin/router.py",
        '    before, *parts = raw_path.removesuffix("/").split("/")\n',
        '    before, *parts = unquote(raw_path).removesuffix("/").split("/")\n',
        ("tests/pulsar_frontend/admin/test_router.py",),
    ),
    Mutant(
        "a path with an empty part is the one above it",
        PULSAR + "admin/router.py",
        '    before, *parts = raw_path.removesuffix("/").split("/")\n',
        '    before, parts = "", raw_path.strip("/").split("/")\n',
        ("tests/pulsar_frontend/admin/test_router.py",),
    ),
    Mutant(
        "a plus in a topic's name is a plus, as Java's client does not send it",
        PULSAR + "admin/router.py",
        '    free = FREE if "topic" in names else ()\n',
        "    free: frozenset[str] = frozenset()\n",
        CALLS_TESTS,
    ),
    Mutant(
        "a flag without a value is false, whatever holds without it",
        PULSAR + "admin/exchange.py",
        '        return value.lower() == "true" if value else default\n',
        '        return default if value is None else value.lower() == "true"\n',
        CALLS_TESTS,
    ),
    Mutant(
        "who asks for the boundaries of bundles may name any number of them",
        PULSAR + "namespaces/bundles.py",
        "    if isinstance(document, list):\n        _check_number(len(document) - 1)\n",
        "",
        ("tests/pulsar_frontend/namespaces/test_bundles.py",),
    ),
    Mutant(
        "the namespace wins over the topic",
        PULSAR + "namespaces/policies.py",
        '            if value is not None and getattr(value, "limits", True)\n',
        "            if getattr(above, name) is None\n",
        POLICY_TESTS,
    ),
    Mutant(
        "how long messages live is forgotten by a restart",
        PULSAR + "services/context.py",
        "    context.topic_policies.apply_all()\n",
        "",
        ENFORCER_TESTS,
    ),
    Mutant(
        "messages of AMQP queues expire by Pulsar's policies",
        PULSAR + "services/topic_policies.py",
        "            if each.name not in RESERVED_SUBSCRIPTIONS:\n                each.limit(",
        "            if True:\n                each.limit(",
        ENFORCER_TESTS,
    ),
    Mutant(
        "retention is forgotten by a restart",
        "core/arneb_core/engine/catalog.py",
        "            puts = [_record_of(topic, settings)] if topic.durable else []\n",
        "            puts = [_record_of(topic)] if topic.durable else []\n",
        ENFORCER_TESTS,
    ),
    Mutant(
        "evictions take from AMQP queues",
        PULSAR + "services/quotas.py",
        " and each.mark_delete < place and not is_ours:\n",
        " and each.mark_delete < place:\n",
        ENFORCER_TESTS,
    ),
    Mutant(
        "a subscription is moved to a batch in place of its message",
        PULSAR + "admin/subscriptions.py",
        "    return index + is_excluded\n",
        "    return is_excluded\n",
        (TESTS + "admin/test_moving.py",),
    ),
    Mutant(
        "a subscription is moved to the message that it was to be moved behind",
        PULSAR + "admin/subscriptions.py",
        'read_flag(table.get("excluded"))\n',
        "False\n",
        (TESTS + "admin/test_moving.py",),
    ),
    Mutant(
        "what consumers hold for longer than it lives stays in the log",
        PULSAR + "services/policy_enforcer.py",
        "                await forget_older(topic, max(0, now_ms - ttl_s * 1000))\n",
        "                pass\n",
        ENFORCER_TESTS,
    ),
    Mutant(
        "what consumers hold is forgotten before its time",
        PULSAR + "services/policy_enforcer.py",
        "                await forget_older(topic, max(0, now_ms - ttl_s * 1000))\n",
        "                await forget_older(topic, now_ms)\n",
        ENFORCER_TESTS,
    ),
    Mutant(
        "an eviction goes to the quota and no further",
        PULSAR + "namespaces/backlog.py",
        "EVICTED_TO: Final = 0.9\n",
        "EVICTED_TO: Final = 1.1\n",
        ENFORCER_TESTS,
    ),
    Mutant(
        "idle topics of other frontends go",
        PULSAR + "services/policy_enforcer.py",
        " or topic.properties.get(MADE_BY) != PULSAR:\n",
        ":\n",
        ENFORCER_TESTS,
    ),
    Mutant(
        "idle topics go with what they should keep",
        PULSAR + "services/policy_enforcer.py",
        "            if now - since >= max(rule.seconds, kept_s(topic.retention)):\n",
        "            if now - since >= rule.seconds:\n",
        ENFORCER_TESTS,
    ),
    Mutant(
        "a terminated topic begins again after a restart",
        PULSAR + "services/namespaces.py",
        "        self.ended = {each.terminated for each in self._topics.values()"
        " if each.terminated}\n",
        "        self.ended: set[int] = set()\n",
        ENFORCER_TESTS,
    ),
    Mutant(
        "the end of a topic is told before everything is acknowledged",
        PULSAR + "services/topic_lifecycle.py",
        "    if topic.id in context.namespaces.ended and not subscription.statistics()"
        ".backlog_entries:\n",
        "    if topic.id in context.namespaces.ended:\n",
        ENFORCER_TESTS,
    ),
    Mutant(
        "messages are added while the end of their topic becomes durable",
        PULSAR + "server/publishing.py",
        "        if topic.id in context.namespaces.ended:\n",
        "        if False and topic.id in context.namespaces.ended:\n",
        ENFORCER_TESTS,
    ),
    Mutant(
        "producers hear why, and are not closed, while the end of their topic becomes durable",
        PULSAR + "server/publishing.py",
        "        self.disconnect_all(topic)\n        ended = ",
        "        ended = ",
        ENFORCER_TESTS,
    ),
    Mutant(
        "messages of non-persistent topics wait",
        "core/arneb_core/subscription/dispatch_loop.py",
        "        if last is not None and last > self._state.acks.mark_delete:\n",
        "        if False:\n",
        NON_PERSISTENT_TESTS,
    ),
    Mutant(
        "a burst on a non-persistent topic is cut short",
        "core/arneb_core/subscription/dispatch_loop.py",
        "            if not state.limits.waits and taken < DISPATCH_ENTRIES_MAX:\n",
        "            if not state.limits.waits:\n",
        NON_PERSISTENT_TESTS,
    ),
    Mutant(
        "messages of non-persistent topics come back",
        PULSAR + "server/attachments.py",
        "            acks=effect.topic.is_persistent,\n",
        "            acks=True,\n",
        NON_PERSISTENT_TESTS,
    ),
    Mutant(
        "the first message of a key stays",
        PULSAR + "namespaces/compaction.py",
        "            if before is not None:\n                _add(self.superseded, *before)\n",
        "            if before is not None:\n                _add(self.superseded, place, index)\n",
        ("tests/pulsar_frontend/namespaces/test_compaction.py",),
    ),
    Mutant(
        "an encrypted batch goes with the key of its first message",
        PULSAR + "codec.py",
        '    is_part = metadata.HasField("num_messages_in_batch") or ',
        "    is_part = False or ",
        ("tests/pulsar_frontend/namespaces/test_compaction.py",),
    ),
    Mutant(
        "what took a key away is marked before what it took away",
        PULSAR + "services/compactor.py",
        "            await _mark(consumer, found, found.superseded)\n"
        "            await _mark(consumer, found, found.spent)\n",
        "            await _mark(consumer, found, found.spent)\n"
        "            await _mark(consumer, found, found.superseded)\n",
        COMPACTION_TESTS,
    ),
    Mutant(
        "the end of what is compacted is the end of the log",
        PULSAR + "server/requests.py",
        "compacted=attached.compacted",
        "compacted=False",
        COMPACTION_TESTS,
    ),
    Mutant(
        "what was superseded after somebody had it comes again",
        "core/arneb_core/engine/admin.py",
        "                self.machine.acknowledgements.acknowledge(done, None, elsewhere=True)\n",
        "                cursor.settle(done)\n",
        ("tests/core/engine/test_admin.py",),
    ),
    Mutant(
        "of batches everything stays",
        "core/arneb_core/engine/admin.py",
        "            if place > self.mark_delete and (size",
        "            if False and (size",
        COMPACTION_TESTS,
    ),
    Mutant(
        "nobody compacts what is asked for",
        PULSAR + "services/policy_enforcer.py",
        '            nursery.start_soon(supervise, "compaction", self._context.compactor.run)\n',
        "            pass\n",
        COMPACTION_TESTS,
    ),
    Mutant(
        "whoever has nothing to expire is not told",
        PULSAR + "admin/expiry.py",
        "    if not waiting:\n        return False\n",
        "    if not waiting:\n        return True\n",
        EXPIRY_TESTS,
    ),
    Mutant(
        "what a consumer is about to read is expired",
        PULSAR + "admin/expiry.py",
        "    if subscription.consumers and len(waiting) < ALMOST_CAUGHT_UP:\n",
        "    if False:\n",
        EXPIRY_TESTS,
    ),
    Mutant(
        "one conflict keeps the others from expiring",
        PULSAR + "admin/expiry.py",
        '                conflicts.append(_conflict("timestamp", name, subscription))\n',
        '                raise _conflict("timestamp", name, subscription)\n',
        EXPIRY_TESTS,
    ),
    Mutant(
        "to live for 0 seconds is to be gone",
        PULSAR + "admin/expiry.py",
        "    if not seconds:\n        return True",
        "    if False:\n        return True",
        EXPIRY_TESTS,
    ),
    Mutant(
        "a rate that bounds nothing lifts one from above",
        PULSAR + "namespaces/policies.py",
        '            if value is not None and getattr(value, "limits", True)\n',
        "            if value is not None\n",
        DEFAULTS_TESTS,
    ),
    Mutant(
        "a namespace lifts what its broker demands",
        PULSAR + "services/namespaces.py",
        "own, _under_broker(own, self.defaults)",
        "own, own.under(self.defaults)",
        DEFAULTS_TESTS,
    ),
    Mutant(
        "messages of plain bytes are sent where schemas are demanded",
        PULSAR + "server/requests.py",
        "        if is_asked and schemas.find(topic) is not None:\n",
        "        if False:\n",
        DEFAULTS_TESTS,
    ),
    Mutant(
        "plain bytes become a version",
        PULSAR + "session/schemas.py",
        "        brought = None if schema.type is SchemaType.NONE else schema\n",
        "        brought = schema\n",
        [TESTS + "session/test_schemas.py"],
    ),
    Mutant(
        "a consumer adds a schema where none may be added",
        PULSAR + "server/attachments.py",
        "            await schemas.attach(name, schema, may_add=may_add)\n",
        "            await schemas.attach(name, schema)\n",
        [TESTS + "services/test_schemas.py"],
    ),
    Mutant(
        "a topic lifts what its broker demands",
        PULSAR + "server/requests.py",
        "        is_asked = broker.schema_validation or policies.schema_validation\n",
        "        is_asked = policies.schema_validation\n",
        DEFAULTS_TESTS,
    ),
    Mutant(
        "the broker's backlog quota is for sizes only",
        PULSAR + "namespaces/defaults.py",
        "        return dict.fromkeys(QuotaType, quota)\n",
        "        return {QuotaType.SIZE: quota}\n",
        DEFAULTS_TESTS,
    ),
    Mutant(
        "more may wait than is kept",
        PULSAR + "namespaces/rules.py",
        "    if 0 < retention.megabytes * MEGABYTE <= quota.limit_bytes:\n",
        "    if False:\n",
        DEFAULTS_TESTS,
    ),
    Mutant(
        "listings have what Pulsar keeps for itself",
        PULSAR + "services/topics.py",
        "if not is_system_name(name)]",
        "if name]",
        SYSTEM_TESTS,
    ),
    Mutant(
        "watchers are told of what Pulsar keeps for itself",
        PULSAR + "services/watchers.py",
        "        if domain == PERSISTENT and not is_system_name(topic):\n",
        "        if domain == PERSISTENT:\n",
        SYSTEM_TESTS,
    ),
    Mutant(
        "clients use what belongs to transactions",
        PULSAR + "services/topics.py",
        "        if topic.is_internal:\n",
        "        if False:\n",
        SYSTEM_TESTS,
    ),
    Mutant(
        "whoever an unload sent away has come too often",
        PULSAR + "services/topic_lifecycle.py",
        "    context.subscribe_rates.forget(topic)\n",
        "",
        (TESTS + "services/test_topic_limits.py",),
    ),
    Mutant(
        "topics keep what the broker said when they were made",
        PULSAR + "services/policy_enforcer.py",
        "            if topic.properties.get(MADE_BY) == PULSAR:\n"
        "                await topic.retain",
        "            if False:\n                await topic.retain",
        ENFORCER_TESTS,
    ),
    Mutant(
        "queues keep what Pulsar's topics do",
        PULSAR + "services/policy_enforcer.py",
        "            if topic.properties.get(MADE_BY) == PULSAR:\n"
        "                await topic.retain",
        "            if True:\n                await topic.retain",
        ENFORCER_TESTS,
    ),
    Mutant(
        "a namespace shows quotas that nobody has set",
        PULSAR + "admin/policies.py",
        '    if target.topic is not None and request.flag("applied"):\n',
        '    if target.topic is None or request.flag("applied"):\n',
        DEFAULTS_TESTS,
    ),
    Mutant(
        "a namespace allows Key_Shared where the broker does not",
        PULSAR + "services/topic_limits.py",
        "        if kind is SubscriptionType.KEY_SHARED and on_broker and kind",
        "        if False and on_broker and kind",
        DEFAULTS_TESTS,
    ),
)
