"""The mutant list, continued: mistakes by which a role of Pulsar's gets what nobody granted.

The rule: as in :mod:`tests.mutants.table`.
"""

from typing import Final

from tests.mutants.table import Mutant

PULSAR: Final = "pulsar_frontend/arneb_pulsar/"
AUTHORIZER: Final = PULSAR + "authorization/authorizer.py"
MODEL: Final = ("tests/pulsar_frontend/authorization/test_authorizer.py",)
COMMANDS: Final = ("tests/pulsar_frontend/server/test_rules.py",)
ROUTES: Final = ("tests/broker/http/api/test_pulsar_rules.py",)
OWN_PATHS: Final = ("tests/broker/http/access/test_rules.py",)
CERTIFICATES: Final = ("tests/broker/listening/test_certificates.py",)
PRINCIPALS: Final = ("tests/broker/logins/test_principals.py",)

AUTHORIZATION_MUTANTS: Final = (
    Mutant(
        "of a proxy and whom it comes for one is enough",
        AUTHORIZER,
        "            and all(\n                self._allows_topic(",
        "            and any(\n                self._allows_topic(",
        MODEL,
    ),
    Mutant(
        "whoever likes comes on behalf of others",
        PULSAR + "authorization/callers.py",
        "        elif self.original:\n",
        '        elif self.original == "-":\n',
        MODEL,
    ),
    Mutant(
        "who has no right on a tenant hears whether there is one",
        PULSAR + "admin/calls/rules.py",
        "    if rule.scope in INSIDE and rule.name not in TENANT_ITSELF:\n",
        "    if rule.scope in INSIDE:\n",
        ROUTES,
    ),
    Mutant(
        "a grant on a namespace reaches the whole tenant",
        AUTHORIZER,
        "        permissions = [of_namespace.permissions, self._of(topic)]\n",
        "        permissions = [of_namespace.permissions, self._of(topic)]\n"
        '        other = f"{_tenant(topic.namespace)}/n"\n'
        "        permissions.append(self._granted.namespace_policies(other).permissions)\n",
        MODEL,
    ),
    Mutant(
        "a grant on a partition is one on all of them",
        AUTHORIZER,
        "            permissions.append(self._of(topic.base))\n",
        "            permissions += [self._of(topic.base.part(i)) for i in (0, 1)]\n",
        MODEL,
    ),
    Mutant(
        "a subscription that is for some is for all",
        AUTHORIZER,
        "            if roles and role not in roles:\n",
        "            if roles and not role:\n",
        MODEL,
    ),
    Mutant(
        "the administrator of one tenant administrates the others",
        AUTHORIZER,
        'self._granted.tenant(tenant).get("adminRoles", ())',
        '[*self._granted.tenant(tenant).get("adminRoles", ()),\n'
        '         *self._granted.tenant("t").get("adminRoles", ())]',
        MODEL,
    ),
    Mutant(
        "patterns count though nobody asked for them",
        AUTHORIZER,
        "        if not self._config.wildcards:\n",
        "        if self._config.wildcards and not permissions:\n",
        MODEL,
    ),
    Mutant(
        "a queue's topic is bounded by Pulsar's permissions alone",
        AUTHORIZER,
        "        if not self._reaches(role, topic, rights(operation)):\n",
        "        if not topic.local:\n",
        (*MODEL, *PRINCIPALS),
    ),
    Mutant(
        "a command is carried out before its rule is looked at",
        PULSAR + "session/connection/connection.py",
        "                if refusal is not None:\n",
        "                if refusal is not None and kind != BaseCommand.LOOKUP:\n",
        COMMANDS,
    ),
    Mutant(
        "whoever asks for the partitions of a tenant that is not there is only refused",
        PULSAR + "session/connection/rules.py",
        "        if self.tells_missing:\n",
        "        if False:\n",
        COMMANDS,
    ),
    Mutant(
        "an initial subscription needs no right",
        PULSAR + "session/connection/rules.py",
        "            TopicNeed(TopicOperation.SUBSCRIBE, _SUBSCRIPTION, if_named=True),\n",
        "",
        COMMANDS,
    ),
    Mutant(
        "a subscription's name is not looked at on subscribing",
        PULSAR + "session/connection/rules.py",
        'TopicNeed(TopicOperation.CONSUME, "subscription")',
        "TopicNeed(TopicOperation.CONSUME)",
        COMMANDS,
    ),
    Mutant(
        "open consumers go on when their right is gone",
        PULSAR + "services/clients/rights.py",
        "                consumer.disconnect()\n",
        "                pass\n",
        COMMANDS,
    ),
    Mutant(
        "open producers go on when their right is gone",
        PULSAR + "services/clients/rights.py",
        "                producer.owner.disconnect(producer.key)\n",
        "                pass\n",
        COMMANDS,
    ),
    Mutant(
        "watchers of topics go on when their right is gone",
        PULSAR + "services/clients/rights.py",
        "                connection.kill()\n",
        "                pass\n",
        COMMANDS,
    ),
    Mutant(
        "a proof is renewed as somebody else",
        PULSAR + "session/connection/connection.py",
        "            if event.caller.role != self._caller.role:\n",
        "            if not event.caller.role:\n",
        COMMANDS,
    ),
    Mutant(
        "whoever proves nothing is let in",
        PULSAR + "services/clients/authenticator.py",
        "        if self._anonymous:\n            return Grant(self._anonymous)\n",
        "        return Grant(self._anonymous)\n",
        COMMANDS,
    ),
    Mutant(
        "calls of administrators are answered without looking at their rules",
        PULSAR + "admin/api.py",
        "        check(route.rule, context, request)\n",
        "",
        ROUTES,
    ),
    Mutant(
        "permissions over several topics are anybody's to grant",
        PULSAR + "admin/policies/permissions.py",
        '    check_admin(context, request, namespaces.pop().partition("/")[0])\n',
        "",
        ROUTES,
    ),
    Mutant(
        "a user of this machine is a super user from everywhere",
        "broker/arneb/logins/principals.py",
        "        if user is None or self._is_loopback_only(user.name):\n",
        "        if user is None:\n",
        PRINCIPALS,
    ),
    Mutant(
        "roles are users though the settings say that they are not",
        "broker/arneb/logins/principals.py",
        "role if self._same_names else None",
        "role",
        PRINCIPALS,
    ),
    Mutant(
        "Arneb's own paths are for every user",
        "broker/arneb/http/access/rules.py",
        "        if visitor is None or visitor.may(self.rule.who):\n",
        "        if visitor is None or visitor.may(Who.TOPICS):\n",
        OWN_PATHS,
    ),
    Mutant(
        "every role of Pulsar's is an administrator of the HTTP port",
        "broker/arneb/http/access/guarded.py",
        "Visitor(is_super=self._is_super(caller))",
        "Visitor(is_super=True)",
        OWN_PATHS,
    ),
    Mutant(
        "roles read every topic by the data API",
        "broker/arneb/data/granted.py",
        "        if caller is None or caller is NOBODY or not self._authorizer.enabled:\n",
        "        if caller is None or caller is not None:\n",
        OWN_PATHS,
    ),
    Mutant(
        "a certificate that was renewed is not shown",
        "broker/arneb/listening/certificates.py",
        "        listener.handshakes.use(context)\n",
        "",
        CERTIFICATES,
    ),
    Mutant(
        "certificates are read while they are being written",
        "broker/arneb/listening/certificates.py",
        "            settled = seen == each.looked\n",
        "            settled = True\n",
        CERTIFICATES,
    ),
    Mutant(
        "whoever guesses tokens is answered at once",
        "pulsar_frontend/arneb_pulsar/services/clients/authenticator.py",
        "                await guesser.refused()\n",
        "                await trio.sleep(0)\n",
        ("tests/pulsar_frontend/services/clients/test_guesses.py",),
    ),
    Mutant(
        "a client without credentials waits longer each time until it is refused",
        "pulsar_frontend/arneb_pulsar/services/clients/authenticator.py",
        "        if not (address and method in GUESSED):\n",
        "        if not address:\n",
        ("tests/pulsar_frontend/services/clients/test_guesses.py",),
    ),
)
