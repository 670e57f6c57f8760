"""Mutants of management: lists that are wrong, and others that have to wait for them.

The rule: as in :mod:`tests.mutants.table`.
"""

from typing import Final

from tests.mutants.table import Mutant

HTTP: Final = "broker/arneb/http/management/"
LOGINS: Final = "broker/arneb/logins/"
ORDERING_TESTS: Final = ("tests/broker/http/management/lists/test_ordering.py",)
LISTED_TESTS: Final = ("tests/broker/http/management/clients/test_clients_listed.py",)
PAGE_ROW_TESTS: Final = ("tests/broker/http/management/lists/test_rows.py",)
FIELD_TESTS: Final = ("tests/broker/http/management/topology/test_queue_fields.py",)
DATA_TESTS: Final = ("tests/broker/data/test_rights.py",)
HOSTILE_TESTS: Final = ("tests/broker/logins/test_hostile.py",)
BACKENDS_TESTS: Final = ("tests/broker/logins/test_backends.py",)
SESSION_TESTS: Final = ("tests/broker/http/management/test_sessions.py",)
FEDERATION_TESTS: Final = ("tests/broker/http/management/parameters/test_federation.py",)

ACCEPTING_TESTS: Final = ("tests/broker/http/management/requests/test_accepting.py",)
WORDS_TESTS: Final = ("tests/broker/http/management/requests/test_words.py",)
OBJECT_TESTS: Final = ("tests/broker/http/management/test_objects.py",)
LIST_TESTS: Final = ("tests/broker/http/management/lists/test_lists.py",)

USERS_TESTS: Final = ("tests/broker/http/management/access/test_users.py",)
POLICIES_TESTS: Final = ("tests/broker/http/management/parameters/test_policies.py",)
FILE_TESTS: Final = ("tests/broker/http/management/definitions/test_file.py",)
LONG_NAMES_TESTS: Final = ("tests/broker/http/management/topology/test_long_names.py",)

