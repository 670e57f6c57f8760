"""Operations: what can be done to topics and namespaces, and which action allows it.

The rule: one table, as in Pulsar. Operations without actions are for the tenant's administrators,
who may do everything inside the tenant. The names are Pulsar's; its refusals show them.
"""

from collections.abc import Mapping
from enum import Enum, auto
from typing import Final

from arneb_core.access.rights import Right

PRODUCE: Final = "produce"
CONSUME: Final = "consume"

Actions = tuple[str, ...]
"""Actions of which one is enough."""


class TopicOperation(Enum):
    """An operation on a topic, or on a subscription of it."""

    LOOKUP = auto()
    GET_STATS = auto()
    GET_METADATA = auto()
    PRODUCE = auto()
    CONSUME = auto()
    SUBSCRIBE = auto()
    UNSUBSCRIBE = auto()
    SKIP = auto()
    EXPIRE_MESSAGES = auto()
    PEEK_MESSAGES = auto()
    RESET_CURSOR = auto()
    GET_SUBSCRIPTIONS = auto()
    GET_BACKLOG_SIZE = auto()
    GET_REPLICATED_SUBSCRIPTION_STATUS = auto()
    TERMINATE = auto()
    COMPACT = auto()
    UNLOAD = auto()
    UPDATE_METADATA = auto()
    DELETE_METADATA = auto()
    TRIM_TOPIC = auto()


class NamespaceOperation(Enum):
    """An operation on a namespace."""

    GET_TOPICS = auto()
    GET_BUNDLE = auto()
    DELETE_BUNDLE = auto()
    CLEAR_BACKLOG = auto()
    UNSUBSCRIBE = auto()
    CREATE_TOPIC = auto()
    DELETE_TOPIC = auto()
    GET_PERMISSION = auto()
    GRANT_PERMISSION = auto()
    REVOKE_PERMISSION = auto()


_EITHER: Final = (PRODUCE, CONSUME)

ACTIONS: Final[Mapping[TopicOperation | NamespaceOperation, Actions]] = {
    TopicOperation.LOOKUP: _EITHER,
    TopicOperation.GET_STATS: _EITHER,
    TopicOperation.GET_METADATA: _EITHER,
    TopicOperation.PRODUCE: (PRODUCE,),
    TopicOperation.CONSUME: (CONSUME,),
    TopicOperation.SUBSCRIBE: (CONSUME,),
    TopicOperation.UNSUBSCRIBE: (CONSUME,),
    TopicOperation.SKIP: (CONSUME,),
    TopicOperation.EXPIRE_MESSAGES: (CONSUME,),
    TopicOperation.PEEK_MESSAGES: (CONSUME,),
    TopicOperation.RESET_CURSOR: (CONSUME,),
    TopicOperation.GET_SUBSCRIPTIONS: (CONSUME,),
    TopicOperation.GET_BACKLOG_SIZE: (CONSUME,),
    TopicOperation.GET_REPLICATED_SUBSCRIPTION_STATUS: (CONSUME,),
    TopicOperation.TERMINATE: (),
    TopicOperation.COMPACT: (),
    TopicOperation.UNLOAD: (),
    TopicOperation.UPDATE_METADATA: (),
    TopicOperation.DELETE_METADATA: (),
    TopicOperation.TRIM_TOPIC: (),
    NamespaceOperation.GET_TOPICS: _EITHER,
    NamespaceOperation.GET_BUNDLE: _EITHER,
    NamespaceOperation.DELETE_BUNDLE: (),
    NamespaceOperation.CLEAR_BACKLOG: (CONSUME,),
    NamespaceOperation.UNSUBSCRIBE: (CONSUME,),
    NamespaceOperation.CREATE_TOPIC: (),
    NamespaceOperation.DELETE_TOPIC: (),
    NamespaceOperation.GET_PERMISSION: (),
    NamespaceOperation.GRANT_PERMISSION: (),
    NamespaceOperation.REVOKE_PERMISSION: (),
}

_RIGHTS: Final = {PRODUCE: Right.WRITE, CONSUME: Right.READ}


def rights(operation: TopicOperation) -> tuple[Right, ...]:
    """Return the rights of which an AMQP user needs one to do the same to a queue."""
    return tuple(_RIGHTS[action] for action in ACTIONS[operation]) or (Right.CONFIGURE,)
