"""HTTP answers of a broker that may have been superseded."""

from collections.abc import AsyncIterator

import httpx
import pytest
import trio
import trio.testing
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from arneb.http.routing.leased import Leased, LeaseEnded
from arneb_core.testing.leases import GivenLease


def client_of(lease: GivenLease) -> httpx.AsyncClient:
    async def queues(request: Request) -> Response:
        return PlainTextResponse("all")

    async def changed(request: Request) -> Response:
        lease.say(holds=False)
        return PlainTextResponse("done")

    async def long(request: Request) -> Response:
        async def pieces() -> AsyncIterator[str]:
            yield "a"
            lease.say(holds=False)
            yield "b"

        return StreamingResponse(pieces())

    routes = [Route("/queues", queues), Route("/healthz", queues), Route("/long", long)]
    routes.append(Route("/changed", changed, methods=["PUT"]))
    app = Leased(Starlette(routes=routes), lease, ["/healthz"])
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://node")


async def test_an_answer_waits_a_little_for_the_lease() -> None:
    lease = GivenLease(holds=False)
    async with client_of(lease) as client:
        began = trio.current_time()
        answer = await client.get("/queues")
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        assert 2 <= trio.current_time() - began < 3
        assert (await client.get("/healthz")).text == "all"

        async def come_back() -> None:
            await trio.testing.wait_all_tasks_blocked()
            lease.say(holds=True)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(come_back)
            assert (await client.get("/queues")).text == "all"


async def test_an_answer_that_came_too_late_is_not_sent() -> None:
    async with client_of(GivenLease()) as client:
        assert (await client.put("/changed")).status_code == 503


async def test_an_answer_that_has_begun_is_broken_off() -> None:
    async with client_of(GivenLease()) as client:
        with pytest.RaisesGroup(LeaseEnded, allow_unwrapped=True, flatten_subgroups=True):
            await client.get("/long")
