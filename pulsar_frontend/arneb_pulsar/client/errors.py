"""What can go wrong, as applications see it.

* :class:`PulsarError`
    * :class:`ClientClosed` - the client, producer or consumer was closed by the application
    * :class:`ConfigurationError` - arguments that cannot be meant
        * :class:`InvalidTopic` - a name that no topic can have
        * :class:`InvalidUrl` - not the URL of a Pulsar service
    * :class:`ConnectError` - no broker could be reached
        * :class:`UnknownAddress` - a name that has no address
        * :class:`TlsFailed` - no TLS with whoever listens there, or not the certificate expected
        * :class:`NotPulsar` - whoever listens there speaks something else
        * :class:`Disconnected` - a broker was reached, and went away
    * :class:`UnexpectedAnswer` - an answer that no broker gives
    * :class:`TimedOut` - no answer, or no receipt, within the time that was given
    * :class:`QueueFull` - the pending sends, or the client's memory, are at their bound
    * :class:`Withdrawn` - a send that was cancelled before it was sent
    * :class:`MessageTooLarge` - over the broker's bound, with chunking off
    * :class:`CryptoError` - a message that cannot be encrypted or decrypted
    * :class:`SchemaError` - a value that its schema cannot encode, bytes that it cannot decode
    * :class:`TransactionEnded` - the transaction is not open any more
    * :class:`AdminError` - a call of the admin API that was refused
    * :class:`ServerRefused` - the broker said no; one class a code of the protocol

The rule: the text says what was expected, what came, and where. ``retriable`` says whether the
client itself tries again; what reaches the application is final, or its time is up.
"""

from typing import ClassVar, Final

from arneb_pulsar.wire.proto.pulsar_pb2 import ServerError


class PulsarError(Exception):
    """Any of them."""

    retriable: ClassVar[bool] = False
    """Whether the client tries again by itself before it makes something for the first time."""


class ClientClosed(PulsarError):
    """Closed by the application, or its ``async with`` has ended."""


class ConfigurationError(PulsarError, ValueError):
    """Arguments that cannot be meant."""


class InvalidTopic(ConfigurationError):
    """A name that no topic can have."""


class InvalidUrl(ConfigurationError):
    """Not the URL of a Pulsar service."""


class ConnectError(PulsarError):
    """No broker could be reached."""

    retriable = True


class UnknownAddress(ConnectError):
    """A name that has no address: nothing that another attempt would change."""

    retriable = False


class TlsFailed(ConnectError):
    """Whoever listens there does not speak TLS, or its certificate is not to be trusted."""

    retriable = False


class NotPulsar(ConnectError):
    """Whoever listens there has answered in another protocol: the port or the scheme of the URL is
    another's."""

    retriable = False


class Disconnected(ConnectError):
    """The connection ended before the answer came."""


class UnexpectedAnswer(PulsarError):
    """An answer that no broker gives: what came is not of the protocol, or cannot be meant."""


class TimedOut(PulsarError, TimeoutError):
    """What was waited for did not come in time. A send that timed out may still be stored."""

    retriable = True


class QueueFull(PulsarError):
    """Pending sends, or the client's memory, are at their bound."""


class Withdrawn(PulsarError):
    """A send that was cancelled before its message was sent: it never will be."""


class MessageTooLarge(PulsarError, ValueError):
    """Over the bound that the broker announced."""


class CryptoError(PulsarError):
    """A message that cannot be encrypted or decrypted."""


class SchemaError(PulsarError, ValueError):
    """A value that its schema cannot encode, or bytes that it cannot decode."""


class TransactionEnded(PulsarError):
    """Committed, aborted or timed out before."""


class AdminError(PulsarError):
    """A call of the admin API that was refused."""

    def __init__(self, status: int, reason: str, where: str) -> None:
        super().__init__(f"{where}: {status} {reason}")
        self.status = status
        self.reason = reason


class ServerRefused(PulsarError):
    """The broker said no."""

    code: ClassVar[int] = ServerError.UnknownError
    retriable = True
    """As the official clients, but for those classes that say otherwise."""


class UnknownServerError(ServerRefused):
    """Something failed in the broker that has no code of its own."""


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
    """The subscription is held by another, or is of another type."""

    code = ServerError.ConsumerBusy
    retriable = False


class ServiceNotReady(ServerRefused):
    code = ServerError.ServiceNotReady


class ProducerBlockedQuotaExceeded(ServerRefused):
    """The backlog is at its quota, and the policy has producers wait."""

    code = ServerError.ProducerBlockedQuotaExceededError
    retriable = False


class ProducerQuotaExceeded(ServerRefused):
    """The backlog is at its quota, and the policy refuses producers."""

    code = ServerError.ProducerBlockedQuotaExceededException
    retriable = False


class ChecksumRefused(ServerRefused):
    """A message that was damaged before the broker got it."""

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
    """The name, or the topic, is held by another producer."""

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
    """Another producer has the topic to itself now. Final."""

    code = ServerError.ProducerFenced
    retriable = False


REFUSALS: Final[dict[int, type[ServerRefused]]] = {
    each.code: each for each in ServerRefused.__subclasses__()
}
"""The class of each code."""


def refusal(code: int, text: str, where: str) -> ServerRefused:
    """The error for an answer of the broker."""
    kind = REFUSALS.get(code, UnknownServerError)
    return kind(f"{where}: {text or kind.__name__}")
