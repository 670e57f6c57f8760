"""The channels of one connection, by number.

The rule: a channel object is made at its first use. Clients open more channels than they need (a
pool, one a thread), and a complete channel is 2 KiB in some twenty objects: after 100,000 that were
open and never used, 160 MiB stayed with the process. Used or not, each is counted for its user
until it is closed.
"""

from collections.abc import Collection

from arneb_amqp.errors import NO_METHOD, AmqpError, ChannelException, not_allowed
from arneb_amqp.session.channel.channel import Channel
from arneb_amqp.session.context import ChannelContext, ChannelCounts, VhostContext
from arneb_amqp.wire.constants import ChannelId


class Channels:
    """The open channels of a connection.

    Invariant: no number is in both ``used`` and ``_unused``; together they are counted for
    ``_user``.
    """

    __slots__ = ("_counts", "_unused", "_user", "left", "used")

    def __init__(self, counts: ChannelCounts) -> None:
        self._counts = counts
        self._user = ""
        self.used: dict[ChannelId, Channel] = {}
        self._unused: set[ChannelId] = set()
        self.left: dict[ChannelId, Channel] = {}
        """Channels that the client has closed, while input may be left that it sent before it could
        know that they are: what such input asks of them means nothing."""

    def __repr__(self) -> str:
        return f"<Channels {len(self.used)} used, {len(self._unused)} unused>"

    def __len__(self) -> int:
        return len(self.used) + len(self._unused)

    def __contains__(self, id_: ChannelId) -> bool:
        return id_ in self.used or id_ in self._unused

    @property
    def unused(self) -> Collection[ChannelId]:
        """The open channels that were never used."""
        return self._unused

    def check_count(self, limit: int) -> None:
        """Raises 530 at the limit, worded for a channel number that is not open."""
        if limit and len(self) >= limit:
            raise not_allowed(
                f"number of channels opened ({len(self)}) has reached the negotiated channel_max "
                f"({limit})",
                NO_METHOD,
            )

    def open(self, id_: ChannelId, user: str) -> None:
        """Open a channel. Raises 530 when its user, or the node, may have no more."""
        assert id_ not in self, f"channel {id_} is open"
        self._counts.opening(user, id_)
        self._user = user
        self._unused.add(id_)
        self.left.pop(id_, None)

    def first_used(
        self, id_: ChannelId, context: ChannelContext, vhost: VhostContext | None
    ) -> Channel | None:
        """Make the object of a channel that is not in :attr:`used`. When it is not open the result
        is the one in :attr:`left`, or None."""
        if id_ not in self._unused:
            return self.left.get(id_)
        assert vhost is not None, "channels come after connection.open"
        self._unused.remove(id_)
        channel = self.used[id_] = Channel(context, vhost, id_)
        return channel

    def close(self, id_: ChannelId, *, by_client: bool) -> None:
        """Remove a used channel that was closed, unless an error has ended all channels before."""
        channel = self.used.pop(id_, None)
        if channel is not None:
            self._counts.ended(self._user, (id_,))
            if by_client:
                self.left[id_] = channel

    def fail(self, id_: ChannelId, error: AmqpError) -> bool:
        """Close the channel with ``error`` if it is a channel error; False if it is not."""
        known = self.used.get(id_) or self.left.get(id_)
        if known is None or not isinstance(error, ChannelException):
            return False
        known.fail(error)
        return True

    def end(self) -> None:
        """End all channels at once."""
        for channel in self.used.values():
            channel.end()
        if len(self):
            self._counts.ended(self._user, (*self.used, *self._unused))
        self.used.clear()
        self._unused.clear()
        self.left.clear()
