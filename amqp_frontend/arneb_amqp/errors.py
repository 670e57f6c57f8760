"""Errors of AMQP: reply codes and the exceptions that carry them.

The rule: an exception already holds exactly what goes on the wire (code, text and failing method),
so whoever catches it only has to send it.

* :class:`AmqpError`
    * :class:`ChannelException` - closes the channel (on channel 0 the connection)
    * :class:`ConnectionException` - closes the connection
"""

from enum import IntEnum
from typing import Final, Self, TypeAlias

REPLY_TEXT_BYTES_MAX: Final = 255
"""The bound of a short string."""

CUT_MARK: Final = b"..."

MethodIds: TypeAlias = tuple[int, int]
"""Class and method id."""

NO_METHOD: Final[MethodIds] = (0, 0)
"""For errors that no method caused."""


class ReplyCode(IntEnum):
    """The reply codes of AMQP 0-9-1; the names are those on the wire."""

    REPLY_SUCCESS = 200
    CONTENT_TOO_LARGE = 311
    NO_ROUTE = 312
    NO_CONSUMERS = 313
    CONNECTION_FORCED = 320
    INVALID_PATH = 402
    ACCESS_REFUSED = 403
    NOT_FOUND = 404
    RESOURCE_LOCKED = 405
    PRECONDITION_FAILED = 406
    FRAME_ERROR = 501
    SYNTAX_ERROR = 502
    COMMAND_INVALID = 503
    CHANNEL_ERROR = 504
    UNEXPECTED_FRAME = 505
    RESOURCE_ERROR = 506
    NOT_ALLOWED = 530
    NOT_IMPLEMENTED = 540
    INTERNAL_ERROR = 541

    @property
    def closes_channel_only(self) -> bool:
        """Whether the error closes only the channel."""
        return self in CHANNEL_CODES


CHANNEL_CODES: Final = frozenset(
    {
        ReplyCode.CONTENT_TOO_LARGE,
        ReplyCode.NO_ROUTE,
        ReplyCode.NO_CONSUMERS,
        ReplyCode.ACCESS_REFUSED,
        ReplyCode.NOT_FOUND,
        ReplyCode.RESOURCE_LOCKED,
        ReplyCode.PRECONDITION_FAILED,
    }
)


class AmqpError(Exception):
    """An error that is sent to the peer.

    ``method`` is the method that failed; None until it is filled in.
    """

    def __init__(
        self, reply_code: ReplyCode, explanation: str = "", method: MethodIds | None = None
    ) -> None:
        self.reply_code = reply_code
        self.explanation = explanation
        self.method = method
        super().__init__(f"{reply_code.value} {self.reply_text}")

    @property
    def reply_text(self) -> str:
        """``CODE_NAME - explanation``, cut to what a short string holds."""
        name = self.reply_code.name
        text = f"{name} - {self.explanation}" if self.explanation else name
        return cut(text)

    @property
    def leaves_doubt(self) -> bool:
        """Whether the outcome is unknown: another node leads, and only that one knows, so a refusal
        would be a guess."""
        return self.reply_code is ReplyCode.CONNECTION_FORCED

    def caused_by(self, method: MethodIds) -> Self:
        """Return the error, with ``method`` set unless it has one, or :data:`NO_METHOD`, already.

        The broker's own faults name no method.
        """
        if self.method is None and self.reply_code is not ReplyCode.INTERNAL_ERROR:
            self.method = method
        return self


class ChannelException(AmqpError):
    """Closes the channel it happened on; on channel 0 there is only the connection to close."""


class ConnectionException(AmqpError):
    """Closes the connection."""


def amqp_error(
    reply_code: ReplyCode, explanation: str = "", method: MethodIds | None = None
) -> AmqpError:
    """Return the exception of the right class for ``reply_code``."""
    kind = ChannelException if reply_code.closes_channel_only else ConnectionException
    return kind(reply_code, explanation, method)


def cut(text: str) -> str:
    """Cut ``text`` to at most 255 bytes of UTF-8; three dots mark a cut."""
    raw = text.encode("utf-8", "surrogateescape")
    if len(raw) <= REPLY_TEXT_BYTES_MAX:
        return text
    kept = raw[: REPLY_TEXT_BYTES_MAX - len(CUT_MARK)]
    return kept.decode("utf-8", "ignore") + CUT_MARK.decode()


# One constructor for each code that a broker raises, named after it.


def access_refused(explanation: str, method: MethodIds | None = None) -> ChannelException:
    """403."""
    return ChannelException(ReplyCode.ACCESS_REFUSED, explanation, method)


def not_found(explanation: str, method: MethodIds | None = None) -> ChannelException:
    """404."""
    return ChannelException(ReplyCode.NOT_FOUND, explanation, method)


def resource_locked(explanation: str, method: MethodIds | None = None) -> ChannelException:
    """405."""
    return ChannelException(ReplyCode.RESOURCE_LOCKED, explanation, method)


def precondition_failed(explanation: str, method: MethodIds | None = None) -> ChannelException:
    """406."""
    return ChannelException(ReplyCode.PRECONDITION_FAILED, explanation, method)


def connection_forced(explanation: str, method: MethodIds | None = None) -> ConnectionException:
    """320."""
    return ConnectionException(ReplyCode.CONNECTION_FORCED, explanation, method)


def frame_error(explanation: str, method: MethodIds | None = None) -> ConnectionException:
    """501."""
    return ConnectionException(ReplyCode.FRAME_ERROR, explanation, method)


def syntax_error(explanation: str, method: MethodIds | None = None) -> ConnectionException:
    """502."""
    return ConnectionException(ReplyCode.SYNTAX_ERROR, explanation, method)


def command_invalid(explanation: str, method: MethodIds | None = None) -> ConnectionException:
    """503."""
    return ConnectionException(ReplyCode.COMMAND_INVALID, explanation, method)


def channel_error(explanation: str, method: MethodIds | None = None) -> ConnectionException:
    """504."""
    return ConnectionException(ReplyCode.CHANNEL_ERROR, explanation, method)


def unexpected_frame(explanation: str, method: MethodIds | None = None) -> ConnectionException:
    """505."""
    return ConnectionException(ReplyCode.UNEXPECTED_FRAME, explanation, method)


def resource_error(explanation: str, method: MethodIds | None = None) -> ConnectionException:
    """506."""
    return ConnectionException(ReplyCode.RESOURCE_ERROR, explanation, method)


def not_allowed(explanation: str, method: MethodIds | None = None) -> ConnectionException:
    """530."""
    return ConnectionException(ReplyCode.NOT_ALLOWED, explanation, method)


def not_implemented(explanation: str, method: MethodIds | None = None) -> ConnectionException:
    """540."""
    return ConnectionException(ReplyCode.NOT_IMPLEMENTED, explanation, method)


def internal_error(explanation: str = "") -> ConnectionException:
    """541."""
    return ConnectionException(ReplyCode.INTERNAL_ERROR, explanation)


def queue_in_words(queue: str, vhost: str) -> str:
    """Return ``queue 'q' in vhost '/'``, as in error texts."""
    return f"queue '{queue}' in vhost '{vhost}'"


def exchange_in_words(exchange: str, vhost: str) -> str:
    """Return ``exchange 'x' in vhost '/'``; the default exchange has an empty name."""
    return f"exchange '{exchange}' in vhost '{vhost}'"
