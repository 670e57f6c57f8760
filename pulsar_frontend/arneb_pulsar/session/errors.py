"""Errors of a session, and the one table from core errors to wire codes.

The right code matters: C++ clients retry for 30 s on every code that is not fatal to them, so a
wrong one turns an instant refusal into a hang.
"""

from dataclasses import dataclass, replace
from typing import Final

from arneb_core.api import errors as core
from arneb_pulsar.schemas.compatibility import IncompatibleSchema, InvalidSchema
from arneb_pulsar.wire.proto import pulsar_pb2 as pb
from arneb_pulsar.wire.proto.pulsar_pb2 import ServerError


class RemoteProtocolError(Exception):
    """The client broke the protocol in a way that only closing the connection answers."""


class RequestRefused(Exception):
    """A request is answered with an error; the connection continues."""

    def __init__(self, code: ServerError, text: str) -> None:
        super().__init__(text)
        self.failure = Failure(code, text)


class TopicTerminated(core.CoreError):
    """Nothing may be appended to the topic any more."""


class TransactionNotOpen(core.CommitFailed):
    """Messages of a transaction were not stored: it has ended, never existed, or is too large."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a request failed, in the client's terms."""

    code: ServerError
    text: str


SERVER_ERRORS: Final[dict[type[core.CoreError], ServerError]] = {
    core.CoreError: pb.UnknownError,
    core.TopicNotFound: pb.TopicNotFound,
    core.TopicExists: pb.MetadataError,
    core.SubscriptionNotFound: pb.SubscriptionNotFound,
    core.SubscriptionTypeMismatch: pb.ConsumerBusy,
    core.ConsumerBusy: pb.ConsumerBusy,
    core.KeyRangesRefused: pb.ConsumerAssignError,
    core.SubscriptionBusy: pb.ConsumerBusy,
    core.SubscriptionFenced: pb.ServiceNotReady,
    core.TopicFenced: pb.ServiceNotReady,
    core.TopicBusy: pb.NotAllowedError,
    TopicTerminated: pb.TopicTerminatedError,
    core.AlreadyAcknowledged: pb.TransactionConflict,
    core.NotAllowed: pb.NotAllowedError,
    # Clients fail such a message; on most other codes they reconnect and send it again.
    TransactionNotOpen: pb.NotAllowedError,
    core.CommitFailed: pb.PersistenceError,
    core.StoreFull: pb.PersistenceError,
    core.StoreFailed: pb.PersistenceError,
    core.LeadershipLost: pb.ServiceNotReady,  # clients look the topic up again
}
"""Every error of the core that a request can meet; a test keeps it complete."""


TEXTS: Final[dict[type[core.CoreError], str]] = {
    core.SubscriptionTypeMismatch: "Subscription is of different type: {}",
    core.ConsumerBusy: "Exclusive consumer is already connected",
    core.SubscriptionFenced: "Subscription is fenced",
}
"""What Pulsar's clients are told, around or instead of the core's text."""


RESET_UNDER_WAY: Final = "Failed to fence subscription"
"""The error of a reset while another reset of the subscription is under way."""


def failure_of(error: core.CoreError) -> Failure:
    """Return ``error`` as the client is told it."""
    text = TEXTS.get(type(error), "{}").format(error) or type(error).__name__
    for cls in type(error).__mro__:
        if code := SERVER_ERRORS.get(cls):
            return Failure(code, text)
    return Failure(pb.UnknownError, text)


def refusal_of(error: core.CoreError | RequestRefused | IncompatibleSchema) -> Failure:
    """Return ``error``, of whichever kind, as the client is told it."""
    if isinstance(error, IncompatibleSchema):
        return Failure(pb.IncompatibleSchema, str(error))
    return error.failure if isinstance(error, RequestRefused) else failure_of(error)


JAVA_NAME: Final = "org.apache.pulsar.broker.service.schema.exceptions.IncompatibleSchemaException"
"""What Apache Pulsar tells producers in front of the reason; some tools look for it."""


def refusal_of_writer(error: core.CoreError | RequestRefused | IncompatibleSchema) -> Failure:
    """Return ``error`` as a client that wants to write with a schema is told it."""
    refusal = refusal_of(error)
    if isinstance(error, InvalidSchema) or not isinstance(error, IncompatibleSchema):
        return refusal
    return replace(refusal, text=f"{JAVA_NAME}: {refusal.text}")
