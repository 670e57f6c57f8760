"""Principals: which AMQP users the Pulsar roles are.

The rule: only the settings decide it. A role that is no user has what Pulsar's permissions grant; a
role that is a user has no more rights on a queue than the user.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from arneb_amqp.topology.names import SCHEME, decode
from arneb_core.access.catalogue import Catalogue
from arneb_core.access.records import User
from arneb_core.access.rights import Right, may
from arneb_pulsar.config import NO_AUTHORIZATION, AuthorizationConfig


@dataclass(frozen=True, slots=True)
class PrincipalTable:
    """A role of Pulsar's and a user of AMQP who are one and the same."""

    role: str
    """The authenticated role: a token's subject, a user name, or a certificate's name."""
    user: str
    """The AMQP user's name."""


@dataclass(frozen=True, slots=True)
class AccessTable:
    """Who may do what, through either protocol. Over AMQP and the management API, users always need
    RabbitMQ's permissions. Over Pulsar's protocol and admin API, roles need Pulsar's permissions if
    that is enabled here."""

    authorization: AuthorizationConfig = NO_AUTHORIZATION
    same_names: bool = True
    """A Pulsar role and an AMQP user with the same name are the same person: an administrator there
    is a super user here, and what the user may not do to a queue, the role may not do to its topic.
    Users in ``amqp.loopback_users`` are never super users."""
    principals: tuple[PrincipalTable, ...] = ()
    """Others who are one and the same, each with ``role`` and ``user``. They count before
    ``same_names``."""

    def __post_init__(self) -> None:
        roles = [each.role for each in self.principals]
        twice = {role for role in roles if roles.count(role) > 1}
        if twice:
            raise ValueError(f"principals: expected each role once, got {sorted(twice)}")


DEFAULT_ACCESS: Final = AccessTable()

ADMINISTRATOR: Final = "administrator"


def queue_in(topic: str) -> tuple[str, str]:
    """Return a topic's namespace, and the name of the queue that it would be; empty if none can."""
    if not topic.startswith(SCHEME):
        return "", ""
    namespace, _, local = topic.removeprefix(SCHEME).rpartition("/")
    return namespace, decode(local)


class RolesAsUsers:
    """Maps roles to users (:class:`arneb_pulsar.authorization.authorizer.Users`)."""

    def __init__(
        self,
        table: AccessTable,
        catalogue: Catalogue,
        has_queue: Callable[[str, str], bool],
        is_loopback_only: Callable[[str], bool],
    ) -> None:
        """``has_queue`` tells whether a vhost has a queue of a name."""
        self._named = {each.role: each.user for each in table.principals}
        self._same_names = table.same_names
        self._catalogue = catalogue
        self._has_queue = has_queue
        self._is_loopback_only = is_loopback_only

    def __repr__(self) -> str:
        same = ", and those of the same name" if self._same_names else ""
        return f"<RolesAsUsers {len(self._named)} named{same}>"

    def is_administrator(self, role: str) -> bool:
        """Whether the role is an administrator who may connect from anywhere."""
        user = self._user(role)
        if user is None or self._is_loopback_only(user.name):
            return False
        return ADMINISTRATOR in user.tags

    def may(self, role: str, topic: str, right: Right) -> bool:
        """Return False if the topic is a queue, and the role a user without that right on it."""
        user = self._user(role)
        if user is None:
            return True
        namespace, queue = queue_in(topic)
        vhost = self._catalogue.vhost_of(namespace)
        if vhost is None or not self._has_queue(vhost.name, queue):
            return True
        return may(self._catalogue.tables, user.name, vhost.name, right, queue)

    def _user(self, role: str) -> User | None:
        name = self._named.get(role, role if self._same_names else None)
        return None if name is None else self._catalogue.get(User, name)
