"""The mutant list, continued: mistakes in the management page's sessions, streams and messages.

The rule: as in :mod:`tests.mutants.table`.
"""

from typing import Final

from tests.mutants.table import Mutant

MANAGEMENT: Final = "broker/arneb/http/management/"
SESSION_TESTS: Final = ("tests/broker/management/test_sessions.py",)
STREAM_TESTS: Final = ("tests/broker/management/test_streaming.py",)
MESSAGE_TESTS: Final = ("tests/broker/management/test_messages_looked_at.py",)

PAGE_MUTANTS: Final = (
    Mutant(
        "a form of another site changes something by the cookie",
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
        "a stream goes on though its user has logged out",
        MANAGEMENT + "sessions.py",
        "        self._sessions.pop(session.token, None)\n        session.move()\n",
        "        self._sessions.pop(session.token, None)\n",
        (*SESSION_TESTS, *STREAM_TESTS),
    ),
    Mutant(
        "a user is given what administrators see",
        MANAGEMENT + "page/watching.py",
        'is_administrator(principal) else f"user {principal.name}"',
        "True else EVERY_ADMINISTRATOR",
        STREAM_TESTS,
    ),
    Mutant(
        "each open page has the broker make its answers anew",
        MANAGEMENT + "watchers.py",
        "            if self._clock() - answer.made_s >= FRESH_S:\n",
        "            if True:\n",
        STREAM_TESTS,
    ),
    Mutant(
        "a page may be anything's, if its words are as many",
        MANAGEMENT + "page/watching.py",
        "all(map(_fits, words, route))",
        "words[0] == route[0]",
        STREAM_TESTS,
    ),
    Mutant(
        "all queues of a vhost may be watched by a slash at the end",
        MANAGEMENT + "page/watching.py",
        "bool(word) if",
        "True if",
        STREAM_TESTS,
    ),
    Mutant(
        "pages that come at the same instant are not counted",
        MANAGEMENT + "watchers.py",
        "if self.streams >= STREAMS_MAX:",
        "if False:",
        STREAM_TESTS,
    ),
    Mutant(
        "messages are shown to who may not read the queue",
        MANAGEMENT + "page/places.py",
        "    if not verdicts.may(vhost, question):\n",
        "    if False:\n",
        MESSAGE_TESTS,
    ),
    Mutant(
        "a moved message stays where it was, too",
        MANAGEMENT + "page/moving.py",
        "                unit.acks.append((holder, [at]))\n",
        "                subscription.give_back([at], {})\n",
        MESSAGE_TESTS,
    ),
    Mutant(
        "a dead letter that is sent back says that it died",
        MANAGEMENT + "page/moving.py",
        "headers=without_deaths(headers) or None",
        "headers=headers",
        MESSAGE_TESTS,
    ),
    Mutant(
        "a search goes on for as long as there is something to read",
        MANAGEMENT + "page/looking.py",
        "size >= SEARCHED_BYTES_MAX or clock() >= until_s",
        "False",
        MESSAGE_TESTS,
    ),
)
