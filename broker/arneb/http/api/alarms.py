"""Alarms over HTTP: their state, and the watermarks, which can be moved.

The rule: ``PUT`` takes the names and values of the table ``[alarms]``, so a setting has one name in
the file, on the command line and here.
"""

from dataclasses import asdict
from typing import Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from arneb.http.access.rules import ADMINISTRATOR, MONITORING, RuledRoute
from arneb.monitoring.alarms import Alarms
from arneb.settings.table import ConfigInvalid
from arneb_core.api.encoding.json_text import InvalidJson, parse_json

BODY_BYTES_MAX: Final = 16 * 1024
"""The largest body; the whole table takes a few hundred bytes."""


def alarm_routes(alarms: Alarms) -> list[RuledRoute]:
    """Return the routes ``GET`` and ``PUT`` of ``/api/alarms``."""

    async def show(request: Request) -> Response:
        return JSONResponse(asdict(alarms.statistics))

    async def move(request: Request) -> Response:
        try:
            body = await request.body()
            if len(body) > BODY_BYTES_MAX:
                raise InvalidJson(f"expected at most {BODY_BYTES_MAX} bytes, got {len(body)}")
            wanted = parse_json(body)
            if not isinstance(wanted, dict):
                raise ConfigInvalid("expected an object of watermarks by name")
            await alarms.move(wanted)
        except (ConfigInvalid, InvalidJson) as error:
            return JSONResponse({"reason": str(error)}, status_code=400)
        return await show(request)

    return [
        RuledRoute("/api/alarms", show, MONITORING),
        RuledRoute("/api/alarms", move, ADMINISTRATOR, ["PUT"]),
    ]
