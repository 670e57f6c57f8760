"""Mutants of access: mistakes that let somebody do what is not allowed.

The rule: as in :mod:`tests.mutants.table`.
"""

from typing import Final

from tests.mutants.table import Mutant

ACCESS: Final = "core/arneb_core/access/"
AMQP: Final = "amqp_frontend/arneb_amqp/"
RIGHTS_TESTS: Final = ("tests/amqp_frontend/server/test_rights.py",)
KEPT_TESTS: Final = ("tests/amqp_frontend/session/test_rights.py",)
LOGIN_TESTS: Final = ("tests/amqp_frontend/server/admission/test_logins.py",)

ACCESS_MUTANTS: Final = (
    Mutant(
        "a user that exists gets the permissions in the body",
        "broker/arneb/http/management/access/users.py",
        "in () if existed else permissions:\n",
        "in permissions:\n",
        ("tests/broker/http/management/access/test_users.py",),
    ),
    Mutant(
        "a cluster has another id after each start",
        ACCESS + "catalogue.py",
        "        if not (has_id or belonging.copied_from):\n",
        "        if not belonging.copied_from:\n",
        ("tests/core/access/test_catalogue.py",),
    ),
    Mutant(
        "a permission that was checked once is never checked again",
        AMQP + "session/rights.py",
        "        self.writable.clear()\n"
        "        self.keyed.clear()\n"
        "        self._allowed.clear()\n",
        "        pass\n",
        RIGHTS_TESTS,
    ),
    Mutant(
        "a key that may be used may be used forever",
        AMQP + "session/rights.py",
        "        self.keyed.clear()\n        self._allowed.clear()\n",
        "        self._allowed.clear()\n",
        KEPT_TESTS,
    ),
    Mutant(
        "a key is remembered for an exchange whose keys were not checked",
        AMQP + "session/rights.py",
        "        elif any(each.kind is Kind.TOPIC for each in asked):\n",
        "        else:\n",
        KEPT_TESTS,
    ),
    Mutant(
        "connections are not told that access has changed",
        AMQP + "server/listener.py",
        "            connection.tell(order or AccessChanged())\n",
        "            if order is not None:\n                connection.tell(order)\n",
        RIGHTS_TESTS,
    ),
    Mutant(
        "a pattern is anchored",
        ACCESS + "patterns.py",
        "re2.compile(text, options).search\n",
        "re2.compile(text, options).fullmatch\n",
        ("tests/core/access/test_patterns.py",),
    ),
    Mutant(
        "an empty pattern allows everything",
        ACCESS + "patterns.py",
        'return _by_re2(text or "^$")',
        'return _by_re2(text or "")',
        ("tests/core/access/test_patterns.py",),
    ),
    Mutant(
        "the rights of a vhost extend to another",
        ACCESS + "rights.py",
        "    row = tables.get(Permission, user, vhost)\n    return row is not None and",
        '    row = tables.get(Permission, user, vhost) or tables.get(Permission, user, "/")\n'
        "    return row is not None and",
        ("tests/core/access/test_rights.py",),
    ),
    Mutant(
        "two vhosts may have one namespace",
        ACCESS + "edits.py",
        "                if other.namespace == wanted:\n",
        "                if other.namespace == name:\n",
        ("tests/core/access/test_namespaces.py",),
    ),
    Mutant(
        "the connections of a deleted user stay open",
        AMQP + "server/listener.py",
        "            if isinstance(before, User) and after is None:\n",
        "            if isinstance(before, User) and before is None:\n",
        LOGIN_TESTS,
    ),
    Mutant(
        "the connections of a deleted vhost stay open",
        AMQP + "server/listener.py",
        "            elif isinstance(after, Vhost) and after.leaving:\n",
        "            elif isinstance(after, Vhost) and after is None:\n",
        LOGIN_TESTS,
    ),
    Mutant(
        "every user has access to every vhost",
        AMQP + "server/admission/entrance.py",
        "            if not admitted or self._topology",
        "            if self._topology",
        LOGIN_TESTS,
    ),
    Mutant(
        "an empty password is accepted",
        ACCESS + "passwords.py",
        "        if not self.text or not password:\n",
        "        if not self.text:\n",
        ("tests/core/access/test_passwords.py",),
    ),
    Mutant(
        "a change can be seen before it is on disk",
        ACCESS + "catalogue.py",
        "                await self._core.committed(Unit(metadata=rows))\n"
        "                self.tables.apply(changed)\n",
        "                rows = edit.rows\n"
        "                self.tables.apply(changed)\n"
        "                await self._core.committed(Unit(metadata=rows))\n",
        ("tests/core/access/test_catalogue.py",),
    ),
    Mutant(
        "the settings are applied at every start",
        ACCESS + "catalogue.py",
        "        if catalogue.tables.get(Seeded, Seeded().name) is None:\n",
        "        if catalogue.tables is not None:\n",
        ("tests/core/access/test_catalogue.py",),
    ),
    Mutant(
        "rights are checked before the type of a new exchange",
        AMQP + "session/rules.py",
        "        asked.vhost.router.check_type(asked.method.exchange_type)\n",
        "        pass\n",
        RIGHTS_TESTS,
    ),
    Mutant(
        "a queue's dead letters go where its owner may not write",
        AMQP + "session/rules.py",
        "            Need(_W, _E, _dead_letters),\n",
        "",
        RIGHTS_TESTS,
    ),
    Mutant(
        "a client that guesses passwords is answered at once",
        ACCESS + "guesses.py",
        "        await trio.sleep(self._late_s())\n",
        "        await trio.sleep(0)\n",
        ("tests/core/access/test_authority.py",),
    ),
    Mutant(
        "a vhost that is declared again gets the defaults again",
        "core/arneb_core/access/edits.py",
        "        elif namespace not in (None, present.namespace):\n",
        "        present = replace(present, limits=self._defaults.limits_of(name))\n"
        "        if namespace not in (None, present.namespace):\n",
        ("tests/core/access/test_defaults.py",),
    ),
    Mutant(
        "default limits apply to no vhost",
        "core/arneb_core/access/defaults.py",
        "                return dict(each.limits)\n",
        "                continue\n",
        ("tests/core/access/test_defaults.py",),
    ),
    Mutant(
        "a user may publish in another user's name",
        AMQP + "session/rights.py",
        "        if user != name and IMPERSONATOR not in",
        "        if not user and IMPERSONATOR not in",
        RIGHTS_TESTS,
    ),
)
