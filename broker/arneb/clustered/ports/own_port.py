"""A node's own HTTP ports: the leading broker's application while there is one, and the node's own
state at any time.

The rule: a node answers about its own state, and requires the same authentication whether it leads
or not. Without a broker here, the answer to any other request is to retry.
"""

import json
from collections.abc import Callable
from typing import Any, Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from arneb.http.access.guarded import HEALTH, METRICS, READY, Guarded
from arneb.http.access.rules import HEALTH as HEALTH_RULE
from arneb.http.access.rules import MONITORING, Endpoint, RuledRoute
from arneb.http.routing.routed import EVERYTHING_ELSE, NAMESPACE
from arneb.http.routing.targets import MEMBER_PATH
from arneb.logs.shard_label import labelled_shard
from arneb.metrics.text import CONTENT_TYPE
from arneb.servers.handed_over import HandedOver
from arneb_core.access.authority import Authority
from arneb_pulsar.authorization.callers import Caller
from arneb_pulsar.services.clients.authenticator import Authenticator

PULSAR_HEALTH: Final = ("/admin/v2/brokers/health", "/admin/v2/brokers/ready")

RETRY_AFTER_S: Final = 1


class OwnPort:
    """One port of this node."""

    def __init__(
        self, handed_of: Callable[[str], HandedOver], name: str, following: ASGIApp
    ) -> None:
        """``handed_of`` returns the entry points of a namespace's broker. ``following`` answers
        while there is none."""
        self._handed_of = handed_of
        self._name = name
        self._following = following

    def __repr__(self) -> str:
        return f"<OwnPort {self._name}>"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        handed = self._handed_of(scope.get(NAMESPACE, EVERYTHING_ELSE))
        server = handed.http.get(self._name)
        app = self._following if server is None else server.app
        with labelled_shard("" if server is None else handed.label):
            await app(scope, receive, send)


def following_app(
    figures: Callable[[], str],
    is_ready: Callable[[], bool],
    authenticator: Authenticator,
    authority: Authority,
    has_named: Callable[[], bool],
    is_super: Callable[[Caller], bool],
    membership: Callable[[], dict[str, Any]],
    *,
    open_metrics: bool,
) -> ASGIApp:
    """Return health, metrics and membership of a node that does not lead, as on a broker's HTTP
    port."""
    opened = (HEALTH, READY, METRICS) if open_metrics else (HEALTH, READY)
    inside = Starlette(
        routes=[
            RuledRoute(HEALTH, _health, HEALTH_RULE),
            RuledRoute(READY, _ready(is_ready), HEALTH_RULE),
            RuledRoute(METRICS, _metrics(figures), MONITORING),
            RuledRoute(MEMBER_PATH, _membership(membership), MONITORING),
            *_rest(),
        ]
    )
    return Guarded(inside, authenticator, opened, authority, has_named=has_named, is_super=is_super)


def following_pulsar_app(
    figures: Callable[[], str],
    authenticator: Authenticator,
    is_super: Callable[[Caller], bool],
    *,
    open_metrics: bool,
) -> ASGIApp:
    """Return the same as on Pulsar's admin port. Health is open to everybody: probes ask a node
    that does not lead."""
    opened = (*PULSAR_HEALTH, METRICS) if open_metrics else PULSAR_HEALTH
    inside = Starlette(
        routes=[
            *(RuledRoute(each, _pulsar_health, HEALTH_RULE) for each in PULSAR_HEALTH),
            RuledRoute(METRICS, _metrics(figures), MONITORING),
            *_rest(),
        ]
    )
    return Guarded(inside, authenticator, opened, is_super=is_super)


def following_metrics_app(figures: Callable[[], str]) -> ASGIApp:
    """Return the metrics of a node that does not lead, for a port of their own."""
    return Starlette(routes=[RuledRoute(METRICS, _metrics(figures), MONITORING), *_rest()])


def _rest() -> list[RuledRoute]:
    every = ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"]
    return [RuledRoute("/{path:path}", _without_leader, MONITORING, methods=every)]


async def _health(request: Request) -> Response:
    return JSONResponse({"status": "ok", "store": "ok"})


async def _pulsar_health(request: Request) -> Response:
    return PlainTextResponse("ok")


def _ready(is_ready: Callable[[], bool]) -> Endpoint:
    async def answer(request: Request) -> Response:
        ready = is_ready()
        return JSONResponse({"status": "ready" if ready else "not ready"}, 200 if ready else 503)

    return answer


def _metrics(figures: Callable[[], str]) -> Endpoint:
    async def answer(request: Request) -> Response:
        return Response(figures(), media_type=CONTENT_TYPE)

    return answer


def _membership(membership: Callable[[], dict[str, Any]]) -> Endpoint:
    async def answer(request: Request) -> Response:
        return JSONResponse(membership())

    return answer


async def _without_leader(request: Request) -> Response:
    document = {"error": "service_unavailable", "reason": "this node does not lead"}
    headers = {"retry-after": str(RETRY_AFTER_S)}
    return Response(json.dumps(document), 503, headers, "application/json")
