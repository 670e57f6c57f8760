"""The routes of the metrics: ``/metrics``, ``/metrics/per-object`` and ``/metrics/detailed``.

The rule: a summary requested by several clients at once is made once; a list of objects is sent
while it is made.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Mapping
from contextlib import aclosing
from datetime import datetime
from typing import Final

import trio
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from arneb.http.access.rules import MONITORING, RuledRoute
from arneb.http.management.site import Site
from arneb.http.metrics.families import BY_NAME, DETAILED_PREFIX, FAMILIES, PREFIX, Family, Of
from arneb.http.metrics.pages import EVERYTHING, Chosen, RabbitPages
from arneb.http.metrics.topic_statistics import topic_statistics
from arneb.http.server.asgi import LEFT
from arneb.http.server.long_answers import long_answer
from arneb.http.server.pages import Pages
from arneb.metrics.own import broker_figures, certificate_figures, topic_figures
from arneb.metrics.text import CONTENT_TYPE
from arneb.monitoring.alarms import Alarms
from arneb.monitoring.lateness import Lateness
from arneb.monitoring.observed import ObservedCore
from arneb_core.access.errors import InvalidAccess
from arneb_core.access.patterns import compiled

BYTES_PER_OBJECT: Final = 200
"""Memory for each listed object while an answer is sent, the numbers of one family: 9 MiB for
50,000 queues."""

PIECE_BYTES: Final = 64 * 1024
"""The bytes sent at once."""

Expiries = Callable[[], Mapping[str, datetime]]
"""Returns when each listener's certificate expires, by listener name."""

Make = Callable[[], AsyncGenerator[str, None]]


class Metrics:
    """The metrics of one broker, with RabbitMQ's where AMQP is served (``site``). With
    ``per_object``, ``/metrics`` lists objects."""

    def __init__(
        self,
        core: ObservedCore,
        alarms: Alarms | None,
        site: Site | None = None,
        *,
        late: Lateness | None = None,
        per_object: bool = False,
        expiries: Expiries = dict,
        more: Callable[[], str] = str,
    ) -> None:
        """``expiries`` returns when certificates expire, ``more`` the node's own metrics."""
        self._more = more
        self._expiries = expiries
        self._core = core
        self._alarms = alarms
        self._late = late
        self._rabbit = None if site is None else RabbitPages(site)
        self._per_object = per_object
        self._sums = Pages(self._summed, CONTENT_TYPE)

    def __repr__(self) -> str:
        return f"<Metrics of {self._core!r}>"

    @property
    def routes(self) -> list[RuledRoute]:
        """The routes of all pages."""
        return [
            RuledRoute(
                "/metrics", self._objects if self._per_object else self._sums.answer, MONITORING
            ),
            RuledRoute("/metrics/per-object", self._objects, MONITORING),
            RuledRoute("/metrics/aggregated", self._sums.answer, MONITORING),
            RuledRoute("/metrics/detailed", self._detailed, MONITORING),
        ]

    async def _summed(self, without: Collection[Family] = ()) -> AsyncIterator[str]:
        """Yield the single figures, and the sums of all families but some."""
        topics = len(self._core.topics)
        short = None if self._alarms is None else self._alarms.statistics
        late = None if self._late is None else self._late.statistics
        yield await broker_figures(self._core.statistics(), topics, short, late)
        yield certificate_figures(self._expiries())
        yield self._more()
        if self._rabbit is not None:
            yield await self._rabbit.sums(without)

    async def _objects(self, request: Request) -> Response:
        wanted = [each for each in FAMILIES if not each.in_detail_only and each.of is not Of.NODE]

        async def make() -> AsyncGenerator[str, None]:
            async for part in self._summed(wanted):
                yield part
            if self._rabbit is not None:
                async for part in self._rabbit.objects(EVERYTHING, wanted, PREFIX):
                    yield part
            topics = [each async for each in topic_statistics(self._core)]
            for part in topic_figures(topics):
                yield part
                await trio.lowlevel.checkpoint()

        return self._streamed(make)

    async def _detailed(self, request: Request) -> Response:
        families, chosen = _families(request), _chosen(request)

        async def make() -> AsyncGenerator[str, None]:
            if self._rabbit is not None:
                async for part in self._rabbit.objects(chosen, families, DETAILED_PREFIX):
                    yield part

        return self._streamed(make)

    def _streamed(self, make: Make) -> Response:
        return Streamed(make, BYTES_PER_OBJECT * len(self._core.topics))


class Streamed(Response):
    """An answer that is made while it is sent; ``held`` is the bytes of its source."""

    def __init__(self, make: Make, held: int) -> None:
        super().__init__(media_type=CONTENT_TYPE)
        del self.headers["content-length"]  # unknown before the end
        self._make = make
        self._held = held

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the answer piece by piece, as fast as the client reads."""
        async with aclosing(self._make()) as parts:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            gathered, size = list[str](), 0
            await long_answer()
            async for part in parts:
                gathered.append(part)
                size += len(part)
                if size >= PIECE_BYTES:
                    body = "".join(gathered).encode()
                    gathered, size = [], 0
                    piece = {"type": "http.response.body", "body": body, "more_body": True}
                    await send(piece | {LEFT: self._held})
                    await long_answer()
            body = "".join(gathered).encode()
            await send({"type": "http.response.body", "body": body, "more_body": False})


def _families(request: Request) -> list[Family]:
    """Return the families that the query names, each once, without unknown ones. As in RabbitMQ, a
    query that names none gets none."""
    named = dict.fromkeys(request.query_params.getlist("family"))
    return [BY_NAME[name] for name in named if name in BY_NAME]


def _chosen(request: Request) -> Chosen:
    vhosts, names = request.query_params.getlist("vhost"), request.query_params.getlist("name")
    if not names:
        return Chosen(frozenset(vhosts) or None)
    try:
        patterns = [compiled(each) for each in names]
    except InvalidAccess as error:
        raise HTTPException(400, str(error)) from error
    return Chosen(frozenset(vhosts) or None, lambda name: any(each(name) for each in patterns))


def metrics_app(metrics: Metrics) -> Starlette:
    """Return the application of a port that serves only metrics."""
    return Starlette(routes=metrics.routes, exception_handlers={HTTPException: _refuse})


async def _refuse(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    headers: Mapping[str, str] = error.headers or {}
    return Response(f"{error.detail}\n", error.status_code, dict(headers), "text/plain")
