"""Granted rights: what an authenticated user may do, by AMQP's or Pulsar's permissions.

The rule: a topic is the queue of that name in the vhost of its namespace; consuming from it needs
the right to read the queue, producing to it the right to write. Only an administrator may use
topics outside all vhosts. A right that another server would have to decide first is denied.
"""

from starlette.requests import Request

from arneb.data.rights import Everything, Rights
from arneb.http.access.guarded import CALLER, PRINCIPAL
from arneb.logins.principals import ADMINISTRATOR, queue_in
from arneb_amqp.session.rights import named
from arneb_core.access.catalogue import Catalogue
from arneb_core.access.principals import Kind, Principal, Question
from arneb_core.access.rights import Right
from arneb_pulsar.authorization.authorizer import EVERYBODY_MAY, Authorizer, PrefixNeeded
from arneb_pulsar.authorization.callers import NOBODY, Caller
from arneb_pulsar.authorization.operations import TopicOperation
from arneb_pulsar.names import topic_name_of


class Granted:
    """The rights of one user."""

    def __init__(self, principal: Principal, catalogue: Catalogue) -> None:
        self._principal = principal
        self._catalogue = catalogue

    def __repr__(self) -> str:
        return f"<Granted to {self._principal.name!r}>"

    @property
    def name(self) -> str:
        return f"user {self._principal.name}"

    def may_continue(self, owner: str) -> bool:
        """Allow the user's own and ownerless queries; an administrator all."""
        return owner in ("", self.name) or ADMINISTRATOR in self._principal.tags

    def may_consume(self, topic: str, subscription: str = "") -> bool:
        """Require the right to read the queue."""
        return self._may_use(topic, Right.READ)

    def may_produce(self, topic: str) -> bool:
        """Require the right to write the queue."""
        return self._may_use(topic, Right.WRITE)

    def may_publish(self, vhost: str, exchange: str, routing_key: str) -> bool:
        """Require the right to write the exchange, with this routing key."""
        verdicts = self._principal.verdicts
        question = named(Question(Right.WRITE, Kind.EXCHANGE, exchange))
        if not verdicts.may(vhost, question):
            return False
        if not verdicts.limits_keys(vhost, exchange):
            return True
        return bool(verdicts.may(vhost, Question(Right.WRITE, Kind.TOPIC, exchange, routing_key)))

    def _may_use(self, topic: str, right: Right) -> bool:
        namespace, queue = queue_in(topic)
        vhost = self._catalogue.vhost_of(namespace)
        if vhost is None:
            return ADMINISTRATOR in self._principal.tags
        question = Question(right, Kind.QUEUE, queue)
        return bool(self._principal.verdicts.may(vhost.name, question))


class GrantedToRole:
    """The rights of one Pulsar role. Only a super user may use AMQP's exchanges."""

    def __init__(self, caller: Caller, authorizer: Authorizer) -> None:
        self._caller = caller
        self._authorizer = authorizer

    def __repr__(self) -> str:
        return f"<GrantedToRole {self._caller}>"

    @property
    def name(self) -> str:
        return f"role {self._caller.role}"

    def may_continue(self, owner: str) -> bool:
        """Allow the role's own and ownerless queries; a super user all."""
        return owner in ("", self.name) or self._authorizer.is_super(self._caller)

    def may_consume(self, topic: str, subscription: str = "") -> bool:
        """By Pulsar's permissions."""
        return self._may(topic, TopicOperation.CONSUME, subscription)

    def may_produce(self, topic: str) -> bool:
        """By Pulsar's permissions."""
        return self._may(topic, TopicOperation.PRODUCE)

    def may_publish(self, vhost: str, exchange: str, routing_key: str) -> bool:
        """Allow super users only."""
        return self._authorizer.is_super(self._caller)

    def _may(self, topic: str, operation: TopicOperation, subscription: str = "") -> bool:
        name = topic_name_of(topic)
        if name is None:
            return self._authorizer.is_super(self._caller)
        try:
            return self._authorizer.allows_topic(self._caller, name, operation, subscription)
        except PrefixNeeded:
            return False


class GrantedRights:
    """Finds the rights of a request's sender: a user's by AMQP's permissions, a role's by Pulsar's;
    everything without authentication, or where roles need no rights."""

    def __init__(self, catalogue: Catalogue, authorizer: Authorizer = EVERYBODY_MAY) -> None:
        self._catalogue = catalogue
        self._authorizer = authorizer

    def __repr__(self) -> str:
        return f"<GrantedRights by {self._authorizer!r}>"

    def __call__(self, request: Request) -> Rights:
        """Return the rights of one request."""
        principal: Principal | None = request.scope.get(PRINCIPAL)
        if principal is not None:
            return Granted(principal, self._catalogue)
        caller: Caller | None = request.scope.get(CALLER)
        if caller is None or caller is NOBODY or not self._authorizer.enabled:
            return Everything()
        return GrantedToRole(caller, self._authorizer)
