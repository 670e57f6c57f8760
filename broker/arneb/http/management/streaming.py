"""Streaming: the figures that a page watches, as server-sent events.

The rule: at most one round a second, only what has changed, and never more than one answer ahead of
the client. The stream ends when its session does, or when the user's rights change: the page then
reconnects, and gets what its user may see now.
"""

import json
from collections.abc import AsyncGenerator
from typing import Final

import trio

from arneb.http.management.answering import Request, answer
from arneb.http.management.everywhere import asked_everywhere
from arneb.http.management.page.watching import Watch, Watched
from arneb.http.management.requests.written import rendered

EVERY_S: Final = 1.0
ALIVE_S: Final = 10.0
"""After this long without an event an empty comment is sent, so that each side notices when the
other is gone."""

AGAIN_MS: Final = 1000
"""How long a browser waits before it reconnects."""


async def events(watch: Watch) -> AsyncGenerator[bytes, None]:
    """Yield the text of a stream, in pieces, until it ends. The first comes at once; if too many
    pages watch, :class:`Refused` is raised instead of it."""
    moved, sent = watch.session.moved, dict[str, str]()
    with watch.site.watchers.one_more():
        yield f"retry: {AGAIN_MS}\n\n".encode()
        last_s = trio.current_time()
        while not moved.is_set() and watch.site.sessions.lasts(watch.session):
            began = trio.current_time()
            for each in watch.watched:
                text = await _current(watch, each)
                if moved.is_set():
                    return
                if sent.get(each.name) != text:
                    sent[each.name], last_s = text, began
                    yield f"event: {each.name}\ndata: {text}\n\n".encode()
            if began - last_s >= ALIVE_S:
                last_s = began
                yield b":\n\n"
            with trio.move_on_at(began + EVERY_S):
                await moved.wait()


async def _current(watch: Watch, watched: Watched) -> str:
    everywhere = None if watch.is_of_one else watch.site.everywhere()

    async def make() -> str:
        if everywhere is not None:
            return await asked_everywhere(everywhere, watch, watched)
        request = Request(
            "GET", watched.raw_path, watched.query, address=watch.address,
            caller=watch.session.principal,
        )  # fmt: skip
        reply = await answer(watch.site, request)
        body = b"".join([each async for each in rendered(reply.body)]).decode()
        return json.dumps({"status": reply.status})[:-1] + f', "body": {body}}}'

    key = (watch.eyes, watched.raw_path, watched.query, "one" if watch.is_of_one else "all")
    return await watch.site.watchers.current(key, make)
