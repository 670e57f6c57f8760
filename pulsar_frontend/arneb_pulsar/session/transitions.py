"""The state machines of a session, as tables.

Anything absent from a table is illegal. An illegal input from the client is answered as its command
requires; one from the server is a defect of ours.
"""

from collections.abc import Mapping
from enum import Enum, auto
from typing import Final

from arneb_pulsar.wire.proto.pulsar_pb2 import BaseCommand


class ConnectionState(Enum):
    """A connection, as its commands see it."""

    HANDSHAKE = auto()
    PROVING = auto()
    """CONNECT came; the client's proof of identity is being checked."""
    OPEN = auto()
    CLOSED = auto()


ACCEPTED: Final[Mapping[ConnectionState, frozenset[int]]] = {
    ConnectionState.HANDSHAKE: frozenset({BaseCommand.CONNECT}),
    ConnectionState.PROVING: frozenset(),
    ConnectionState.OPEN: frozenset(
        {
            BaseCommand.SUBSCRIBE,
            BaseCommand.PRODUCER,
            BaseCommand.SEND,
            BaseCommand.ACK,
            BaseCommand.FLOW,
            BaseCommand.UNSUBSCRIBE,
            BaseCommand.CLOSE_PRODUCER,
            BaseCommand.CLOSE_CONSUMER,
            BaseCommand.PING,
            BaseCommand.PONG,
            BaseCommand.AUTH_RESPONSE,
            BaseCommand.REDELIVER_UNACKNOWLEDGED_MESSAGES,
            BaseCommand.PARTITIONED_METADATA,
            BaseCommand.LOOKUP,
            BaseCommand.CONSUMER_STATS,
            BaseCommand.SEEK,
            BaseCommand.GET_LAST_MESSAGE_ID,
            BaseCommand.GET_TOPICS_OF_NAMESPACE,
            BaseCommand.GET_SCHEMA,
            BaseCommand.GET_OR_CREATE_SCHEMA,
            BaseCommand.WATCH_TOPIC_LIST,
            BaseCommand.WATCH_TOPIC_LIST_CLOSE,
            BaseCommand.TC_CLIENT_CONNECT_REQUEST,
            BaseCommand.NEW_TXN,
            BaseCommand.ADD_PARTITION_TO_TXN,
            BaseCommand.ADD_SUBSCRIPTION_TO_TXN,
            BaseCommand.END_TXN,
            BaseCommand.END_TXN_ON_PARTITION,
            BaseCommand.END_TXN_ON_SUBSCRIPTION,
        }
    ),
    ConnectionState.CLOSED: frozenset(),
}
"""The commands that a client may send; every other closes the connection."""


class ProducerState(Enum):
    """A producer; see the table."""

    OPENING = auto()
    WAITING = auto()
    """It has been told that it waits for its turn to be exclusive."""
    READY = auto()
    CLOSING = auto()
    """Closed by the client; its last receipts are still to come."""
    CLOSED = auto()


class ProducerInput(Enum):
    """What happens to a producer."""

    QUEUED = auto()
    OPENED = auto()
    REFUSED = auto()
    LOST = auto()
    SEND = auto()
    CLOSE = auto()
    DRAINED = auto()
    DISCONNECTED = auto()


PRODUCER_MOVES: Final[Mapping[tuple[ProducerState, ProducerInput], ProducerState]] = {
    (ProducerState.OPENING, ProducerInput.OPENED): ProducerState.READY,
    (ProducerState.OPENING, ProducerInput.REFUSED): ProducerState.CLOSED,
    (ProducerState.OPENING, ProducerInput.CLOSE): ProducerState.CLOSED,
    (ProducerState.OPENING, ProducerInput.QUEUED): ProducerState.WAITING,
    (ProducerState.OPENING, ProducerInput.LOST): ProducerState.CLOSED,
    (ProducerState.WAITING, ProducerInput.OPENED): ProducerState.READY,
    (ProducerState.WAITING, ProducerInput.LOST): ProducerState.CLOSED,
    (ProducerState.WAITING, ProducerInput.CLOSE): ProducerState.CLOSED,
    (ProducerState.WAITING, ProducerInput.DISCONNECTED): ProducerState.CLOSED,
    (ProducerState.OPENING, ProducerInput.DISCONNECTED): ProducerState.CLOSED,
    (ProducerState.READY, ProducerInput.LOST): ProducerState.CLOSED,
    (ProducerState.CLOSING, ProducerInput.LOST): ProducerState.CLOSED,
    (ProducerState.READY, ProducerInput.SEND): ProducerState.READY,
    (ProducerState.READY, ProducerInput.CLOSE): ProducerState.CLOSING,
    (ProducerState.READY, ProducerInput.DISCONNECTED): ProducerState.CLOSED,
    (ProducerState.CLOSING, ProducerInput.DRAINED): ProducerState.CLOSED,
    (ProducerState.CLOSING, ProducerInput.DISCONNECTED): ProducerState.CLOSED,
}


