"""The channels of one connection, by number.

The rule: a channel is made when it is first used. Clients open more than they need (a pool, one a
thread), and a channel with all that it may ever need is 2 KiB in some twenty objects: of 100,000
that were open and never used, 160 MiB stayed with the process when they were closed.
"""

from arneb_amqp.session.channel.channel import Channel
from arneb_amqp.session.context import ChannelContext, VhostContext
from arneb_amqp.wire.constants import ChannelId


class Channels:
    """Those that are open.

    Invariant: a number is in ``used`` or in ``_unused``, and never in both.
    """

    __slots__ = ("_unused", "used")

    def __init__(self) -> None:
        self.used: dict[ChannelId, Channel] = {}
        self._unused: set[ChannelId] = set()

    def __repr__(self) -> str:
        return f"<Channels {len(self.used)} used, {len(self._unused)} unused>"

    def __len__(self) -> int:
        return len(self.used) + len(self._unused)

    def __contains__(self, id_: ChannelId) -> bool:
        return id_ in self.used or id_ in self._unused

    def open(self, id_: ChannelId) -> None:
        """There is a channel of that number now."""
        assert id_ not in self, f"channel {id_} is open"
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
        self.used.pop(id_, None)

    def end(self) -> None:
        """All end at once."""
        for channel in self.used.values():
            channel.end()
        self.used.clear()
        self._unused.clear()
