"""Turns over HTTP: what the watchdog has measured, while it is on.

The rule: figures are read, never reset; clients that compare two instants take differences.
"""

from dataclasses import asdict

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from arneb.http.access.rules import MONITORING, RuledRoute
from arneb.monitoring.turn_watchdog import BOUNDS_MS, TurnWatchdog


def turn_routes(watchdog: TurnWatchdog) -> list[RuledRoute]:
    """Return the route ``GET /api/turns``."""

    async def show(request: Request) -> Response:
        return JSONResponse(
            {
                "turns": watchdog.turns.figures,
                "passes": watchdog.passes.figures,
                "collections": [each.figures for each in watchdog.collections],
                "bounds_ms": BOUNDS_MS,
                "turns_by_bound": watchdog.turns.counts,
                "culprits": [asdict(each) for each in watchdog.culprits],
            }
        )

    return [RuledRoute("/api/turns", show, MONITORING)]
