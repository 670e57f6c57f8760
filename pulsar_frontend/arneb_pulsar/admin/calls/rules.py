"""Rules: who may make a call.

The rule: every route has one, and a rule that admits everybody says why. The refusals, their texts
and statuses are Pulsar's: 401 for topics, tenants and super users, 403 for namespaces and for
policies.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Final

from arneb_pulsar.admin.calls.paths import namespace_in, topic_in
from arneb_pulsar.admin.calls.requests import AdminError, AdminRequest
from arneb_pulsar.authorization.authorizer import PrefixNeeded
from arneb_pulsar.authorization.operations import NamespaceOperation, TopicOperation
from arneb_pulsar.services.context import BrokerContext


class Scope(Enum):
    """What a right applies to."""

    NOTHING = "nothing"
    """Every caller that was admitted may do it."""
    SUPER_USER = "everything"
    ADMIN = "the tenant"
    TENANT = "an operation on the tenant"
    NAMESPACE = "an operation on the namespace"
    NAMESPACE_POLICY = "a policy of the namespace"
    TOPIC = "an operation on the topic"
    TOPIC_POLICY = "a policy of the topic"


INSIDE: Final = (
    Scope.TENANT,
    Scope.NAMESPACE,
    Scope.NAMESPACE_POLICY,
    Scope.TOPIC,
    Scope.TOPIC_POLICY,
)
"""Scopes that need an existing tenant."""

TENANT_ITSELF: Final = ("GET_TENANT", "UPDATE_TENANT", "DELETE_TENANT")
"""Operations that tell callers without the right nothing about the tenant."""


@dataclass(frozen=True, slots=True)
class Rule:
    """Who may make a call; if everybody may, with the reason."""

    scope: Scope
    operation: TopicOperation | NamespaceOperation | None = None
    name: str = ""
    """The name of a policy or of an operation on a tenant, in Pulsar's words."""
    writes: bool = False
    """The call changes a policy."""
    reason: str = ""

    def __post_init__(self) -> None:
        assert (self.scope is Scope.NOTHING) == bool(self.reason), "expected a reason for no right"


SUPER_USER: Final = Rule(Scope.SUPER_USER)
ADMIN: Final = Rule(Scope.ADMIN)


def anybody(reason: str) -> Rule:
    """Every caller that was admitted may do it."""
    return Rule(Scope.NOTHING, reason=reason)


def on_tenant(name: str) -> Rule:
    """Return the rule of an operation on the tenant, by Pulsar's name."""
    return Rule(Scope.TENANT, name=name)


def on_namespace(operation: NamespaceOperation) -> Rule:
    """Return the rule of an operation on the namespace in the path."""
    return Rule(Scope.NAMESPACE, operation)


def on_topic(operation: TopicOperation) -> Rule:
    """Return the rule of an operation on the topic in the path, and on the subscription if there is
    one."""
    return Rule(Scope.TOPIC, operation)


def on_policy(name: str, *, writes: bool, of_topic: bool) -> Rule:
    """Return the rule of a policy, by Pulsar's name."""
    scope = Scope.TOPIC_POLICY if of_topic else Scope.NAMESPACE_POLICY
    return Rule(scope, name=name, writes=writes)


