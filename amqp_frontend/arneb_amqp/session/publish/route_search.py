"""A route search: where one channel's messages go if it depends on their headers.

The rule: a search that is too long for a turn goes on in a later one, and is not begun again.
"""

from collections.abc import Mapping

from arneb_amqp.routing.router import RouteResult
from arneb_amqp.routing.routes import CachedRoute
from arneb_amqp.routing.search import Search, StillSearching
from arneb_amqp.session.context import ChannelContext, VhostContext
from arneb_amqp.session.publish.publish_cost import PROPERTY_BYTES_PER_WORK, ROUTE_WORK
from arneb_amqp.wire.tables import Field


class RouteSearch:
    """The route search of one channel."""

    __slots__ = ("_context", "_search", "_vhost")

    def __init__(self, context: ChannelContext, vhost: VhostContext) -> None:
        self._context = context
        self._vhost = vhost
        self._search: Search | None = None

    def __repr__(self) -> str:
        return f"<RouteSearch, {'idle' if self._search is None else 'not finished'}>"

    def result(
        self,
        route: CachedRoute,
        headers: Mapping[str, Field] | None,
        copies: tuple[str, ...],
        property_bytes: int,
    ) -> RouteResult:
        """Return where a message goes, and charge the work to the turn. ``copies`` are further
        routing keys. Raises :class:`.StillSearching` if it takes another turn: ask again then, with
        the same arguments."""
        search, self._search = self._search, None
        asked = route.exchange, route.routing_key, headers, copies
        if search is None or not search.answers(*asked):
            self._context.work_left -= ROUTE_WORK + property_bytes // PROPERTY_BYTES_PER_WORK
            search = Search(self._vhost.routes.router, *asked)
            if not search.step():
                self._search = search
                raise StillSearching(search)
        self._context.work_left -= len(search.result.queues)
        return search.result
