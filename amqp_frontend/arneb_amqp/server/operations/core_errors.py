"""The core's errors as AMQP's: one table, proved complete by a test."""

from collections.abc import Mapping
from typing import Final

from arneb_amqp.errors import AmqpError, ReplyCode, amqp_error
from arneb_core.api.errors import (
    AlreadyAcknowledged,
    ConsumerBusy,
    CoreError,
    KeyRangesRefused,
    LeadershipLost,
    NotAllowed,
    StoreFailed,
    StoreFull,
    SubscriptionBusy,
    SubscriptionFenced,
    SubscriptionNotFound,
    SubscriptionTypeMismatch,
    TopicBusy,
    TopicExists,
    TopicFenced,
    TopicNotFound,
)

REPLY_CODES: Final[Mapping[type[CoreError], ReplyCode]] = {
    TopicNotFound: ReplyCode.NOT_FOUND,
    TopicExists: ReplyCode.PRECONDITION_FAILED,
    TopicFenced: ReplyCode.RESOURCE_LOCKED,
    TopicBusy: ReplyCode.PRECONDITION_FAILED,
    AlreadyAcknowledged: ReplyCode.PRECONDITION_FAILED,
    SubscriptionNotFound: ReplyCode.NOT_FOUND,
    # A Pulsar client may hold the subscription in a way that excludes others.
    SubscriptionTypeMismatch: ReplyCode.ACCESS_REFUSED,
    ConsumerBusy: ReplyCode.ACCESS_REFUSED,
    KeyRangesRefused: ReplyCode.PRECONDITION_FAILED,  # no AMQP consumer sets key ranges
    SubscriptionBusy: ReplyCode.RESOURCE_LOCKED,
    SubscriptionFenced: ReplyCode.RESOURCE_LOCKED,
    NotAllowed: ReplyCode.PRECONDITION_FAILED,
    # A full disk costs the publisher its channel, not the connection its consumers.
    StoreFull: ReplyCode.PRECONDITION_FAILED,
    StoreFailed: ReplyCode.INTERNAL_ERROR,
    # Its connections are closed next; clients that return are led to the new leader.
    LeadershipLost: ReplyCode.CONNECTION_FORCED,
}


def in_amqp(error: CoreError) -> AmqpError:
    """Return the error that a client gets."""
    return amqp_error(REPLY_CODES[type(error)], str(error))
