"""The authorizer: decides whether a caller may carry out an operation.

The rule: grants only add rights, and anything not granted is refused. A super user may do
everything, an administrator of a tenant everything inside it. For a topic that is an AMQP queue, a
role that is a user also needs the user's rights: neither protocol gets around the other.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Protocol

from arneb_core.access.rights import Right
from arneb_pulsar.authorization.callers import Caller
from arneb_pulsar.authorization.operations import (
    ACTIONS,
    CONSUME,
    Actions,
    NamespaceOperation,
    TopicOperation,
    rights,
)
from arneb_pulsar.config import NO_AUTHORIZATION, AuthorizationConfig
from arneb_pulsar.names import TopicName
from arneb_pulsar.namespaces.policies import Policies
from arneb_pulsar.namespaces.rules import SubscriptionAuthMode

Permissions = Mapping[str, Sequence[str]]
"""Actions by role."""

ANYTHING: Final = "*"


class Granted(Protocol):
    """The current grants."""

    def tenant(self, name: str) -> Mapping[str, Any]:
        """Return a tenant's document, with ``adminRoles`` if it has any."""
        ...

    def has_tenant(self, name: str) -> bool:
        """Whether the tenant was made, or is configured."""
        ...

    def namespace_policies(self, namespace: str) -> Policies:
        """Return a namespace's policies."""
        ...

    def topic_policies(self, topic: str) -> Policies:
        """Return a topic's own policies."""
        ...


class Users(Protocol):
    """Maps roles to AMQP users."""

    def is_administrator(self, role: str) -> bool:
        """Whether the role is a user who may do everything."""
        ...

    def may(self, role: str, topic: str, right: Right) -> bool:
        """Return False if the topic is a queue, and the role a user without that right on it."""
        ...


class NoUsers:
    """No role is a user."""

    def is_administrator(self, role: str) -> bool:
        """Return False."""
        return False

    def may(self, role: str, topic: str, right: Right) -> bool:
        """Refuse nothing."""
        return True


NO_USERS: Final = NoUsers()


class PrefixNeeded(Exception):
    """The subscription's name must begin with the role; the text is for the client."""

    def __init__(self, role: str, topic: TopicName) -> None:
        super().__init__(
            "Failed to create consumer - The subscription name needs to be prefixed by the "
            f"authentication role, like {role}-xxxx for topic: {topic}"
        )


