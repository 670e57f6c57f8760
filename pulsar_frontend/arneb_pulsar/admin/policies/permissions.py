"""Permissions: who may do what in a namespace, with a topic, and with a subscription.

The rule: a grant or revocation is durable before the call is answered, and by then applies to every
open connection.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from arneb_core.api.encoding.json_text import is_text
from arneb_pulsar.admin.calls.paths import topic_in
from arneb_pulsar.admin.calls.requests import DONE, AdminError, AdminReply, AdminRequest, document
from arneb_pulsar.admin.calls.router import Route
from arneb_pulsar.admin.calls.rules import ADMIN, anybody, check_admin, on_namespace, on_policy
from arneb_pulsar.admin.namespaces.namespaces import PATH, namespace_of
from arneb_pulsar.admin.topics.topics import routes_of_topics
from arneb_pulsar.authorization.operations import NamespaceOperation
from arneb_pulsar.names import InvalidTopicName, TopicName, parse_topic
from arneb_pulsar.namespaces.coercion import is_nothing
from arneb_pulsar.namespaces.fields import read_actions, read_texts
from arneb_pulsar.namespaces.policies import Policies
from arneb_pulsar.namespaces.rules import SubscriptionAuthMode
from arneb_pulsar.services.context import BrokerContext

MALFORMED: Final = 400

CHANGES_MAX: Final = 1_000
"""Topics that one call may name."""

Change = Callable[[Policies], Policies]


async def _set_namespace(context: BrokerContext, namespace: str, change: Change) -> AdminReply:
    await context.namespaces.change_namespace(namespace, change)
    await context.rights.look()
    return DONE


async def _set_topics(context: BrokerContext, changes: Mapping[str, Change]) -> AdminReply:
    await context.namespaces.change_topic_policies(changes)
    await context.rights.look()
    return DONE


def granted(role: str, actions: Sequence[str]) -> Change:
    """Return the change after which the role may do exactly this."""
    return lambda own: replace(own, permissions={**own.permissions, role: actions})


def revoked(role: str) -> Change:
    """Return the change after which the role may do nothing."""
    return lambda own: replace(
        own, permissions={name: it for name, it in own.permissions.items() if name != role}
    )


def _role(request: AdminRequest) -> str:
    role = request.names["role"]
    if not role.strip() or not is_text(role):
        raise AdminError(412, "Role should not be empty")
    return role


def _actions(value: Any) -> list[str]:
    try:
        return read_actions(value)
    except ValueError as error:
        raise AdminError(MALFORMED, str(error)) from error


# Of namespaces


async def get_of_namespace(context: BrokerContext, request: AdminRequest) -> AdminReply:
    own = context.namespaces.namespace_policies(namespace_of(context, request))
    return document({role: list(actions) for role, actions in own.permissions.items()})


async def grant_in_namespace(context: BrokerContext, request: AdminRequest) -> AdminReply:
    namespace, role = namespace_of(context, request), _role(request)
    return await _set_namespace(context, namespace, granted(role, _actions(request.json())))


async def revoke_in_namespace(context: BrokerContext, request: AdminRequest) -> AdminReply:
    namespace, role = namespace_of(context, request), request.names["role"]
    return await _set_namespace(context, namespace, revoked(role))


# Of topics; for a partition, only its own


def _topic(context: BrokerContext, request: AdminRequest) -> TopicName:
    return _there(context, topic_in(request))


def _there(context: BrokerContext, topic: TopicName) -> TopicName:
    if not context.topics.exists(topic):
        raise AdminError(404, f"Topic {topic} not found")
    return topic


async def get_of_topic(context: BrokerContext, request: AdminRequest) -> AdminReply:
    """Return a topic's permissions, including those of its namespace."""
    topic = _topic(context, request)
    found: dict[str, list[str]] = {}
    for policies in (
        context.namespaces.namespace_policies(topic.namespace),
        context.namespaces.topic_policies(str(topic)),
    ):
        for role, actions in policies.permissions.items():
            found[role] = list(dict.fromkeys([*found.get(role, []), *actions]))
    return document(found)


async def grant_on_topic(context: BrokerContext, request: AdminRequest) -> AdminReply:
    topic, role = _topic(context, request), _role(request)
    return await _set_topics(context, {str(topic): granted(role, _actions(request.json()))})


async def revoke_on_topic(context: BrokerContext, request: AdminRequest) -> AdminReply:
    """Revoke a role's permissions on a topic and its partitions."""
    topic, change = _topic(context, request), revoked(request.names["role"])
    parts = context.topics.parts(topic) if context.namespaces.partitions(topic) else []
    return await _set_topics(context, {str(each): change for each in (topic, *parts)})


async def grant_on_topics(context: BrokerContext, request: AdminRequest) -> AdminReply:
    return await _set_topics(context, _wanted(context, request, _grant))


async def revoke_on_topics(context: BrokerContext, request: AdminRequest) -> AdminReply:
    return await _set_topics(context, _wanted(context, request, _revoke))


def _grant(each: Mapping[str, Any]) -> Change:
    return granted(each["role"], _actions(each.get("actions")))


def _revoke(each: Mapping[str, Any]) -> Change:
    return revoked(each["role"])


