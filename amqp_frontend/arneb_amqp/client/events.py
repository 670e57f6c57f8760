"""Events: a broker's messages to its client, as values.

The rule: answers come as :class:`Answered`, one for each call, in the order of calls on that
channel; all other events are unsolicited.
"""

from dataclasses import dataclass

from pamqp.base import Frame as Command

from arneb_amqp.wire.constants import ChannelId


class RemoteClosed(Exception):
    """The other broker has ended a channel or the connection, or cannot be reached."""

    def __init__(self, reason: str, code: int = 0) -> None:
        super().__init__(reason)
        self.code = code
        """AMQP's reply code; 0: none."""


@dataclass(slots=True)
class Opened:
    """The connection is open."""


@dataclass(slots=True)
class Answered:
    """A call was answered."""

    channel: ChannelId
    method: Command


@dataclass(slots=True)
class Delivered:
    """A message for a consumer."""

    channel: ChannelId
    tag: int
    exchange: str
    routing_key: str
    properties: bytes
    """The property list."""
    payload: bytes


@dataclass(slots=True)
class Confirmed:
    """Publishes on a channel in confirm mode are stored by the broker, or refused."""

    channel: ChannelId
    tags: list[int]
    multiple: bool = False
    """Whether all before them are included."""
    stored: bool = True


@dataclass(slots=True)
class Cancelled:
    """A consumer was cancelled: its queue is gone."""

    channel: ChannelId


@dataclass(slots=True)
class ChannelEnded:
    """The broker has closed a channel."""

    channel: ChannelId
    error: RemoteClosed


@dataclass(slots=True)
class Ended:
    """The connection has ended."""

    error: RemoteClosed


@dataclass(slots=True)
class Blocked:
    """The broker has blocked or unblocked publishing."""

    is_blocked: bool


Event = Opened | Answered | Delivered | Confirmed | Cancelled | ChannelEnded | Ended | Blocked