class Authorizer:
    """The authorizer of one broker. If authorization is disabled, everybody may do everything."""

    def __init__(self, config: AuthorizationConfig, granted: Granted, users: Users) -> None:
        self._config = config
        self._granted = granted
        self._users = users

    def __repr__(self) -> str:
        return f"<Authorizer {'on' if self.enabled else 'off'}>"

    @property
    def enabled(self) -> bool:
        """Whether roles need rights."""
        return self._config.enabled

    # Who a caller is

    def flaw(self, caller: Caller) -> str:
        """Return why this caller is refused, for the log; empty if it is not."""
        return caller.flaw(self._config.proxy_roles) if self.enabled else ""

    def is_proxy(self, role: str) -> bool:
        """Whether the role acts on behalf of others."""
        return role in self._config.proxy_roles

    def is_super(self, caller: Caller) -> bool:
        """Whether the caller may do everything."""
        return not self.enabled or (
            not self.flaw(caller) and all(self._is_super(role) for role in caller.roles)
        )

    def is_admin(self, caller: Caller, tenant: str) -> bool:
        """Whether the caller may do everything inside a tenant."""
        return not self.enabled or (
            not self.flaw(caller) and all(self._is_admin(role, tenant) for role in caller.roles)
        )

    def has_tenant(self, namespace: str) -> bool:
        """Whether the namespace's tenant exists."""
        return self._granted.has_tenant(_tenant(namespace))

    # What a caller may do

    def allows_topic(
        self, caller: Caller, topic: TopicName, operation: TopicOperation, subscription: str = ""
    ) -> bool:
        """Whether the caller may carry out an operation on a topic, or on a subscription of it.
        Raises :class:`PrefixNeeded`."""
        return not self.enabled or (
            not self.flaw(caller)
            and all(
                self._allows_topic(role, topic, operation, subscription) for role in caller.roles
            )
        )

    def allows_policies(self, caller: Caller, topic: TopicName) -> bool:
        """Whether the caller may read and change a topic's policies."""
        return not self.enabled or (
            self.is_admin(caller, _tenant(topic.namespace))
            and all(self._reaches(role, topic, (Right.CONFIGURE,)) for role in caller.roles)
        )

    def reaches(self, caller: Caller, topic: TopicName) -> bool:
        """Whether a user's rights let the caller make or remove a topic that is a queue; the
        namespace's permissions are checked elsewhere."""
        return not self.enabled or all(
            self._reaches(role, topic, (Right.CONFIGURE,)) for role in caller.roles
        )

    def allows_namespace(
        self, caller: Caller, namespace: str, operation: NamespaceOperation
    ) -> bool:
        """Whether the caller may carry out an operation on a namespace."""
        return not self.enabled or (
            not self.flaw(caller)
            and all(self._allows_namespace(role, namespace, operation) for role in caller.roles)
        )

    # One role

    def _is_super(self, role: str) -> bool:
        return role in self._config.super_user_roles or self._users.is_administrator(role)

    def _is_admin(self, role: str, tenant: str) -> bool:
        return self._is_super(role) or role in self._granted.tenant(tenant).get("adminRoles", ())

    def _allows_topic(
        self, role: str, topic: TopicName, operation: TopicOperation, subscription: str
    ) -> bool:
        if self._is_super(role):
            return True
        if not self._reaches(role, topic, rights(operation)):
            return False
        if self._is_admin(role, _tenant(topic.namespace)):
            return True
        actions = ACTIONS[operation]
        of_namespace = self._granted.namespace_policies(topic.namespace)
        if subscription and actions == (CONSUME,):
            roles = of_namespace.subscription_roles.get(subscription)
            if roles and role not in roles:
                return False
            prefixed = of_namespace.subscription_auth_mode is SubscriptionAuthMode.PREFIX
            if prefixed and not subscription.startswith(role):
                raise PrefixNeeded(role, topic)
        permissions = [of_namespace.permissions, self._of(topic)]
        if topic.partition >= 0:
            permissions.append(self._of(topic.base))
        return self._is_granted(role, actions, permissions)

    def _reaches(self, role: str, topic: TopicName, needed: Iterable[Right]) -> bool:
        """Whether AMQP would give the role's user one of the rights."""
        return self._is_super(role) or any(
            self._users.may(role, str(topic), right) for right in needed
        )

    def _allows_namespace(self, role: str, namespace: str, operation: NamespaceOperation) -> bool:
        if self._is_admin(role, _tenant(namespace)):
            return True
        granted = self._granted.namespace_policies(namespace).permissions
        return self._is_granted(role, ACTIONS[operation], [granted])

    def _of(self, topic: TopicName) -> Permissions:
        return self._granted.topic_policies(str(topic)).permissions

    def _is_granted(self, role: str, actions: Actions, granted: Iterable[Permissions]) -> bool:
        return any(
            not set(actions).isdisjoint(given)
            for permissions in granted
            for name, given in self._rows(role, permissions)
        )

    def _rows(self, role: str, permissions: Permissions) -> Iterable[tuple[str, Sequence[str]]]:
        """Return the grants to the role, or to patterns that match it."""
        if not self._config.wildcards:
            return [(role, permissions[role])] if role in permissions else []
        return [(name, given) for name, given in permissions.items() if _means(name, role)]


def _means(name: str, role: str) -> bool:
    """Whether a name matches a role: ``abc*`` by its beginning, ``*abc`` by its end, any other name
    only itself."""
    if name == role:
        return True
    if name.endswith(ANYTHING) and role.startswith(name.removesuffix(ANYTHING)):
        return True
    return name.startswith(ANYTHING) and role.endswith(name.removeprefix(ANYTHING))


def _tenant(namespace: str) -> str:
    return namespace.partition("/")[0]


class _Nothing:
    """No grants at all."""

    def tenant(self, name: str) -> Mapping[str, Any]:
        return {}

    def has_tenant(self, name: str) -> bool:
        return False

    def namespace_policies(self, namespace: str) -> Policies:
        return Policies()

    def topic_policies(self, topic: str) -> Policies:
        return Policies()


EVERYBODY_MAY: Final = Authorizer(NO_AUTHORIZATION, _Nothing(), NO_USERS)
"""The authorizer if authorization is disabled."""
