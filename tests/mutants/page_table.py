"""Mutants of the management page's sessions, streams and messages.

The rule: as in :mod:`tests.mutants.table`.
"""

from typing import Final

from tests.mutants.table import Mutant

MANAGEMENT: Final = "broker/arneb/http/management/"
SESSION_TESTS: Final = ("tests/broker/http/management/test_sessions.py",)
STREAM_TESTS: Final = ("tests/broker/http/management/test_streaming.py",)
MESSAGE_TESTS: Final = ("tests/broker/http/management/page/test_browsing.py",)
ROW_TESTS: Final = ("tests/broker/http/management/lists/test_rows.py",)
HOLE_TESTS: Final = ("tests/broker/http/management/page/test_hole_parts.py",)
LISTED_TESTS: Final = ("tests/broker/http/management/clients/test_clients_listed.py",)
CLUSTERED: Final = "broker/arneb/clustered/"
VOUCHED_TESTS: Final = ("tests/broker/clustered/ports/test_vouched.py",)
MEMBERSHIP_TESTS: Final = ("tests/broker/clustered/test_membership.py",)
CLIENT_TESTS: Final = ("tests/broker/http/page/test_pulsar_clients.py",)
VALUE_TESTS: Final = ("tests/pulsar_frontend/schemas/test_values.py",)
AVRO_VALUE: Final = "pulsar_frontend/arneb_pulsar/schemas/avro_value.py"

