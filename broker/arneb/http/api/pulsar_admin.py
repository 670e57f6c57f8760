"""Pulsar's admin API on HTTP: passes calls to :mod:`arneb_pulsar.admin` and returns its answers.

The rule: nothing is decided here except how large a call may be.
"""

from collections.abc import AsyncIterator
from functools import partial
from typing import Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from arneb.http.access.guarded import CALLER, METRICS, Guarded
from arneb.http.access.rules import MONITORING, RuledRoute
from arneb.http.api.app import refuse
from arneb.http.server.asgi import REASON
from arneb.http.server.pages import Pages
from arneb.http.server.senders import HOLD
from arneb.metrics.own import broker_figures
from arneb.metrics.pulsar import PulsarMetrics
from arneb.metrics.text import CONTENT_TYPE
from arneb.monitoring.alarms import Alarms
from arneb.monitoring.observed import ObservedCore
from arneb_pulsar.admin.api import answer
from arneb_pulsar.admin.calls.requests import AdminError, Query, no_need, refusal
from arneb_pulsar.services.context import BrokerContext

METRICS_PATHS: Final = METRICS, METRICS + "/"
"""Pulsar redirects the first to the second, and programs that scrape Pulsar use either."""

BODY_BYTES_MAX: Final = 1024 * 1024
"""The largest body of a call; the largest document is a set of policies or a schema."""


def pulsar_admin_app(
    context: BrokerContext,
    core: ObservedCore,
    alarms: Alarms | None = None,
    *,
    open_metrics: bool = False,
) -> ASGIApp:
    """Return the application of ``context``, with metrics at Pulsar's path. Where clients must
    authenticate, so must administrators, and readers of metrics unless these are open."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1000, "reason": "not served here"})
            return
        response = await _respond(context, Request(scope, receive))
        await response(scope, receive, send)

    # Starlette handles the application's lifespan, and metrics. Every other path goes to the API's
    # own router.
    pages = Pages(partial(_metrics, PulsarMetrics(context, core), core, alarms), CONTENT_TYPE)
    metrics = [RuledRoute(path, pages.answer, MONITORING) for path in METRICS_PATHS]
    served = Starlette(routes=metrics, exception_handlers={HTTPException: refuse})
    served.router.default = app
    return Guarded(
        served,
        context.authenticator,
        METRICS_PATHS if open_metrics else (),
        is_super=context.authorizer.is_super,
    )


async def _metrics(
    pulsar: PulsarMetrics, core: ObservedCore, alarms: Alarms | None
) -> AsyncIterator[str]:
    """Yield Pulsar's metrics, and the engine's."""
    short = None if alarms is None else alarms.statistics
    yield await broker_figures(core.statistics(), len(core.topics), short)
    async for part in pulsar.parts():
        yield part


class _Reasoned(Response):
    """A response with the reason also in its status line."""

    reason = ""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def with_reason(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, REASON: self.reason}
            await send(message)

        await super().__call__(scope, receive, with_reason)


async def _respond(context: BrokerContext, request: Request) -> Response:
    # A path's segments may contain percent-encoded slashes.
    raw_path = request.scope.get("raw_path") or request.url.path.encode()
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > BODY_BYTES_MAX:
            reply = refusal(AdminError(413, f"expected at most {BODY_BYTES_MAX} bytes"))
            break
    else:
        path = raw_path.partition(b"?")[0].decode("latin-1")
        query = Query(request.query_params.multi_items())
        host = request.headers.get("host", "localhost")
        hold = request.scope.get("extensions", {}).get(HOLD, no_need)
        caller = request.scope[CALLER]
        reply = await answer(context, request.method, path, query, bytes(body), host, hold, caller)
    kind = reply.kind if reply.body else None
    response = _Reasoned(reply.body, status_code=reply.status, media_type=kind)
    response.reason = reply.reason
    # Java's client recognises message properties only by their headers' exact case, which
    # Starlette would change.
    response.raw_headers += [
        (name.encode("latin-1"), value.encode("latin-1")) for name, value in reply.headers
    ]
    return response
