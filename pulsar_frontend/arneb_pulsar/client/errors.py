"""The errors that applications see.

* :class:`PulsarError`
    * :class:`ClientClosed` - the client, producer or consumer was closed by the application
    * :class:`ConfigurationError` - invalid arguments
        * :class:`InvalidTopic` - a name that no topic can have
        * :class:`InvalidUrl` - not the URL of a Pulsar service
    * :class:`ConnectError` - no broker could be reached
        * :class:`UnknownAddress` - a host name without an address
        * :class:`TlsFailed` - the server does not speak TLS, or its certificate is not trusted
        * :class:`NotPulsar` - the server speaks another protocol
        * :class:`Disconnected` - the connection to a broker was lost
    * :class:`UnexpectedAnswer` - a response that violates the protocol
    * :class:`TimedOut` - no response, or no receipt, in time
    * :class:`QueueFull` - the pending sends, or the client's memory, are at their bound
    * :class:`Withdrawn` - a send that was cancelled before its message left
    * :class:`MessageTooLarge` - over the broker's bound, with chunking off
    * :class:`CryptoError` - a message that cannot be encrypted or decrypted
    * :class:`SchemaError` - a value that its schema cannot encode, bytes that it cannot decode
    * :class:`TransactionEnded` - the transaction is no longer open
    * :class:`AdminError` - a call of the admin API that was refused
    * :class:`ServerRefused` - an error of the broker; one class for each code of the protocol

The rule: the text says what was expected, what was received, and where. ``retriable`` says whether
the client retries by itself; an error that reaches the application is final, or its time is up.
"""

from typing import ClassVar, Final

from arneb_pulsar.wire.proto.pulsar_pb2 import ServerError


class PulsarError(Exception):
    """The base of all the client's errors."""

    retriable: ClassVar[bool] = False
    """Whether the client retries by itself while it creates something for the first time."""


class ClientClosed(PulsarError):
    """The application closed the client, producer or consumer, or its ``async with`` has ended."""


class ConfigurationError(PulsarError, ValueError):
    """Invalid arguments."""


class InvalidTopic(ConfigurationError):
    """A name that no topic can have."""


class InvalidUrl(ConfigurationError):
    """Not the URL of a Pulsar service."""


class ConnectError(PulsarError):
    """No broker could be reached."""

    retriable = True


class UnknownAddress(ConnectError):
    """A host name without an address, which another attempt would not change."""

    retriable = False


class TlsFailed(ConnectError):
    """The server does not speak TLS, or its certificate is not trusted."""

    retriable = False


class NotPulsar(ConnectError):
    """The server answered in another protocol: the URL's port or scheme is wrong."""

    retriable = False


class Disconnected(ConnectError):
    """The connection ended before the response came."""


class UnexpectedAnswer(PulsarError):
    """A response that violates the protocol, or is too large."""


class TimedOut(PulsarError, TimeoutError):
    """No response, receipt or message came in time. A send that timed out may still be stored."""

    retriable = True


class QueueFull(PulsarError):
    """The pending sends, or the client's memory, are at their bound."""


class Withdrawn(PulsarError):
    """A send that was cancelled before its message left: the message is never sent."""


class MessageTooLarge(PulsarError, ValueError):
    """A message over the bound that the broker announced."""


class CryptoError(PulsarError):
    """A message that cannot be encrypted or decrypted."""


class SchemaError(PulsarError, ValueError):
    """A value that its schema cannot encode, or bytes that it cannot decode."""


class TransactionEnded(PulsarError):
    """The transaction was committed, aborted or failed before."""


class AdminError(PulsarError):
    """A call of the admin API that was refused."""

    def __init__(self, status: int, reason: str, where: str) -> None:
        super().__init__(f"{where}: {status} {reason}")
        self.status = status
        self.reason = reason


class ServerRefused(PulsarError):
    """An error that the broker sent."""

    code: ClassVar[int] = ServerError.UnknownError
    retriable = True
    """As in the official clients, except in the classes that say otherwise."""


class UnknownServerError(ServerRefused):
    """A failure in the broker without a code of its own."""


class MetadataError(ServerRefused):
    code = ServerError.MetadataError


class PersistenceError(ServerRefused):
    code = ServerError.PersistenceError


class AuthenticationFailed(ServerRefused):
    code = ServerError.AuthenticationError
    retriable = False


class NotAuthorized(ServerRefused):
    code = ServerError.AuthorizationError
    retriable = False


class ConsumerBusy(ServerRefused):
    """The subscription has an exclusive consumer, or is of another type."""

    code = ServerError.ConsumerBusy
    retriable = False


class ServiceNotReady(ServerRefused):
    code = ServerError.ServiceNotReady


class ProducerBlockedQuotaExceeded(ServerRefused):
    """The backlog is at its quota, and the policy makes producers wait."""

    code = ServerError.ProducerBlockedQuotaExceededError
    retriable = False


class ProducerQuotaExceeded(ServerRefused):
    """The backlog is at its quota, and the policy refuses producers."""

    code = ServerError.ProducerBlockedQuotaExceededException
    retriable = False


class ChecksumRefused(ServerRefused):
    """A message that was damaged on its way to the broker."""

    code = ServerError.ChecksumError
    retriable = False


class UnsupportedVersion(ServerRefused):
    code = ServerError.UnsupportedVersionError
    retriable = False


class TopicNotFound(ServerRefused):
    code = ServerError.TopicNotFound
    retriable = False


class SubscriptionNotFound(ServerRefused):
    code = ServerError.SubscriptionNotFound
    retriable = False


class ConsumerNotFound(ServerRefused):
    code = ServerError.ConsumerNotFound


class TooManyRequests(ServerRefused):
    code = ServerError.TooManyRequests


class TopicTerminated(ServerRefused):
    code = ServerError.TopicTerminatedError
    retriable = False


class ProducerBusy(ServerRefused):
    """Another producer has the name, or the topic exclusively."""

    code = ServerError.ProducerBusy
    retriable = False


class InvalidTopicRefused(ServerRefused):
    code = ServerError.InvalidTopicName
    retriable = False


class IncompatibleSchema(ServerRefused):
    code = ServerError.IncompatibleSchema
    retriable = False


class ConsumerAssignFailed(ServerRefused):
    code = ServerError.ConsumerAssignError
    retriable = False


class TransactionCoordinatorNotFound(ServerRefused):
    code = ServerError.TransactionCoordinatorNotFound


class InvalidTransactionStatus(ServerRefused):
    code = ServerError.InvalidTxnStatus
    retriable = False


class NotAllowed(ServerRefused):
    code = ServerError.NotAllowedError
    retriable = False


class TransactionConflict(ServerRefused):
    code = ServerError.TransactionConflict
    retriable = False


class TransactionNotFound(ServerRefused):
    code = ServerError.TransactionNotFound
    retriable = False


class ProducerFenced(ServerRefused):
    """Another producer has exclusive access to the topic now. Final."""

    code = ServerError.ProducerFenced
    retriable = False


REFUSALS: Final[dict[int, type[ServerRefused]]] = {
    each.code: each for each in ServerRefused.__subclasses__()
}
"""The error class of each code."""


def refusal(code: int, text: str, where: str) -> ServerRefused:
    """Return the error for a code and text of the broker."""
    kind = REFUSALS.get(code, UnknownServerError)
    return kind(f"{where}: {text or kind.__name__}")
