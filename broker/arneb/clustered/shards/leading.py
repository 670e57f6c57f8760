"""Leading: a shard's broker's view of its node, for one leadership.

The rule: it ends with the leadership, and so does everything registered through it.
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
    """What the servers of the first shard's broker share while this node leads that shard."""
    others: dict[str, Shared]
    """The same for each other shard that it leads, by name."""
    trusted: ASGIApp | None
    """The API for trusted callers, where this node may lead several shards."""
    cluster: Callable[[], Mapping[str, Any]] | None
    """Returns the node's state as a member."""
    hands_over: Callable[[str, str], Awaitable[Mapping[str, Any]]] | None
    """Hands a shard over to another node."""
    flushes: Callable[[], Awaitable[None]] | None
    """Writes everything confirmed to disk."""

    def is_up(self) -> None:
        """Note that every port is served."""
        ...


class Leading:
    """A leader's broker's view of its node, for one leadership."""

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
        """Whether clients may be sent here."""
        return self._node.is_ready

    def follow(self, name: str, hook: Hook, *followed: str) -> Callable[[], None]:
        """Call ``hook`` at each reload, until this leadership ends."""
        forget = self._node.follow(name, hook, *followed)
        self._forget.append(forget)
        return forget

    def serves(self, shared: Shared) -> None:
        """Note that every server is ready for clients that are handed over."""
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
        """End this leadership."""
        if self._is_first:
            self._node.shared = None
        else:
            self._node.others.pop(self._shard.settings.shard, None)
        for forget in self._forget:
            forget()
