"""Mutants of authorization: mistakes that give a Pulsar role what nobody granted.

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
        "of a proxy and the role it acts for, one needs the right",
        AUTHORIZER,
        "            and all(\n                self._allows_topic(",
        "            and any(\n                self._allows_topic(",
        MODEL,
    ),
    Mutant(
        "any client may act for others",
        PULSAR + "authorization/callers.py",
        "        elif self.original:\n",
        '        elif self.original == "-":\n',
        MODEL,
    ),
    Mutant(
        "a role without a right on a tenant learns whether it exists",
        PULSAR + "admin/calls/rules.py",
        "    if rule.scope in INSIDE and rule.name not in TENANT_ITSELF:\n",
        "    if rule.scope in INSIDE:\n",
        ROUTES,
    ),
    Mutant(
        "a grant on a namespace extends to the whole tenant",
        AUTHORIZER,
        "        permissions = [of_namespace.permissions, self._of(topic)]\n",
        "        permissions = [of_namespace.permissions, self._of(topic)]\n"
        '        other = f"{_tenant(topic.namespace)}/n"\n'
        "        permissions.append(self._granted.namespace_policies(other).permissions)\n",
        MODEL,
    ),
    Mutant(
        "a grant on a partition applies to all partitions",
        AUTHORIZER,
        "            permissions.append(self._of(topic.base))\n",
        "            permissions += [self._of(topic.base.part(i)) for i in (0, 1)]\n",
        MODEL,
    ),
    Mutant(
        "a subscription permission for some applies to all",
        AUTHORIZER,
        "            if roles and role not in roles:\n",
        "            if roles and not role:\n",
        MODEL,
    ),
    Mutant(
        "the administrator of one tenant administers the others",
        AUTHORIZER,
        'self._granted.tenant(tenant).get("adminRoles", ())',
        '[*self._granted.tenant(tenant).get("adminRoles", ()),\n'
        '         *self._granted.tenant("t").get("adminRoles", ())]',
        MODEL,
    ),
    Mutant(
        "patterns are applied though they are not enabled",
        AUTHORIZER,
        "        if not self._config.wildcards:\n",
        "        if self._config.wildcards and not permissions:\n",
        MODEL,
    ),
    Mutant(
        "a queue's topic is limited by Pulsar's permissions alone",
        AUTHORIZER,
        "        if not self._reaches(role, topic, rights(operation)):\n",
        "        if not topic.local:\n",
        (*MODEL, *PRINCIPALS),
    ),
    Mutant(
        "a command is carried out before its rule is checked",
        PULSAR + "session/connection/connection.py",
        "                if refusal is not None:\n",
        "                if refusal is not None and kind != BaseCommand.LOOKUP:\n",
        COMMANDS,
    ),
    Mutant(
        "asking for the partitions of an unknown tenant is only refused",
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
        "a subscription's name is not checked on subscribing",
        PULSAR + "session/connection/rules.py",
        'TopicNeed(TopicOperation.CONSUME, "subscription")',
        "TopicNeed(TopicOperation.CONSUME)",
        COMMANDS,
    ),
    Mutant(
        "open consumers continue when their right is removed",
        PULSAR + "services/clients/rights.py",
        "                consumer.disconnect()\n",
        "                pass\n",
        COMMANDS,
    ),
    Mutant(
        "open producers continue when their right is removed",
        PULSAR + "services/clients/rights.py",
        "                producer.owner.disconnect(producer.key)\n",
        "                pass\n",
        COMMANDS,
    ),
    Mutant(
        "watchers of topics continue when their right is removed",
        PULSAR + "services/clients/rights.py",
        "                connection.kill()\n",
        "                pass\n",
        COMMANDS,
    ),
    Mutant(
        "authentication is renewed as another role",
        PULSAR + "session/connection/connection.py",
        "            if event.caller.role != self._caller.role:\n",
        "            if not event.caller.role:\n",
        COMMANDS,
    ),
    Mutant(
        "a client without credentials is admitted",
        PULSAR + "services/clients/authenticator.py",
        "        if self._anonymous:\n            return Grant(self._anonymous)\n",
        "        return Grant(self._anonymous)\n",
        COMMANDS,
    ),
    Mutant(
        "administrators' requests are answered without checking their rules",
        PULSAR + "admin/api.py",
        "        check(route.rule, context, request)\n",
        "",
        ROUTES,
    ),
    Mutant(
        "anybody may grant permissions over several topics",
        PULSAR + "admin/policies/permissions.py",
        '    check_admin(context, request, namespaces.pop().partition("/")[0])\n',
        "",
        ROUTES,
    ),
    Mutant(
        "a user restricted to this machine is a super user remotely",
        "broker/arneb/logins/principals.py",
        "        if user is None or self._is_loopback_only(user.name):\n",
        "        if user is None:\n",
        PRINCIPALS,
    ),
    Mutant(
        "roles are users though the settings say otherwise",
        "broker/arneb/logins/principals.py",
        "role if self._same_names else None",
        "role",
        PRINCIPALS,
    ),
    Mutant(
        "Arneb's own paths are open to every user",
        "broker/arneb/http/access/rules.py",
        "        if visitor is None or visitor.may(self.rule.who):\n",
        "        if visitor is None or visitor.may(Who.TOPICS):\n",
        OWN_PATHS,
    ),
    Mutant(
        "every Pulsar role is an administrator of the HTTP port",
        "broker/arneb/http/access/guarded.py",
        "Visitor(is_super=self._is_super(caller))",
        "Visitor(is_super=True)",
        OWN_PATHS,
    ),
    Mutant(
        "every role ends everybody's transactions",
        "pulsar_frontend/arneb_pulsar/services/clients/rights.py",
        "        return None if is_above else caller\n",
        "        return None\n",
        COMMANDS,
    ),
    Mutant(
        "a super user ends only transactions of its own",
        "pulsar_frontend/arneb_pulsar/services/clients/rights.py",
        "        return None if is_above else caller\n",
        "        return caller\n",
        COMMANDS,
    ),
    Mutant(
        "roles may read every topic through the data API",
        "broker/arneb/data/granted.py",
        "        if caller is None or caller is NOBODY or not self._authorizer.enabled:\n",
        "        if caller is None or caller is not None:\n",
        OWN_PATHS,
    ),
    Mutant(
        "a renewed certificate is not shown",
        "broker/arneb/listening/certificates.py",
        "        listener.handshakes.use(context)\n",
        "",
        CERTIFICATES,
    ),
    Mutant(
        "certificates are read while they are being written",
        "broker/arneb/listening/certificates.py",
        "            is_unchanged = seen == each.looked\n",
        "            is_unchanged = True\n",
        CERTIFICATES,
    ),
    Mutant(
        "a client that guesses tokens is answered at once",
        "pulsar_frontend/arneb_pulsar/services/clients/authenticator.py",
        "                await guesser.refused()\n",
        "                await trio.sleep(0)\n",
        ("tests/pulsar_frontend/services/clients/test_guesses.py",),
    ),
    Mutant(
        "a client without credentials is delayed longer each time",
        "pulsar_frontend/arneb_pulsar/services/clients/authenticator.py",
        "        if not (address and method in GUESSED):\n",
        "        if not address:\n",
        ("tests/pulsar_frontend/services/clients/test_guesses.py",),
    ),
    Mutant(
        "administrators of a tenant set delayed delivery for a namespace",
        PULSAR + "admin/namespaces/policy_kinds.py",
        "    replace(DELAYED, writers=SUPER_USER),\n",
        "    DELAYED,\n",
        ROUTES,
    ),
    Mutant(
        "a reader is told which topics a namespace has in a bundle",
        PULSAR + "admin/namespaces/bundles.py",
        '        on_policy("PERSISTENCE", writes=False, of_topic=False),\n',
        "        on_namespace(NamespaceOperation.GET_BUNDLE),\n",
        ROUTES,
    ),
    Mutant(
        "who calls this machine by its name is told its address",
        PULSAR + "admin/topics/lookup.py",
        '    replaced = EVERYWHERE | THIS_MACHINE if name == "localhost" else EVERYWHERE\n',
        "    replaced = EVERYWHERE\n",
        ("tests/pulsar_frontend/admin/test_admin.py",),
    ),
)
