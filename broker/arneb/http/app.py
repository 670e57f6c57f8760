"""The HTTP application: which path answers what.

It is plain ASGI with Starlette's routing, so it can be served, mounted or tested by
anything that speaks ASGI; it knows no socket.
"""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from typing import Final, Protocol

import trio
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from arneb.alarms import Alarms
from arneb.http.alarms import alarm_routes
from arneb.http.documents import topic_document
from arneb.http.pages import Pages
from arneb.http.turns import turn_routes
from arneb.metrics import CONTENT_TYPE, broker_figures, topic_figures
from arneb.turn_watchdog import TurnWatchdog
from arneb_core.api.core import Core
from arneb_core.api.statistics import EngineStatistics, TopicStatistics


class ObservedCore(Core, Protocol):
    """A core that also tells how it is doing as a whole."""

    def statistics(self) -> EngineStatistics:
        """The engine at this instant."""
        ...


Endpoint = Callable[[Request], Awaitable[Response]]

ROWS_PER_TURN: Final = 50
"""Topics and subscriptions looked at between two checkpoints: about a millisecond in which nobody
is served."""


def http_app(
    core: ObservedCore,
    alarms: Alarms | None = None,
    watchdog: TurnWatchdog | None = None,
    more: Sequence[Route] = (),
    is_ready: Callable[[], bool] = lambda: True,
) -> Starlette:
    """The application over ``core``, over ``alarms`` if somebody watches for them, over
    ``watchdog`` if it is on, and with ``more`` routes. ``is_ready``: may clients be sent here?"""
    return Starlette(
        routes=[
            Route("/healthz", _healthz(core)),
            Route("/readyz", _readyz(is_ready)),
            Route("/metrics", metrics_of(core, alarms)),
            *([] if alarms is None else alarm_routes(alarms)),
            *([] if watchdog is None else turn_routes(watchdog)),
            Route("/api/topics", _topics(core)),
            *more,
        ],
        exception_handlers={HTTPException: _refuse},
    )


async def topic_statistics(core: Core) -> AsyncIterator[TopicStatistics]:
    """The statistics of every topic, in the order of their names."""
    rows = 0
    for name in sorted(core.topics):
        # A topic may go while we were at a checkpoint.
        if topic := core.topics.get(name):
            found = topic.statistics()
            yield found
            rows += 1 + len(found.subscriptions)
        if rows >= ROWS_PER_TURN:
            rows = 0
            await trio.lowlevel.checkpoint()


def _healthz(core: ObservedCore) -> Endpoint:
    async def healthz(request: Request) -> Response:
        # A full disk is no reason to be restarted: consumers go on, and so make room.
        return JSONResponse({"status": "ok", "store": "full" if core.statistics().full else "ok"})

    return healthz


def _readyz(is_ready: Callable[[], bool]) -> Endpoint:
    async def readyz(request: Request) -> Response:
        # An alarm is no reason to be taken away from those who drain the queues.
        ready = is_ready()
        return JSONResponse({"status": "ready" if ready else "not ready"}, 200 if ready else 503)

    return readyz


def metrics_of(core: ObservedCore, alarms: Alarms | None) -> Endpoint:
    """Answers with the figures of ``core`` for Prometheus."""

    async def make() -> AsyncIterator[str]:
        topics = [each async for each in topic_statistics(core)]
        short = None if alarms is None else alarms.statistics
        figures = partial(broker_figures, core.statistics(), len(topics), short)
        yield await trio.to_thread.run_sync(figures)
        for part in topic_figures(topics):
            yield part
            await trio.lowlevel.checkpoint()

    return Pages(make, CONTENT_TYPE).answer


def _topics(core: Core) -> Endpoint:
    async def make() -> AsyncIterator[str]:
        yield '{"topics":['
        comma = ""
        async for each in topic_statistics(core):
            yield comma + json.dumps(topic_document(each))
            comma = ","
        yield "]}"

    return Pages(make, "application/json").answer


async def _refuse(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse(
        {"reason": f"{error.detail}: {request.method} {request.url.path}"},
        status_code=error.status_code,
        headers=error.headers,
    )
