"""The channels of one connection, by number.

The rule: a channel is made when it is first used. Clients open more than they need (a pool, one a
thread), and a channel with all that it may ever need is 2 KiB in some twenty objects: of 100,000
that were open and never used, 160 MiB stayed with the process when they were closed. Used or not,
each is counted for its user until it is closed.
"""

from collections.abc import Collection

from arneb_amqp.errors import NO_METHOD, AmqpError, ChannelException, not_allowed
from arneb_amqp.session.channel.channel import Channel
from arneb_amqp.session.context import ChannelContext, ChannelCounts, VhostContext
from arneb_amqp.wire.constants import ChannelId


class Channels:
    """Those that are open.

    Invariant: a number is in ``used`` or in ``_unused``, and never in both; as many as they are
    together are counted for ``_user``.
    """

    __slots__ = ("_counts", "_unused", "_user", "used")

    def __init__(self, counts: ChannelCounts) -> None:
        self._counts = counts
        self._user = ""
        self.used: dict[ChannelId, Channel] = {}
        self._unused: set[ChannelId] = set()

    def __repr__(self) -> str:
        return f"<Channels {len(self.used)} used, {len(self._unused)} unused>"

    def __len__(self) -> int:
        return len(self.used) + len(self._unused)

    def __contains__(self, id_: ChannelId) -> bool:
        return id_ in self.used or id_ in self._unused

    @property
    def unused(self) -> Collection[ChannelId]:
        """Those that are open and were never used."""
        return self._unused

    def check_count(self, limit: int) -> None:
        """Raises 530 when there may be no more, in the words for a number that is not open."""
        if limit and len(self) >= limit:
            raise not_allowed(
                f"number of channels opened ({len(self)}) has reached the negotiated channel_max "
                f"({limit})",
                NO_METHOD,
            )

    def open(self, id_: ChannelId, user: str) -> None:
        """There is a channel of that number now. Raises 530 when its user, or the node, may have
        no more."""
        assert id_ not in self, f"channel {id_} is open"
        self._counts.opening(user, id_)
        self._user = user
        self._unused.add(id_)

    def first_used(
        self, id_: ChannelId, context: ChannelContext, vhost: VhostContext | None
    ) -> Channel | None:
        """Make the channel, which is not in :attr:`used`; None when it is not open."""
        if id_ not in self._unused:
            return None
        assert vhost is not None, "channels come after connection.open"
        self._unused.remove(id_)
        channel = self.used[id_] = Channel(context, vhost, id_)
        return channel

    def close(self, id_: ChannelId) -> None:
        """The channel, which was used, is closed; an error may have ended all of them before."""
        if self.used.pop(id_, None) is not None:
            self._counts.ended(self._user, (id_,))

    def fail(self, id_: ChannelId, error: AmqpError) -> bool:
        """Close the channel with ``error``, if that belongs to it and to no more."""
        known = self.used.get(id_)
        if known is None or not isinstance(error, ChannelException):
            return False
        known.fail(error)
        return True

    def end(self) -> None:
        """All end at once."""
        for channel in self.used.values():
            channel.end()
        if len(self):
            self._counts.ended(self._user, (*self.used, *self._unused))
        self.used.clear()
        self._unused.clear()
