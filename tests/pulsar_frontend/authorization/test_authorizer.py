"""The authorizer against a model that knows only what was granted, written the other way round."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arneb_core.access.rights import Right
from arneb_pulsar.authorization.authorizer import NO_USERS, Authorizer, PrefixNeeded
from arneb_pulsar.authorization.callers import Caller
from arneb_pulsar.authorization.operations import ACTIONS, NamespaceOperation, TopicOperation
from arneb_pulsar.config import AuthorizationConfig
from arneb_pulsar.names import TopicName
from arneb_pulsar.namespaces.policies import Policies
from arneb_pulsar.namespaces.rules import SubscriptionAuthMode

ROLES = ("ann", "bob", "boss", "relay", "relay-2")
NAMESPACES = ("t/n", "t/m", "u/n")
TOPICS = tuple(
    TopicName("persistent", namespace, local)
    for namespace in NAMESPACES
    for local in ("x", "y", "p", "p-partition-0", "p-partition-1")
)
TAKEN = ("produce", "consume", "functions")
OPERATIONS = (*TopicOperation, *NamespaceOperation)


@dataclass
class Stored:
    """What was granted."""

    admins: Mapping[str, Sequence[str]] = field(default_factory=dict)
    namespaces: Mapping[str, Policies] = field(default_factory=dict)
    topics: Mapping[str, Policies] = field(default_factory=dict)

    def tenant(self, name: str) -> Mapping[str, Any]:
        return {"adminRoles": self.admins[name]} if name in self.admins else {}

    def has_tenant(self, name: str) -> bool:
        return name in self.admins

    def namespace_policies(self, namespace: str) -> Policies:
        return self.namespaces.get(namespace, Policies())

    def topic_policies(self, topic: str) -> Policies:
        return self.topics.get(topic, Policies())


@dataclass(frozen=True)
class Limited:
    """Users who lack rights on queues."""

    lacking: frozenset[tuple[str, str, Right]] = frozenset()
    administrators: frozenset[str] = frozenset()

    def is_administrator(self, role: str) -> bool:
        return role in self.administrators

    def may(self, role: str, topic: str, right: Right) -> bool:
        return (role, topic, right) not in self.lacking


roles = st.sampled_from(ROLES)
grants = st.dictionaries(roles, st.lists(st.sampled_from(TAKEN), unique=True), max_size=3)
policies = st.builds(
    Policies,
    permissions=grants,
    subscription_roles=st.dictionaries(
        st.sampled_from(["s", "ann-s"]), st.lists(roles, unique=True), max_size=2
    ),
    subscription_auth_mode=st.sampled_from([None, *SubscriptionAuthMode]),
)
stores = st.builds(
    Stored,
    admins=st.dictionaries(st.sampled_from(["t", "u"]), st.lists(roles, unique=True)),
    namespaces=st.dictionaries(st.sampled_from(NAMESPACES), policies),
    topics=st.dictionaries(
        st.sampled_from(TOPICS).map(str), st.builds(Policies, permissions=grants)
    ),
)
users = st.builds(
    Limited,
    lacking=st.frozensets(
        st.tuples(roles, st.sampled_from(TOPICS).map(str), st.sampled_from(Right)), max_size=8
    ),
    administrators=st.frozensets(roles, max_size=1),
)
CONFIG = AuthorizationConfig(True, super_user_roles=("boss",), proxy_roles=("relay", "relay-2"))


def modelled(
    stored: Stored, limited: Limited, role: str, topic: TopicName, actions: Sequence[str]
) -> set[str]:
    """Why a role may do one of these: every grant that says so."""
    found = set[str]()
    tenant = topic.namespace.split("/")[0]
    if role == "boss" or role in limited.administrators:
        return {"super"}
    if role in stored.admins.get(tenant, []):
        found.add("admin")
    places = {"namespace": stored.namespace_policies(topic.namespace)}
    whole = TopicName("persistent", topic.namespace, "p")
    names = {str(topic), *([str(whole)] if topic.local.startswith("p-partition-") else [])}
    places |= {name: kept for name, kept in stored.topics.items() if name in names}
    for place, kept in places.items():
        for action in actions:
            if action in kept.permissions.get(role, []):
                found.add(f"{place} {action}")
    needed = [{"produce": Right.WRITE, "consume": Right.READ}[each] for each in actions]
    if all((role, str(topic), each) in limited.lacking for each in needed or [Right.CONFIGURE]):
        found.clear()
    return found


@given(stores, users, roles, st.sampled_from(TOPICS), st.sampled_from(TopicOperation))
def test_a_topic_is_for_those_who_have_a_grant_and_for_nobody_else(
    stored: Stored, limited: Limited, role: str, topic: TopicName, operation: TopicOperation
) -> None:
    authorizer = Authorizer(CONFIG, stored, limited)
    caller = Caller(role)
    expected = bool(modelled(stored, limited, role, topic, ACTIONS[operation]))
    is_proxy = role in CONFIG.proxy_roles
    assert authorizer.allows_topic(caller, topic, operation) is (expected and not is_proxy)


@given(stores, users, roles, st.sampled_from(TOPICS), st.sampled_from(["s", "ann-s", "other"]))
def test_a_subscription_may_be_for_some_only(
    stored: Stored, limited: Limited, role: str, topic: TopicName, name: str
) -> None:
    authorizer = Authorizer(CONFIG, stored, limited)
    reasons = modelled(stored, limited, role, topic, ("consume",))
    own = stored.namespace_policies(topic.namespace)
    chosen = own.subscription_roles.get(name)
    excluded = bool(chosen) and role not in (chosen or ())
    prefixed = own.subscription_auth_mode is SubscriptionAuthMode.PREFIX
    ruled = excluded or (prefixed and not name.startswith(role))
    expected = bool(reasons) and (not ruled or not reasons.isdisjoint({"super", "admin"}))
    try:
        allowed = authorizer.allows_topic(Caller(role), topic, TopicOperation.CONSUME, name)
    except PrefixNeeded as error:
        allowed = False
        assert f"like {role}-xxxx for topic: {topic}" in str(error)
    assert allowed is (expected and role not in CONFIG.proxy_roles)


@given(stores, roles, st.sampled_from(NAMESPACES), st.sampled_from(NamespaceOperation))
def test_a_namespace_is_for_those_who_have_a_grant_in_it(
    stored: Stored, role: str, namespace: str, operation: NamespaceOperation
) -> None:
    authorizer = Authorizer(CONFIG, stored, NO_USERS)
    own = stored.namespace_policies(namespace).permissions.get(role, [])
    admin = role == "boss" or role in stored.admins.get(namespace.split("/")[0], [])
    expected = admin or not set(ACTIONS[operation]).isdisjoint(own)
    allowed = authorizer.allows_namespace(Caller(role), namespace, operation)
    assert allowed is (expected and role not in CONFIG.proxy_roles)


@given(stores, users, st.sampled_from(["relay", "ann"]), roles | st.just(""),
       st.sampled_from(TOPICS), st.sampled_from(TopicOperation))  # fmt: skip
def test_a_proxy_may_what_both_may(
    stored: Stored, limited: Limited, role: str, original: str, topic: TopicName,
    operation: TopicOperation,
) -> None:  # fmt: skip
    authorizer = Authorizer(CONFIG, stored, limited)
    caller = Caller(role, original)
    allowed = authorizer.allows_topic(caller, topic, operation)
    proxied = role in CONFIG.proxy_roles
    fits = (proxied and original not in ("", *CONFIG.proxy_roles)) or (not proxied and not original)
    each_may = all(
        modelled(stored, limited, one, topic, ACTIONS[operation]) for one in caller.roles
    )
    assert allowed is (fits and each_may)
    assert bool(authorizer.flaw(caller)) is not fits


@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_operation_has_its_actions(operation: TopicOperation | NamespaceOperation) -> None:
    assert set(ACTIONS[operation]) <= {"produce", "consume"}


@pytest.mark.parametrize(
    ("granted", "role", "matches"),
    [("ab*", "abc", True), ("*bc", "abc", True), ("ab*", "a", False), ("*", "abc", True),
     ("a*c", "abc", False), ("abc", "abc", True), ("abc", "abcd", False)],
)  # fmt: skip
def test_patterns_mean_roles_only_where_they_are_asked_for(
    granted: str, role: str, matches: bool
) -> None:
    stored = Stored(namespaces={"t/n": Policies(permissions={granted: ["produce"]})})
    topic = TopicName("persistent", "t/n", "x")
    for wildcards in (True, False):
        authorizer = Authorizer(AuthorizationConfig(True, wildcards=wildcards), stored, NO_USERS)
        expected = matches and (wildcards or granted == role)
        assert authorizer.allows_topic(Caller(role), topic, TopicOperation.PRODUCE) is expected


def test_where_authorization_is_off_everybody_may_do_everything() -> None:
    authorizer = Authorizer(AuthorizationConfig(), Stored(), Limited())
    topic, caller = TopicName("persistent", "t/n", "x"), Caller("nobody", "else")
    assert authorizer.is_super(caller)
    assert authorizer.is_admin(caller, "t")
    assert all(authorizer.allows_topic(caller, topic, each) for each in TopicOperation)
    assert all(authorizer.allows_namespace(caller, "t/n", each) for each in NamespaceOperation)
    assert authorizer.allows_policies(caller, topic)
    assert not authorizer.flaw(caller)


def test_policies_of_a_queue_are_for_those_who_may_configure_it() -> None:
    stored = Stored(admins={"t": ["ann", "bob"]})
    topic = TopicName("persistent", "t/n", "x")
    limited = Limited(frozenset({("ann", str(topic), Right.CONFIGURE)}))
    authorizer = Authorizer(CONFIG, stored, limited)
    assert [authorizer.allows_policies(Caller(each), topic) for each in ROLES] == [
        False, True, True, False, False,
    ]  # fmt: skip
    assert [authorizer.reaches(Caller(each), topic) for each in ROLES[:3]] == [False, True, True]


def test_a_grant_reaches_no_further_than_it_says() -> None:
    """The mistakes that chance meets seldom, by name."""
    may = Policies(permissions={"ann": ["consume"]})
    topics = {
        name: TopicName("persistent", "t/m", name)
        for name in ("p", "p-partition-0", "p-partition-1")
    }
    consume = TopicOperation.CONSUME
    elsewhere = Authorizer(CONFIG, Stored(namespaces={"t/n": may}), NO_USERS)
    assert not elsewhere.allows_topic(Caller("ann"), topics["p"], consume)
    on_part = Stored(topics={str(topics["p-partition-0"]): may})
    of_part = Authorizer(CONFIG, on_part, NO_USERS)
    assert of_part.allows_topic(Caller("ann"), topics["p-partition-0"], consume)
    assert not of_part.allows_topic(Caller("ann"), topics["p-partition-1"], consume)
    assert not of_part.allows_topic(Caller("ann"), topics["p"], consume)
    of_whole = Authorizer(CONFIG, Stored(topics={str(topics["p"]): may}), NO_USERS)
    assert of_whole.allows_topic(Caller("ann"), topics["p-partition-1"], consume)
    chosen = Policies(permissions=may.permissions, subscription_roles={"s": ["bob"]})
    of_some = Authorizer(CONFIG, Stored(namespaces={"t/m": chosen}), NO_USERS)
    assert not of_some.allows_topic(Caller("ann"), topics["p"], consume, "s")
    assert of_some.allows_topic(Caller("ann"), topics["p"], consume, "other")