def check(rule: Rule, context: BrokerContext, request: AdminRequest) -> None:
    """Raise :class:`AdminError` unless the caller may make the call."""
    authorizer, caller = context.authorizer, request.caller
    if not authorizer.enabled:
        return
    if rule.scope in INSIDE and rule.name not in TENANT_ITSELF:
        _check_tenant(context, request)
    match rule.scope:
        case Scope.NOTHING:
            return
        case Scope.SUPER_USER:
            if authorizer.flaw(caller):
                raise AdminError(401, INVALID_PAIR)
            if not authorizer.is_super(caller):
                raise AdminError(401, "This operation requires super-user access")
        case Scope.ADMIN:
            check_admin(context, request, request.names["tenant"])
        case Scope.TENANT:
            tenant = request.names["tenant"]
            if not authorizer.is_admin(caller, tenant):
                who = f"originalPrincipal [{caller.original or 'null'}] and clientAppId"
                text = f"{who} [{caller.role}] about operation [{rule.name}] on tenant [{tenant}]"
                raise AdminError(401, f"Unauthorized to validateTenantOperation for {text}")
        case Scope.NAMESPACE:
            _check_namespace(rule, context, request)
        case Scope.NAMESPACE_POLICY:
            tenant = request.names["tenant"]
            if not authorizer.is_admin(caller, tenant):
                what = f"namespace [{namespace_in(request)}] on policy [{rule.name}]"
                text = f"validateNamespacePolicyOperation for operation [{_does(rule)}] on {what}"
                raise AdminError(403, f"Unauthorized to {text}")
        case Scope.TOPIC:
            _check_topic(rule, context, request)
        case Scope.TOPIC_POLICY:
            topic = topic_in(request)
            if not authorizer.allows_policies(caller, topic):
                text = f"for operation [{_does(rule)}] on topic [{topic}] on policy [{rule.name}]"
                raise AdminError(403, f"Unauthorized to validateTopicPolicyOperation {text}")


def check_admin(context: BrokerContext, request: AdminRequest, tenant: str) -> None:
    """Raise :class:`AdminError` unless the caller administrates that tenant."""
    authorizer, caller = context.authorizer, request.caller
    if authorizer.enabled and tenant not in context.namespaces.tenants:
        raise AdminError(404, "Tenant does not exist")
    if authorizer.flaw(caller):
        raise AdminError(401, INVALID_PAIR)
    if not authorizer.is_admin(caller, tenant):
        text = "Don't have permission to administrate resources on this tenant"
        raise AdminError(401, text)


def _check_tenant(context: BrokerContext, request: AdminRequest) -> None:
    """Raise :class:`AdminError` if the tenant does not exist. It is not checked for super users:
    the answer to their call tells them."""
    authorizer, caller = context.authorizer, request.caller
    if authorizer.has_tenant(request.names["tenant"]) or authorizer.flaw(caller):
        return
    if not authorizer.is_super(caller):
        raise AdminError(404, "Tenant does not exist")


def _check_namespace(rule: Rule, context: BrokerContext, request: AdminRequest) -> None:
    operation = rule.operation
    assert isinstance(operation, NamespaceOperation)
    namespace = namespace_in(request)
    if not context.authorizer.allows_namespace(request.caller, namespace, operation):
        what = f"operation [{operation.name}] on namespace [{namespace}]"
        raise AdminError(403, f"Unauthorized to validateNamespaceOperation for {what}")
    # Creating and removing a topic that is a queue needs more than rights on its namespace.
    makes = operation in (NamespaceOperation.CREATE_TOPIC, NamespaceOperation.DELETE_TOPIC)
    if makes and not context.authorizer.reaches(request.caller, topic_in(request)):
        what = f"operation [{operation.name}] on topic [{topic_in(request)}]"
        raise AdminError(403, f"Unauthorized to validateNamespaceOperation for {what}")


def _check_topic(rule: Rule, context: BrokerContext, request: AdminRequest) -> None:
    operation, topic = rule.operation, topic_in(request)
    assert isinstance(operation, TopicOperation)
    subscription = request.names.get("subscription", "")
    try:
        if context.authorizer.allows_topic(request.caller, topic, operation, subscription):
            return
    except PrefixNeeded as error:
        raise AdminError(401, str(error)) from error
    what = f"operation [{operation.name}] on topic [{topic}]"
    raise AdminError(401, f"Unauthorized to validateTopicOperation for {what}")


def _does(rule: Rule) -> str:
    return "WRITE" if rule.writes else "READ"


INVALID_PAIR: Final = (
    "Invalid combination of Original principal cannot be empty if the request is via proxy."
)
