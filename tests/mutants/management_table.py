"""The mutant list, continued: mistakes by which lists say what is not, and others wait.

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

MANAGEMENT_MUTANTS: Final = (
    Mutant(
        "a list that is sorted the other way round keeps what is equal as it was",
        HTTP + "lists/ordering.py",
        "    if reverse:\n        items = items[::-1]\n",
        "",
        ORDERING_TESTS,
    ),
    Mutant(
        "numbers and texts are compared as they are",
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
        "all is put in order anew when one comes or goes",
        HTTP + "lists/ordering.py",
        "if len(few) <= FIGURES_PER_TURN else []",
        "if False else []",
        ORDERING_TESTS,
    ),
    Mutant(
        "what has come stands on no page",
        HTTP + "lists/ordering.py",
        "    known.difference_update(kept.first)\n",
        "    known.update(items)\n    known.difference_update(kept.first)\n",
        ORDERING_TESTS,
    ),
    Mutant(
        "a page has fewer than it should when many of the first have gone",
        HTTP + "lists/ordering.py",
        "            if len(first) >= min(end, len(items)):\n",
        "            if first:\n",
        ORDERING_TESTS,
    ),
    Mutant(
        "what has come stands before others that nobody has looked at",
        HTTP + "lists/ordering.py",
        "    if len(kept.first) == len(kept.items):\n",
        "    if True:\n",
        ORDERING_TESTS,
    ),
    Mutant(
        "an order is kept for ever",
        HTTP + "lists/ordering.py",
        "        if kept is not None and began < kept.until_s:\n",
        "        if kept is not None:\n",
        ORDERING_TESTS,
    ),
    Mutant(
        "those that are known to be the first stand as they stood",
        HTTP + "lists/ordering.py",
        "                return await find(kept.first, pause) if is_short else kept.first\n",
        "                return kept.first\n",
        ORDERING_TESTS,
    ),
    Mutant(
        "all is put in order each second",
        HTTP + "figures/freshness.py",
        "    return max(REST * took_s, min(SPARING_REST * took_s, sparing_s))\n",
        "    return REST * took_s\n",
        ORDERING_TESTS,
    ),
    Mutant(
        "what took some seconds is told for a quarter of an hour",
        HTTP + "figures/freshness.py",
        "    return max(REST * took_s, min(SPARING_REST * took_s, sparing_s))\n",
        "    return SPARING_REST * took_s\n",
        ORDERING_TESTS,
    ),
    Mutant(
        "what others do in their turns counts as work of a list",
        HTTP + "figures/freshness.py",
        "        await self._pause()\n        self._began = self._clock()\n",
        "        await self._pause()\n",
        ORDERING_TESTS,
    ),
    Mutant(
        "a new queue is in no list as long as others are busy",
        HTTP + "lists/rows.py",
        "await self._find(core, topology, work.pause)",
        "await self._find(core, topology, self._pause)",
        PAGE_ROW_TESTS,
    ),
    Mutant(
        "a document is made of each channel to sort them",
        HTTP + "clients/channels.py",
        "    if (read := FIGURES.get(sort)) is None:\n",
        "    if (read := None) is None:\n",
        LISTED_TESTS,
    ),
    Mutant(
        "a document is made of each connection to sort them",
        HTTP + "clients/connections.py",
        "    if (read := FIGURES.get(sort)) is None:\n",
        "    if (read := None) is None:\n",
        LISTED_TESTS,
    ),
    Mutant(
        "channels that were opened since stand in no list",
        HTTP + "clients/channels.py",
        "        stamp=tuple(rows),\n",
        "        stamp=None,\n",
        LISTED_TESTS,
    ),
    Mutant(
        "one vhost is asked for, and all are shown",
        HTTP + "clients/connections.py",
        " and vhosts <= {each.vhost}:\n",
        ":\n",
        LISTED_TESTS,
    ),
    Mutant(
        "rows that stay are others when one comes or goes",
        HTTP + "lists/rows.py",
        "        self._by_topic = known\n",
        "",
        PAGE_ROW_TESTS,
    ),
    Mutant(
        "a queue that was made again is the one that was deleted",
        HTTP + "lists/rows.py",
        "if row is None or row.queue is not queue or row.topic is not topic:",
        "if row is None:",
        PAGE_ROW_TESTS,
    ),
    Mutant(
        "what the broker keeps for itself stands among queues",
        HTTP + "lists/rows.py",
        "            if found_topic is not None and name.startswith(CLIENTS_SCHEMES):\n",
        "            if found_topic is not None:\n",
        PAGE_ROW_TESTS,
    ),
    Mutant(
        "what the broker keeps for itself is looked into",
        HTTP + "page/places.py",
        "        if topic is None or not full_name.startswith(CLIENTS_SCHEMES):\n",
        "        if topic is None:\n",
        PAGE_ROW_TESTS,
    ),
    Mutant(
        "the queues that were there are those that there are",
        HTTP + "lists/queues_by_name.py",
        "        if kept is not None and kept.changes == queues.changes:\n",
        "        if kept is not None:\n",
        FIELD_TESTS,
    ),
    Mutant(
        "queues that have gone stay in lists",
        HTTP + "lists/queues_by_name.py",
        "            stayed = [each for each in stayed if each in present]\n",
        "            stayed = stayed[:]\n",
        FIELD_TESTS,
    ),
    Mutant(
        "what lists are sorted by is sampled for each queue",
        HTTP + "topology/queue_fields.py",
        "    if first not in FIELDS or first in _SAMPLED:\n",
        "    if first not in FIELDS:\n",
        FIELD_TESTS,
    ),
    Mutant(
        "columns are read of the short document",
        HTTP + "topology/queue_fields.py",
        "    fields = (_DETAILED if detailed else _OF_TYPE)[queue.type]\n",
        "    fields = (_OF_TYPE if names else _DETAILED)[queue.type]\n",
        FIELD_TESTS,
    ),
    Mutant(
        "growth is told since the newer sample",
        HTTP + "figures/growth.py",
        "[*watched.samples[-1:], await self._sample(watched)]",
        "[await self._sample(watched)]",
        ("tests/broker/http/management/figures/test_growth.py",),
    ),
    Mutant(
        "a form is read in the event loop",
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
        "all users of an import are put in in one turn",
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
        "whose key is known waits while others' keys are asked for",
        LOGINS + "keys.py",
        "        if is_known and (not self._is_time(name) or self._lock.locked()):\n",
        "        if is_known and not self._is_time(name):\n",
        HOSTILE_TESTS,
    ),
    Mutant(
        "whose key is known waits for as long as a server takes",
        LOGINS + "keys.py",
        "            patience_s = PATIENCE_S if is_known else",
        "            patience_s = 1e6 if is_known else",
        HOSTILE_TESTS,
    ),
    Mutant(
        "a token without end ends the connection's task",
        LOGINS + "oauth.py",
        "        except RecursionError:\n",
        "        except ZeroDivisionError:\n",
        HOSTILE_TESTS,
    ),
    Mutant(
        "a token may end at a time that is no number",
        LOGINS + "oauth.py",
        " or not isinstance(each, int | float) or not _is_time(each)",
        " or not isinstance(each, int | float)",
        HOSTILE_TESTS,
    ),
    Mutant(
        "waiting for others is not counted as waiting for a server",
        LOGINS + "fetching.py",
        "            with trio.fail_after(self._timeout_s):  # waiting for others included\n"
        "                async with self._crowd:\n",
        "            async with self._crowd:\n"
        "                with trio.fail_after(self._timeout_s):\n",
        HOSTILE_TESTS,
    ),
    Mutant(
        "whoever is let in may give up what others have staged",
        "broker/arneb/data/commits.py",
        "        async with self._locks.holding(batch[0]):\n"
        "            self.expect_own(batch[0], rights)\n",
        "        async with self._locks.holding(batch[0]):\n",
        DATA_TESTS,
    ),
    Mutant(
        "a query is nobody's after its first commit",
        "broker/arneb/data/commits.py",
        "is_last, self._owner(query) or rights.name)",
        "is_last)",
        DATA_TESTS,
    ),
    Mutant(
        "the log has what servers are asked, passwords and all",
        LOGINS + "fetching.py",
        'logging.getLogger("httpx").setLevel(logging.WARNING)',
        'logging.getLogger("httpx").setLevel(logging.INFO)',
        BACKENDS_TESTS,
    ),
    Mutant(
        "answers are unpacked",
        LOGINS + "fetching.py",
        "answer.aiter_raw()",
        "answer.aiter_bytes()",
        HOSTILE_TESTS,
    ),
)