MANAGEMENT_MUTANTS: Final = (
    Mutant(
        "a user who loses the password gets new limits",
        HTTP + "access/users.py",
        "    if limits and not (existed and password is None):\n",
        "    if limits:\n",
        USERS_TESTS,
    ),
    Mutant(
        "the default exchange has no path by its own name",
        HTTP + "router.py",
        "                if not all(n or p == EXCHANGE for p, n in ",
        "                if not all(n for _, n in ",
        ("tests/broker/http/management/test_router.py",),
    ),
    Mutant(
        "any name in a path may be empty",
        HTTP + "router.py",
        "                if not all(n or p == EXCHANGE for p, n in ",
        "                if not all(True for p, n in ",
        ("tests/broker/http/management/test_router.py",),
    ),
    Mutant(
        "a password of null is none",
        HTTP + "access/users.py",
        '    if "password" not in body.given:\n',
        '    if body.given.get("password") is None:\n',
        USERS_TESTS,
    ),
    Mutant(
        "what a policy says of mirrors may contradict itself",
        HTTP + "parameters/policy_checks.py",
        "    if mirroring_fault := _mirroring_fault(definition):\n",
        "    if mirroring_fault := None:\n",
        POLICIES_TESTS,
    ),
    Mutant(
        "queues that the exporting broker named are imported",
        HTTP + "definitions/file.py",
        "        lists[kind] = kept\n",
        "",
        FILE_TESTS,
    ),
    Mutant(
        "queues created over HTTP have names that no client can use",
        "amqp_frontend/arneb_amqp/topology/queues/declaration.py",
        '        refuse_long("queue", self.name)\n',
        "",
        LONG_NAMES_TESTS,
    ),
    Mutant(
        "a message is published over HTTP with a routing key that is too long",
        "amqp_frontend/arneb_amqp/topology/publishing.py",
        '    refuse_long("routing key", routing_key)\n',
        "",
        LONG_NAMES_TESTS,
    ),
    Mutant(
        "dead letters get a routing key that is too long",
        "amqp_frontend/arneb_amqp/topology/dead_letters.py",
        "        if not is_short(letter.routing_key):\n",
        "        if False:\n",
        ("tests/amqp_frontend/topology/test_failures.py",),
    ),
    Mutant(
        "a request whose answer is not accepted is carried out",
        HTTP + "answering.py",
        "    if not request.raw_path.startswith(PAGE):\n        expect_json_wanted(headers)\n",
        "",
        ACCEPTING_TESTS,
    ),
    Mutant(
        "JSON in a character set of its own is JSON",
        HTTP + "requests/accepting.py",
        " and not found[2])\n",
        ")\n",
        ACCEPTING_TESTS,
    ),
    Mutant(
        "only lists have columns",
        HTTP + "answering.py",
        "    return reply if columns is None else replace(",
        "    return reply if True else replace(",
        OBJECT_TESTS,
    ),
    Mutant(
        "a range that a document does not show may be impossible",
        HTTP + "lists/lists.py",
        "    for kind in RANGES:\n",
        "    for kind in kinds:\n",
        LIST_TESTS,
    ),
    Mutant(
        "a list sorted in reverse keeps equal rows in their order",
        HTTP + "lists/ordering.py",
        "    if reverse:\n        items = items[::-1]\n",
        "",
        ORDERING_TESTS,
    ),
    Mutant(
        "numbers and texts are compared unchanged",
        HTTP + "lists/ordering.py",
        "    if kinds <= {int, float} or",
        "    if len(kinds) < 2 or kinds <= {int, float, type(None)} or",
        ORDERING_TESTS,
    ),
    Mutant(
        "figures of very many are read in one turn",
        HTTP + "lists/ordering.py",
        "        figures += map(figure, items[begin : begin + at_once])\n        await pause()\n",
        "        figures += map(figure, items[begin : begin + at_once])\n",
        ORDERING_TESTS,
    ),
    Mutant(
        "everything is sorted again when one comes or goes",
        HTTP + "lists/ordering.py",
        "if len(few) <= FIGURES_PER_TURN else []",
        "if False else []",
        ORDERING_TESTS,
    ),
    Mutant(
        "a new row is on no page",
        HTTP + "lists/ordering.py",
        "    known.difference_update(kept.first)\n",
        "    known.update(items)\n    known.difference_update(kept.first)\n",
        ORDERING_TESTS,
    ),
    Mutant(
        "a page is short when many of the first rows have gone",
        HTTP + "lists/ordering.py",
        "            if len(first) >= min(end, len(items)):\n",
        "            if first:\n",
        ORDERING_TESTS,
    ),
    Mutant(
        "a new row comes before others that were not read",
        HTTP + "lists/ordering.py",
        "    if len(kept.first) == len(kept.items):\n",
        "    if True:\n",
        ORDERING_TESTS,
    ),
    Mutant(
        "an order is cached forever",
        HTTP + "lists/ordering.py",
        "        if kept is not None and began < kept.until_s:\n",
        "        if kept is not None:\n",
        ORDERING_TESTS,
    ),
    Mutant(
        "those known to be the first keep their old order",
        HTTP + "lists/ordering.py",
        "                return await find(kept.first, pause) if is_short else kept.first\n",
        "                return kept.first\n",
        ORDERING_TESTS,
    ),
    Mutant(
        "everything is sorted each second",
        HTTP + "figures/freshness.py",
        "    return max(REUSE_FACTOR * took_s, min(SPARING_FACTOR * took_s, sparing_s))\n",
        "    return REUSE_FACTOR * took_s\n",
        ORDERING_TESTS,
    ),
    Mutant(
        "an order that took seconds is cached for a quarter of an hour",
        HTTP + "figures/freshness.py",
        "    return max(REUSE_FACTOR * took_s, min(SPARING_FACTOR * took_s, sparing_s))\n",
        "    return SPARING_FACTOR * took_s\n",
        ORDERING_TESTS,
    ),
    Mutant(
        "other tasks' turns count as work of a list",
        HTTP + "figures/freshness.py",
        "        await self._pause()\n        self._began = self._clock()\n",
        "        await self._pause()\n",
        ORDERING_TESTS,
    ),
    Mutant(
        "a new queue is in no list while others are busy",
        HTTP + "lists/rows.py",
        "await self._find(core, topology, work.pause)",
        "await self._find(core, topology, self._pause)",
        PAGE_ROW_TESTS,
    ),
    Mutant(
        "a document is made for each channel to sort them",
        HTTP + "clients/channels.py",
        "    if (read := FIGURES.get(sort)) is None:\n",
        "    if (read := None) is None:\n",
        LISTED_TESTS,
    ),
    Mutant(
        "a document is made for each connection to sort them",
        HTTP + "clients/connections.py",
        "    if (read := FIGURES.get(sort)) is None:\n",
        "    if (read := None) is None:\n",
        LISTED_TESTS,
    ),
    Mutant(
        "channels opened since are in no list",
        HTTP + "clients/channels.py",
        "        stamp=tuple(rows),\n",
        "        stamp=None,\n",
        LISTED_TESTS,
    ),
    Mutant(
        "a request for one vhost shows all",
        HTTP + "clients/connections.py",
        " and vhosts <= {each.vhost}:\n",
        ":\n",
        LISTED_TESTS,
    ),
    Mutant(
        "rows that stay are replaced when one comes or goes",
        HTTP + "lists/rows.py",
        "        self._by_topic = known\n",
        "",
        PAGE_ROW_TESTS,
    ),
    Mutant(
        "a queue declared again is taken for the deleted one",
        HTTP + "lists/rows.py",
        "if row is None or row.queue is not queue or row.topic is not topic:",
        "if row is None:",
        PAGE_ROW_TESTS,
    ),
    Mutant(
        "the broker's internal topics are listed among queues",
        HTTP + "lists/rows.py",
        "            if found_topic is not None and name.startswith(CLIENTS_SCHEMES):\n",
        "            if found_topic is not None:\n",
        PAGE_ROW_TESTS,
    ),
    Mutant(
        "the broker's internal topics can be opened",
        HTTP + "page/log_lookup.py",
        "        if topic is None or not full_name.startswith(CLIENTS_SCHEMES):\n",
        "        if topic is None:\n",
        PAGE_ROW_TESTS,
    ),
    Mutant(
        "the former queues are taken for the present ones",
        HTTP + "lists/queues_by_name.py",
        "        if kept is not None and kept.changes == queues.changes:\n",
        "        if kept is not None:\n",
        FIELD_TESTS,
    ),
    Mutant(
        "deleted queues stay in lists",
        HTTP + "lists/queues_by_name.py",
        "            stayed = [each for each in stayed if each in present]\n",
        "            stayed = stayed[:]\n",
        FIELD_TESTS,
    ),
    Mutant(
        "the sorted figure is sampled for each queue",
        HTTP + "topology/queue_fields.py",
        "    if first not in FIELDS or first in _SAMPLED:\n",
        "    if first not in FIELDS:\n",
        FIELD_TESTS,
    ),
    Mutant(
        "columns are taken from the short document",
        HTTP + "topology/queue_fields.py",
        "    fields = (_DETAILED if detailed else _OF_TYPE)[queue.type]\n",
        "    fields = (_OF_TYPE if names else _DETAILED)[queue.type]\n",
        FIELD_TESTS,
    ),
    Mutant(
        "growth is computed since the newer sample",
        HTTP + "figures/growth.py",
        "[*watched.samples[-1:], await self._sample(watched)]",
        "[await self._sample(watched)]",
        ("tests/broker/http/management/figures/test_growth.py",),
    ),
    Mutant(
        "a form is parsed in the event loop",
        HTTP + "requests/upload.py",
        """    def in_thread() -> T:
        return read(_file_in(kind, body))

    return await trio.to_thread.run_sync(in_thread)
""",
        """    file = _file_in(kind, body)
    return await trio.to_thread.run_sync(read, file)
""",
        ("tests/broker/http/management/requests/test_upload.py",),
    ),
    Mutant(
        "the last of two parameters with one name counts",
        HTTP + "answering.py",
        "        return dict(reversed(found))\n",
        "        return dict(found)\n",
        OBJECT_TESTS,
    ),
    Mutant(
        "a negative count gets nothing over HTTP",
        HTTP + "topology/messages.py",
        " if count >= 0 else TAKEN_MAX",
        " if count >= 0 else 0",
        OBJECT_TESTS,
    ),
    Mutant(
        "all users of an import are added in one turn",
        HTTP + "definitions/importing.py",
        "            while batch := list(islice(puts, PUTS_PER_TURN)):\n",
        "            while batch := list(islice(puts, 1_000_000)):\n",
        ("tests/broker/http/management/test_objects.py",),
    ),
    Mutant(
        "all users of an import are encoded in one turn",
        "core/arneb_core/access/catalogue.py",
        "            if len(edit) <= RECORDS_PER_TURN:\n",
        "            if True:\n",
        ("tests/core/access/test_catalogue.py",),
    ),
    Mutant(
        "a pattern that takes too long matches nothing",
        "core/arneb_core/access/patterns.py",
        "            if one_of_many_s is not None:\n",
        "            if False:\n",
        ("tests/broker/http/management/lists/test_lists.py",),
    ),
    Mutant(
        "a user of a known key waits while other keys are fetched",
        LOGINS + "keys.py",
        "        if is_known and (not self._is_time(name) or self._lock.locked()):\n",
        "        if is_known and not self._is_time(name):\n",
        HOSTILE_TESTS,
    ),
    Mutant(
        "a user of a known key waits for as long as a server takes",
        LOGINS + "keys.py",
        "            patience_s = PATIENCE_S if is_known else",
        "            patience_s = 1e6 if is_known else",
        HOSTILE_TESTS,
    ),
    Mutant(
        "an endless token ends the connection's task",
        LOGINS + "oauth.py",
        "        except RecursionError:\n",
        "        except ZeroDivisionError:\n",
        HOSTILE_TESTS,
    ),
    Mutant(
        "a token may expire at a time that is not a number",
        LOGINS + "oauth.py",
        " or not isinstance(each, int | float) or not _is_time(each)",
        " or not isinstance(each, int | float)",
        HOSTILE_TESTS,
    ),
    Mutant(
        "waiting for others does not count as waiting for a server",
        LOGINS + "fetching.py",
        "            with trio.fail_after(self._timeout_s):  # waiting for others included\n"
        "                async with self._crowd:\n",
        "            async with self._crowd:\n"
        "                with trio.fail_after(self._timeout_s):\n",
        HOSTILE_TESTS,
    ),
    Mutant(
        "anybody who is admitted may abort what others have staged",
        "broker/arneb/data/commits.py",
        "        async with self._locks.holding(batch[0]):\n"
        "            self.expect_own(batch[0], rights)\n",
        "        async with self._locks.holding(batch[0]):\n",
        DATA_TESTS,
    ),
    Mutant(
        "a query belongs to nobody after its first commit",
        "broker/arneb/data/commits.py",
        "is_last, self._owner(query) or rights.name)",
        "is_last)",
        DATA_TESTS,
    ),
    Mutant(
        "the log contains what servers are asked, including passwords",
        LOGINS + "fetching.py",
        'logging.getLogger("httpx").setLevel(logging.WARNING)',
        'logging.getLogger("httpx").setLevel(logging.INFO)',
        BACKENDS_TESTS,
    ),
    Mutant(
        "answers are decompressed",
        LOGINS + "fetching.py",
        "answer.aiter_raw()",
        "answer.aiter_bytes()",
        HOSTILE_TESTS,
    ),
    Mutant(
        "a set of upstreams is taken for one upstream",
        HTTP + "parameters/federation.py",
        "    if component == UPSTREAM:\n",
        "    if component in (UPSTREAM, UPSTREAM_SET):\n",
        FEDERATION_TESTS,
    ),
    Mutant(
        "an upstream needs no URI",
        HTTP + "parameters/federation.py",
        "[] if mandatory in value else",
        "[] if True else",
        FEDERATION_TESTS,
    ),
    Mutant(
        "a failed login comes without the challenge of HTTP",
        HTTP + "answering.py",
        "        raise wrong if by_page else challenged(wrong) from None\n",
        "        raise wrong\n",
        SESSION_TESTS,
    ),
    Mutant(
        "a broken percent sign in a path is part of a name",
        HTTP + "answering.py",
        "    _expect_whole_escapes(request.raw_path)\n",
        "",
        WORDS_TESTS,
    ),
    Mutant(
        "a change whose query is broken is made and refused",
        HTTP + "answering.py",
        '    if call.method == "GET":\n        _expect',
        "    if True:\n        _expect",
        WORDS_TESTS,
    ),
)
