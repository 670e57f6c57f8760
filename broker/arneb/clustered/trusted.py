"""Trusted: answers requests at a node's control socket in a cluster with several shards.

The rule: each request goes to this node's broker of the shard that it is about. If another node
leads that shard, the refusal names that node: trust ends at the machine.
"""

from collections.abc import Callable, Mapping
from functools import partial

from starlette.types import ASGIApp, Receive, Scope, Send

from arneb.http.routing.routed import Target, path_of, unavailable
from arneb.http.shards.gathered import Gathered
from arneb.logs.shard_label import labelled_shard
from arneb.servers.shared import Shared
from arneb_cluster.routing.leaders import Leaders
from arneb_core.api.nodes.placement import Elsewhere


class Trusted:
    """The application of the control socket."""

    def __init__(
        self,
        leaders: Leaders,
        brokers: Callable[[], Mapping[str, Shared]],
        target_of: Callable[[str], Target],
        shards: tuple[str, ...],
    ) -> None:
        """``brokers`` returns this node's brokers by shard."""
        self._leaders = leaders
        self._brokers = brokers
        self._target_of = target_of
        shard_of = leaders.division.shard_of
        self._gathered = Gathered(shards, shard_of, self._of_shard, self._one)

    def __repr__(self) -> str:
        return f"<Trusted over {', '.join(self._brokers()) or 'no broker'}>"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        await self._gathered(scope, receive, send)

    def _of_shard(self, shard: str) -> ASGIApp:
        return partial(self._ask, shard)

    async def _one(self, scope: Scope, receive: Receive, send: Send) -> None:
        shard = self._leaders.division.shard_of(self._target_of(path_of(scope)).namespace)
        await self._ask(shard, scope, receive, send)

    async def _ask(self, shard: str, scope: Scope, receive: Receive, send: Send) -> None:
        broker = self._brokers().get(shard)
        if broker is not None:
            with labelled_shard(shard):
                await broker.api.trusted(scope, receive, send)
            return
        found = self._leaders.of_shard(shard)
        where = "nobody leads it"
        if isinstance(found, Elsewhere):
            where = f"node '{found.addresses.node}' leads it: ask there"
        await unavailable(send, f"shard '{shard}' is not led by this node, {where}")
