"""Leading: what the broker of a shard sees of its node, for one leadership.

The rule: it ends with the leadership: whatever was asked for meanwhile is asked for no more.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

from starlette.types import ASGIApp

from arneb.servers.shared import OwnNode, Shared
from arneb.settings.reloading import Hook
from arneb_cluster.shard import Shard


class MemberNode(OwnNode, Protocol):
    """The node that is a member."""

    shared: Shared | None
    """What the servers of the first shard's broker have in common while this node leads that."""
    others: dict[str, Shared]
    """The same of the other shards that it leads."""
    trusted: ASGIApp | None
    """What whoever is trusted is answered, where this node may lead several shards."""
    cluster: Callable[[], Mapping[str, Any]] | None
    """Tells how it does as a member."""
    hands_over: Callable[[str, str], Awaitable[Mapping[str, Any]]] | None
    """Has another node lead a shard."""
    flushes: Callable[[], Awaitable[None]] | None
    """Has on disk what was confirmed."""

    def is_up(self) -> None:
        """Every port is served."""
        ...


class Leading:
    """What a leader's broker sees of its node, for one leadership."""

    def __init__(self, node: MemberNode, shard: Shard, *, is_first: bool) -> None:
        self.audit = node.audit
        self._node = node
        self._shard = shard
        self._is_first = is_first
        self._forget: list[Callable[[], None]] = []

    def __repr__(self) -> str:
        return f"<Leading at {self._shard!r}>"

    @property
    def is_ready(self) -> bool:
        """Clients may be sent here."""
        return self._node.is_ready

    def follow(self, name: str, hook: Hook, *followed: str) -> Callable[[], None]:
        """As the node does, until this leadership ends."""
        forget = self._node.follow(name, hook, *followed)
        self._forget.append(forget)
        return forget

    def serves(self, shared: Shared) -> None:
        """Every server is ready for clients that are handed over."""
        lease, alarms = shared.core.lease, shared.alarms

        def look() -> None:
            alarms.log_answers(answers=lease.holds)

        alarms.log_trim_alarm = lambda: self._shard.membership.alarm
        lease.listen(look)
        look()
        if self._is_first:
            self._node.shared = shared
        else:
            self._node.others[self._shard.settings.shard] = shared
        self._shard.let_in()

    def end(self) -> None:
        """This leadership is over."""
        if self._is_first:
            self._node.shared = None
        else:
            self._node.others.pop(self._shard.settings.shard, None)
        for forget in self._forget:
            forget()