PAGE_MUTANTS: Final = (
    Mutant(
        "another site's form changes something with the cookie",
        MANAGEMENT + "answering.py",
        "                expect_mark(headers)\n",
        "                pass\n",
        SESSION_TESTS,
    ),
    Mutant(
        "a session outlives the password it was begun with",
        MANAGEMENT + "sessions.py",
        "(after is None or after.password != before.password)",
        "after is None",
        SESSION_TESTS,
    ),
    Mutant(
        "scripts can read the session's cookie",
        MANAGEMENT + "sessions.py",
        "; HttpOnly; SameSite=Strict",
        "; SameSite=Strict",
        SESSION_TESTS,
    ),
    Mutant(
        "a stream continues though its user has logged out",
        MANAGEMENT + "sessions.py",
        "        self._sessions.pop(session.token, None)\n        session.move()\n",
        "        self._sessions.pop(session.token, None)\n",
        (*SESSION_TESTS, *STREAM_TESTS),
    ),
    Mutant(
        "a user receives what administrators see",
        MANAGEMENT + "page/watching.py",
        'is_administrator(principal) else f"user {principal.name}"',
        "True else EVERY_ADMINISTRATOR",
        STREAM_TESTS,
    ),
    Mutant(
        "each open page makes the broker recompute its answers",
        MANAGEMENT + "watchers.py",
        "            if self._clock() - answer.made_s >= FRESH_S:\n",
        "            if True:\n",
        STREAM_TESTS,
    ),
    Mutant(
        "a path with as many parts is taken for a page",
        MANAGEMENT + "page/watching.py",
        "all(map(_fits, words, route))",
        "words[0] == route[0]",
        STREAM_TESTS,
    ),
    Mutant(
        "all queues of a vhost can be watched with a slash at the end",
        MANAGEMENT + "page/watching.py",
        "bool(word) if",
        "True if",
        STREAM_TESTS,
    ),
    Mutant(
        "pages that are opened at the same instant are not counted",
        MANAGEMENT + "watchers.py",
        "if self.streams >= STREAMS_MAX:",
        "if False:",
        STREAM_TESTS,
    ),
    Mutant(
        "messages are shown to users who may not read the queue",
        MANAGEMENT + "page/log_lookup.py",
        "    if not verdicts.may(vhost, question):\n",
        "    if False:\n",
        MESSAGE_TESTS,
    ),
    Mutant(
        "a moved message also stays where it was",
        MANAGEMENT + "page/moving.py",
        "                unit.acks.append((holder, [at]))\n",
        "                subscription.give_back([at], {})\n",
        MESSAGE_TESTS,
    ),
    Mutant(
        "a dead letter that is sent back keeps its death headers",
        MANAGEMENT + "page/moving.py",
        "headers=without_deaths(headers) or None",
        "headers=headers",
        MESSAGE_TESTS,
    ),
    Mutant(
        "a search continues for as long as there is something to read",
        MANAGEMENT + "page/browsing.py",
        "size >= SEARCHED_BYTES_MAX or clock() >= until_s",
        "False",
        MESSAGE_TESTS,
    ),
    Mutant(
        "blocks of an Avro array of nothing are read without end",
        AVRO_VALUE,
        "        self._steps -= 1\n",
        "",
        VALUE_TESTS,
    ),
    Mutant(
        "an Avro value may be nested without bound",
        AVRO_VALUE,
        "        if depth > DEPTH_MAX:\n",
        "        if False:\n",
        VALUE_TESTS,
    ),
    Mutant(
        "the names of an Avro record's fields are written as often as they occur",
        AVRO_VALUE,
        "            self._spend(len(name))\n",
        "",
        VALUE_TESTS,
    ),
    Mutant(
        "a body is read by the newest schema, whatever it was written with",
        MANAGEMENT + "page/schema_views.py",
        "version = versions.get(version_number(message.schema_version))",
        "version = versions.get(max(versions))",
        CLIENT_TESTS,
    ),
    Mutant(
        "a user who may only read closes a connection",
        MANAGEMENT + "page/pulsar_client.py",
        "    _expect_own(call, found)\n    found.connection.kill()\n",
        "    found.connection.kill()\n",
        CLIENT_TESTS,
    ),
    Mutant(
        "acknowledged entries before the mark-delete position are drawn as holes",
        MANAGEMENT + "page/hole_parts.py",
        "            of.acknowledged_between(max(low, of.mark_delete), high)\n",
        "            of.acknowledged_between(low, high)\n",
        HOLE_TESTS,
    ),
    Mutant(
        "a part of a drawing ends with its ledger",
        MANAGEMENT + "page/hole_parts.py",
        "            if not room:\n",
        "            if True:\n",
        HOLE_TESTS,
    ),
    Mutant(
        "a document is made for each client to sort them",
        MANAGEMENT + "page/clients.py",
        "        now = site.roster.connection(client.known.id)\n",
        "        now = _of_amqp(site, client.known) and site.roster.connection(client.known.id)\n",
        LISTED_TESTS,
    ),
    Mutant(
        "one client's traffic is counted by half",
        MANAGEMENT + "page/clients.py",
        '    "flow": lambda source: sum(_octets(source)),\n',
        '    "flow": lambda source: _octets(source)[1],\n',
        LISTED_TESTS,
    ),
    Mutant(
        "of two equally busy clients one is the noisy one",
        MANAGEMENT + "page/clients.py",
        "flow > NOISY_SHARE * total",
        "flow >= NOISY_SHARE * total",
        CLIENT_TESTS,
    ),
    Mutant(
        "queues are in the order of their ledgers' ages",
        MANAGEMENT + "lists/ages.py",
        "            if is_exact or reads >= READS_MAX:\n",
        "            if True:\n",
        ROW_TESTS,
    ),
    Mutant(
        "an order by age reads every queue at once",
        MANAGEMENT + "lists/ages.py",
        "            if is_exact or reads >= READS_MAX:\n",
        "            if is_exact:\n",
        ROW_TESTS,
    ),
    Mutant(
        "looking at due messages delivers earlier ones at once",
        "core/arneb_core/delayed/buckets.py",
        "        return self._read(reached, NEVER_MS - 1, limit, on_read)\n",
        "        return self.read(reached, NEVER_MS - 1, limit, on_read)\n",
        ("tests/core/engine/topics/test_due_next.py",),
    ),
    Mutant(
        "everybody can open topics of no virtual host",
        MANAGEMENT + "page/queue.py",
        'Route("GET", "page/topic/:topic", ADMINISTRATOR, _look)',
        'Route("GET", "page/topic/:topic", VHOST, _look)',
        ROW_TESTS,
    ),
    Mutant(
        "a user who may not read a queue can have its messages published elsewhere",
        MANAGEMENT + "page/republishing.py",
        "    await expect_readable(call, log)\n",
        "",
        MESSAGE_TESTS,
    ),
    Mutant(
        "a session is valid for all brokers behind a proxy",
        MANAGEMENT + "page/login.py",
        "cookie_for(session.token, secure=is_secure(call), path=path)",
        "cookie_for(session.token, secure=is_secure(call))",
        SESSION_TESTS,
    ),
    Mutant(
        "a login reports what else is in its cookie",
        MANAGEMENT + "page/login.py",
        " or not PATH.fullmatch(path)",
        "",
        SESSION_TESTS,
    ),
    Mutant(
        "a queue of delayed messages is called empty",
        "broker/arneb/monitoring/diagnosis.py",
        "    if of.messages or of.delayed:\n",
        "    if of.messages:\n",
        ("tests/broker/monitoring/test_diagnosis.py",),
    ),
    Mutant(
        "a session that has ended continues at a node that does not lead",
        CLUSTERED + "ports/vouched.py",
        "                self._known.pop(key, None)\n                return None\n",
        "                return self._remembered(key)\n",
        VOUCHED_TESTS,
    ),
    Mutant(
        "a node receives cookies that are not the page's",
        CLUSTERED + "ports/vouched.py",
        '"headers": [(b"cookie", f"{COOKIE}={token}".encode()), (MARK.encode(), b"1")],',
        '"headers": scope["headers"],',
        VOUCHED_TESTS,
    ),
    Mutant(
        "a deleted user continues while nobody leads",
        CLUSTERED + "ports/vouched.py",
        "return None if known.is_in_directory else known.may_monitor",
        "return known.may_monitor",
        VOUCHED_TESTS,
    ),
    Mutant(
        "a user known from the leader is known forever while nobody leads",
        CLUSTERED + "ports/vouched.py",
        "if known is None or self._clock() - known.at_s > REMEMBERED_S:",
        "if known is None:",
        VOUCHED_TESTS,
    ),
    Mutant(
        "the state of a node is shown to users who may not monitor",
        CLUSTERED + "ports/vouched.py",
        "        if may:\n",
        "        if may is not None:\n",
        VOUCHED_TESTS,
    ),
    Mutant(
        "a page of another version than the leader's answers its requests",
        CLUSTERED + "ports/own_page.py",
        "is_file and not self._somebody_leads()",
        "is_file",
        VOUCHED_TESTS,
    ),
    Mutant(
        "a leader whose log does not answer counts as healthy",
        CLUSTERED + "membership.py",
        'if about["leads"] and not about["serves"]:',
        'if about["leads"] and about["serves"] is None:',
        MEMBERSHIP_TESTS,
    ),
    Mutant(
        "a node reports no state while its lease has ended or nobody leads",
        "broker/arneb/http/routing/targets.py",
        'OWN_PATHS: Final = (MEMBER_PATH, "/healthz"',
        'OWN_PATHS: Final = ("/healthz"',
        ("tests/cluster/test_member_page.py",),
    ),
)
