"""The HTTP application: Arneb's own paths and their handlers.

The rule: it is plain ASGI with Starlette's routing and knows no socket, so anything that speaks
ASGI can serve, mount or test it.
"""

import json
from collections.abc import AsyncIterator, Callable, Sequence

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from arneb.http.access.rules import HEALTH, MONITORING, Endpoint, RuledRoute
from arneb.http.api.alarms import alarm_routes
from arneb.http.api.documents import topic_document
from arneb.http.api.turns import turn_routes
from arneb.http.metrics.app import Metrics
from arneb.http.metrics.topic_statistics import topic_statistics
from arneb.http.server.pages import Pages
from arneb.monitoring.alarms import Alarms
from arneb.monitoring.observed import ObservedCore
from arneb.monitoring.turn_watchdog import TurnWatchdog
from arneb_core.api.core import Core


def http_app(
    core: ObservedCore,
    alarms: Alarms | None = None,
    watchdog: TurnWatchdog | None = None,
    more: Sequence[RuledRoute] = (),
    metrics: Metrics | None = None,
    is_ready: Callable[[], bool] = lambda: True,
) -> Starlette:
    """Return the application of ``core``, of ``alarms`` if they are watched and ``watchdog`` if it
    is on, with ``more`` routes and ``metrics``, by default the core's. ``is_ready`` returns whether
    clients may be sent here."""
    metrics = metrics or Metrics(core, alarms)
    return Starlette(
        routes=[
            RuledRoute("/healthz", _healthz(core), HEALTH),
            RuledRoute("/readyz", _readyz(is_ready), HEALTH),
            *metrics.routes,
            *([] if alarms is None else alarm_routes(alarms)),
            *([] if watchdog is None else turn_routes(watchdog)),
            RuledRoute("/api/topics", _topics(core), MONITORING),
            *more,
        ],
        exception_handlers={HTTPException: refuse},
    )


def _healthz(core: ObservedCore) -> Endpoint:
    async def healthz(request: Request) -> Response:
        # A full disk is no reason for a restart: consumers continue, which frees space.
        return JSONResponse({"status": "ok", "store": "full" if core.statistics().full else "ok"})

    return healthz


def _readyz(is_ready: Callable[[], bool]) -> Endpoint:
    async def readyz(request: Request) -> Response:
        # An alarm must not keep away the consumers that drain the queues.
        ready = is_ready()
        return JSONResponse({"status": "ready" if ready else "not ready"}, 200 if ready else 503)

    return readyz


def _topics(core: Core) -> Endpoint:
    async def make() -> AsyncIterator[str]:
        yield '{"topics":['
        comma = ""
        async for each in topic_statistics(core):
            yield comma + json.dumps(topic_document(each))
            comma = ","
        yield "]}"

    return Pages(make, "application/json").answer


async def refuse(request: Request, error: Exception) -> Response:
    """Answer as JSON why no route answers."""
    assert isinstance(error, HTTPException)
    return JSONResponse(
        {"reason": f"{error.detail}: {request.method} {request.url.path}"},
        status_code=error.status_code,
        headers=error.headers,
    )