def _wanted(
    context: BrokerContext, request: AdminRequest, change_of: Callable[[Mapping[str, Any]], Change]
) -> dict[str, Change]:
    """Return the changes that a list requests, all in one namespace. Raises :class:`AdminError`."""
    listed = request.json()
    if not isinstance(listed, list) or not 0 < len(listed) <= CHANGES_MAX:
        raise AdminError(MALFORMED, f"expected a list of 1 to {CHANGES_MAX} topics with roles")
    read: list[tuple[TopicName, Change]] = []
    for each in listed:
        if not isinstance(each, dict) or not isinstance(each.get("role"), str):
            raise AdminError(MALFORMED, f"expected topic, role and actions, got {each!r:.60}")
        try:
            topic = parse_topic(str(each.get("topic")))
        except InvalidTopicName as error:
            raise AdminError(412, f"Topic name is not valid: {error}") from error
        read.append((topic, change_of(each)))
    namespaces = {topic.namespace for topic, _ in read}
    if len(namespaces) > 1:
        raise AdminError(412, "The namespace should be the same")
    check_admin(context, request, namespaces.pop().partition("/")[0])
    changes: dict[str, Change] = {}
    for topic, change in read:
        name = str(_there(context, topic))
        changes[name] = _both(changes[name], change) if name in changes else change
    return changes


def _both(first: Change, second: Change) -> Change:
    return lambda own: second(first(own))


# Of subscriptions


async def get_of_subscriptions(context: BrokerContext, request: AdminRequest) -> AdminReply:
    own = context.namespaces.namespace_policies(namespace_of(context, request))
    return document({name: list(roles) for name, roles in own.subscription_roles.items()})


async def grant_on_subscription(context: BrokerContext, request: AdminRequest) -> AdminReply:
    namespace, name = namespace_of(context, request), request.names["subscription"]
    try:
        roles = read_texts(request.json())
    except ValueError as error:
        raise AdminError(MALFORMED, str(error)) from error
    return await _set_namespace(
        context,
        namespace,
        lambda own: replace(own, subscription_roles={**own.subscription_roles, name: roles}),
    )


async def revoke_on_subscription(context: BrokerContext, request: AdminRequest) -> AdminReply:
    """Revoke a role's permission on a subscription; one without roles is open to all who may
    consume."""
    namespace, name = namespace_of(context, request), request.names["subscription"]
    role = request.names["role"]

    def change(own: Policies) -> Policies:
        if name not in own.subscription_roles:
            raise AdminError(412, "couldn't find subscription")
        left = [each for each in own.subscription_roles[name] if each != role]
        others = {key: it for key, it in own.subscription_roles.items() if key != name}
        return replace(own, subscription_roles=others | ({name: left} if left else {}))

    return await _set_namespace(context, namespace, change)


async def get_auth_mode(context: BrokerContext, request: AdminRequest) -> AdminReply:
    own = context.namespaces.namespace_policies(namespace_of(context, request))
    return document((own.subscription_auth_mode or SubscriptionAuthMode.NONE).document)


async def set_auth_mode(context: BrokerContext, request: AdminRequest) -> AdminReply:
    namespace, wanted = namespace_of(context, request), request.given()
    try:
        mode = (
            SubscriptionAuthMode.NONE if is_nothing(wanted) else SubscriptionAuthMode.parse(wanted)
        )
    except ValueError as error:
        raise AdminError(MALFORMED, str(error)) from error
    return await _set_namespace(
        context, namespace, lambda own: replace(own, subscription_auth_mode=mode)
    )


_GET: Final = on_namespace(NamespaceOperation.GET_PERMISSION)
_GRANT: Final = on_namespace(NamespaceOperation.GRANT_PERMISSION)
_REVOKE: Final = on_namespace(NamespaceOperation.REVOKE_PERMISSION)
_IN_BODY: Final = anybody("the tenant is in the body, and its administrators are asked for there")
_MODE: Final = "SUBSCRIPTION_AUTH_MODE"
_READ_MODE: Final = on_policy(_MODE, writes=False, of_topic=False)
_SET_MODE: Final = on_policy(_MODE, writes=True, of_topic=False)

ROUTES: Final[list[Route]] = [
    Route("GET", PATH + "/permissions", _GET, get_of_namespace),
    Route("POST", PATH + "/permissions/{role}", _GRANT, grant_in_namespace),
    Route("DELETE", PATH + "/permissions/{role}", _REVOKE, revoke_in_namespace),
    Route("GET", PATH + "/permissions/subscription", _GET, get_of_subscriptions),
    Route("POST", PATH + "/permissions/subscription/{subscription}", _GRANT, grant_on_subscription),
    Route("DELETE", PATH + "/permissions/{subscription}/{role}", _REVOKE, revoke_on_subscription),
    Route("GET", PATH + "/subscriptionAuthMode", _READ_MODE, get_auth_mode),
    Route("POST", PATH + "/subscriptionAuthMode", _SET_MODE, set_auth_mode),
    Route("POST", "/admin/v2/namespaces/grantPermissionsOnTopics", _IN_BODY, grant_on_topics),
    Route("POST", "/admin/v2/namespaces/revokePermissionsOnTopics", _IN_BODY, revoke_on_topics),
    *routes_of_topics(
        Route("GET", "/{topic}/permissions", ADMIN, get_of_topic),
        Route("POST", "/{topic}/permissions/{role}", ADMIN, grant_on_topic),
        Route("DELETE", "/{topic}/permissions/{role}", ADMIN, revoke_on_topic),
    ),
]
