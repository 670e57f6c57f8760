"""Divided metrics: those of every broker on a node, where a cluster has several shards.

The rule: a node reports only its own brokers, so that scraping all nodes gives everything once.
Each broker decides who may see its metrics, as it does when it is the only one.
"""

from collections.abc import Mapping
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from arneb.http.routing.routed import path_of, unavailable
from arneb.http.routing.targets import METRICS_PATHS
from arneb.http.server.whole_answers import Answer, holding, whole_answer
from arneb.metrics.text import CONTENT_TYPE
from arneb.metrics.together import together
from arneb.servers.handed_over import HandedOver

HELD_BYTES_MAX: Final = 64 * 1024 * 1024
"""The most bytes of a node's pages while they are joined: 300,000 series."""


class DividedMetrics:
    """The metrics of one port, in front of its other paths."""

    def __init__(self, parts: Mapping[str, HandedOver], name: str, rest: ASGIApp) -> None:
        """``parts`` are the entry points of the shards' brokers. ``rest`` answers all other paths,
        and the metrics while the node leads nothing."""
        self._parts = parts
        self._name = name
        self._rest = rest

    def __repr__(self) -> str:
        return f"<DividedMetrics before {self._rest!r}>"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        here = {
            shard: server.app
            for shard, handed in self._parts.items()
            if (server := handed.http.get(self._name)) is not None
        }
        if scope["type"] != "http" or path_of(scope) not in METRICS_PATHS or not here:
            await self._rest(scope, receive, send)
            return
        with holding():
            await self._answer(here, scope, send)

    async def _answer(self, here: Mapping[str, ASGIApp], scope: Scope, send: Send) -> None:
        headers = [each for each in scope["headers"] if each[0].lower() != b"accept-encoding"]
        plain = {**scope, "headers": headers}
        pages: list[tuple[str, str]] = []
        held = 0
        for shard, app in here.items():
            answer = await whole_answer(app, plain, HELD_BYTES_MAX)
            if answer.status != 200:
                await answer.pass_on(send)
                return
            held += len(answer.body)
            if held > HELD_BYTES_MAX:
                await unavailable(send, f"expected at most {HELD_BYTES_MAX} bytes of metrics")
                return
            pages.append((shard, answer.body.decode()))
        kind = [(b"content-type", CONTENT_TYPE.encode())]
        await Answer(200, kind, together(pages).encode()).pass_on(send)
