"""Writing: the routes that accept rows.

The rule: a body is passed on unread to the module that makes entries of it, with its sender's
rights.
"""

from collections.abc import Sequence
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from arneb import __version__
from arneb.data.asking import Fields, document, parameters
from arneb.data.commits import Commits, Wanted, expect_piece
from arneb.data.errors import DataError, bad_request
from arneb.data.rights import Rights
from arneb.data.room import STAGES_MAX
from arneb.data.rows import ROWS_MAX
from arneb.data.stages import BatchId, Stage
from arneb.settings.data_limits import DataLimits

LARGE: Final = ("/data/v1/publish", "/data/v1/stages")
"""The paths whose bodies are rows."""


class WritingRoutes:
    """The handlers for writing."""

    def __init__(self, commits: Commits, limits: DataLimits) -> None:
        self._commits = commits
        self._limits = limits

    def __repr__(self) -> str:
        return f"<WritingRoutes over {self._commits!r}>"

    async def greet(self, request: Request, rights: Rights) -> Response:
        """Answer with the broker's identity and limits."""
        parameters(request).end()
        limits = {
            "body_bytes_max": self._limits.body_bytes_max,
            "batch_bytes_max": self._limits.batch_bytes_max,
            "rows_max": ROWS_MAX,
        }
        return JSONResponse({"version": 1, "server": f"arneb {__version__}", "limits": limits})

    async def publish(self, request: Request, rights: Rights) -> Response:
        """Publish rows at once."""
        asked = parameters(request)
        mandatory = asked.flag("mandatory")
        asked.end()
        body = await self._body(request)
        rows, unrouted = await self._commits.publish(body, rights, mandatory=mandatory)
        return JSONResponse({"rows": rows, "unrouted": unrouted})

    async def stage(self, request: Request, rights: Rights) -> Response:
        """Stage rows for a commit."""
        asked = parameters(request)
        batch, name, number = _batch(asked), asked.name("stage"), asked.number("piece")
        asked.end()
        expect_piece(number)
        body = await self._body(request)
        kept = await self._commits.stage(batch, name, number, body, rights)
        document = _stage(kept or Stage(batch, name))
        return JSONResponse({**document, "already_committed": kept is None})

    async def stages(self, request: Request, rights: Rights) -> Response:
        """List the stages that wait for a commit."""
        asked = parameters(request)
        query, number = asked.name("query"), asked.maybe_number("batch")
        asked.end()
        self._commits.expect_own(query, rights)
        found = self._commits.stages.of_query(query)
        return JSONResponse(
            {"stages": [_stage(each) for each in found if number in (None, each.batch[1])]}
        )

    async def abort(self, request: Request, rights: Rights) -> Response:
        """Remove stages that wait for a commit."""
        asked = parameters(request)
        batch = _batch(asked)
        name = asked.name("stage") if "stage" in request.query_params else None
        asked.end()
        await self._commits.abort(batch, name, rights)
        return JSONResponse({})

    async def commit(self, request: Request, rights: Rights) -> Response:
        """Publish a batch, once."""
        body = await document(request)
        batch, mandatory = _batch(body), body.flag("mandatory")
        is_last = body.flag("last")
        wanted = _wanted(body.list("stages"))
        body.end()
        done = await self._commits.commit(
            batch, wanted, rights, mandatory=mandatory, is_last=is_last
        )
        return JSONResponse(done)

    async def last(self, request: Request, rights: Rights) -> Response:
        """Answer which batch of a query was published last."""
        asked = parameters(request)
        query = asked.name("query")
        asked.end()
        self._commits.expect_own(query, rights)
        return JSONResponse({"query": query, "batch": self._commits.last_committed(query)})

    async def _body(self, request: Request) -> bytes:
        body = await request.body()
        if len(body) > self._limits.body_bytes_max:
            most = self._limits.body_bytes_max
            reason = f"expected a body of at most {most} bytes (data.body_bytes_max)"
            raise DataError(413, "body_too_large", reason)
        return body


def _batch(asked: Fields) -> BatchId:
    return asked.name("query"), asked.number("batch")


def _wanted(given: Sequence[Fields]) -> list[Wanted]:
    if len(given) > STAGES_MAX:
        raise bad_request(f"expected at most {STAGES_MAX} stages, got {len(given)}")
    found: dict[str, Wanted] = {}
    for each in given:
        wanted = Wanted(each.name("stage"), each.number("pieces"), each.number("rows"))
        each.end()
        if wanted.name in found:
            raise bad_request(f"expected each stage once, got {wanted.name} twice")
        found[wanted.name] = wanted
    return list(found.values())


def _stage(stage: Stage) -> dict[str, Any]:
    return {
        "batch": stage.batch[1],
        "stage": stage.name,
        "pieces": len(stage.pieces),
        "rows": stage.rows,
        "bytes": stage.size,
    }