class ConsumerState(Enum):
    """A consumer; see the table."""

    ATTACHING = auto()
    READY = auto()
    SEEKING = auto()
    SEEKING_DETACHED = auto()
    """The core let the consumer go; the answer to SEEK is still to come."""
    UNSUBSCRIBING = auto()
    UNSUBSCRIBING_DETACHED = auto()
    CLOSED = auto()


class ConsumerInput(Enum):
    """What happens to a consumer."""

    ATTACHED = auto()
    REFUSED = auto()
    USE = auto()
    """Whatever needs an attached consumer: FLOW, ACK, REDELIVER, deliveries and questions."""
    SEEK = auto()
    SEEK_DONE = auto()
    SEEK_FAILED = auto()
    UNSUBSCRIBE = auto()
    UNSUBSCRIBED = auto()
    UNSUBSCRIBE_FAILED = auto()
    CLOSE = auto()
    CLOSED_BY_CORE = auto()


CONSUMER_MOVES: Final[Mapping[tuple[ConsumerState, ConsumerInput], ConsumerState]] = {
    (ConsumerState.ATTACHING, ConsumerInput.ATTACHED): ConsumerState.READY,
    (ConsumerState.ATTACHING, ConsumerInput.REFUSED): ConsumerState.CLOSED,
    (ConsumerState.ATTACHING, ConsumerInput.CLOSE): ConsumerState.CLOSED,
    (ConsumerState.READY, ConsumerInput.USE): ConsumerState.READY,
    (ConsumerState.READY, ConsumerInput.SEEK): ConsumerState.SEEKING,
    (ConsumerState.READY, ConsumerInput.UNSUBSCRIBE): ConsumerState.UNSUBSCRIBING,
    (ConsumerState.READY, ConsumerInput.CLOSE): ConsumerState.CLOSED,
    (ConsumerState.READY, ConsumerInput.CLOSED_BY_CORE): ConsumerState.CLOSED,
    (ConsumerState.SEEKING, ConsumerInput.USE): ConsumerState.SEEKING,
    (ConsumerState.SEEKING, ConsumerInput.SEEK_DONE): ConsumerState.READY,
    (ConsumerState.SEEKING, ConsumerInput.SEEK_FAILED): ConsumerState.READY,
    (ConsumerState.SEEKING, ConsumerInput.CLOSE): ConsumerState.SEEKING_DETACHED,
    (ConsumerState.SEEKING, ConsumerInput.CLOSED_BY_CORE): ConsumerState.SEEKING_DETACHED,
    (ConsumerState.SEEKING_DETACHED, ConsumerInput.SEEK_DONE): ConsumerState.CLOSED,
    (ConsumerState.SEEKING_DETACHED, ConsumerInput.SEEK_FAILED): ConsumerState.CLOSED,
    (ConsumerState.UNSUBSCRIBING, ConsumerInput.USE): ConsumerState.UNSUBSCRIBING,
    (ConsumerState.UNSUBSCRIBING, ConsumerInput.UNSUBSCRIBED): ConsumerState.CLOSED,
    (ConsumerState.UNSUBSCRIBING, ConsumerInput.UNSUBSCRIBE_FAILED): ConsumerState.READY,
    (ConsumerState.UNSUBSCRIBING, ConsumerInput.CLOSE): ConsumerState.UNSUBSCRIBING_DETACHED,
    (
        ConsumerState.UNSUBSCRIBING,
        ConsumerInput.CLOSED_BY_CORE,
    ): ConsumerState.UNSUBSCRIBING_DETACHED,
    (ConsumerState.UNSUBSCRIBING_DETACHED, ConsumerInput.UNSUBSCRIBED): ConsumerState.CLOSED,
    (ConsumerState.UNSUBSCRIBING_DETACHED, ConsumerInput.UNSUBSCRIBE_FAILED): ConsumerState.CLOSED,
}
