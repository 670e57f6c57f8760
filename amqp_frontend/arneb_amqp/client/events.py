"""Events: what a broker says to its client, as values.

The rule: what the client asked for comes as :class:`Answered`, one for each call, in the order of
the calls on that channel; everything else comes by itself.
"""

from dataclasses import dataclass

from pamqp.base import Frame as Command

from arneb_amqp.wire.constants import ChannelId


class RemoteClosed(Exception):
    """The other broker has ended a channel or the connection, or cannot be reached."""

    def __init__(self, reason: str, code: int = 0) -> None:
        super().__init__(reason)
        self.code = code
        """AMQP's reply code; 0: it said none."""


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
    """Messages that were published on a channel in confirm mode are the broker's now, or it does
    not take them."""

    channel: ChannelId
    tags: list[int]
    multiple: bool = False
    """And all before them."""
    stored: bool = True


@dataclass(slots=True)
class Cancelled:
    """A consumer gets nothing any more: its queue has gone."""

    channel: ChannelId


@dataclass(slots=True)
class ChannelEnded:
    """The broker has closed a channel."""

    channel: ChannelId
    error: RemoteClosed


@dataclass(slots=True)
class Ended:
    """The connection is over."""

    error: RemoteClosed


@dataclass(slots=True)
class Blocked:
    """The broker is short of something, or is not any more: it reads nothing that is published."""

    is_blocked: bool


Event = Opened | Answered | Delivered | Confirmed | Cancelled | ChannelEnded | Ended | Blocked
