"""Pages: long answers shared by all requests that come at the same time.

The rule: one page of a kind is made at a time, in short turns, for all requests that came before it
was begun, so no page is older than its request. Only a few are in memory, however many clients
leave theirs unread: while too many are being read, new requests get the newest of these, and
clients that have read nothing for a while are cut off, so that none keeps others from new figures.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Final
from weakref import WeakSet, ref

import trio
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from arneb.http.server.room import HELD_S

PIECE_BYTES: Final = 64 * 1024
"""Sent at a time."""

PAGES_MAX: Final = 3
"""Pages of a kind in memory: the newest, and some that slow clients still read. With 10,000 queues
a page of metrics takes 10 MiB."""

PAUSE_FACTOR: Final = 3
"""After a page that took a second to make, this many seconds pass before the next, so that no
number of clients takes more than a quarter of the broker's time."""

PAUSE_S_MAX: Final = 1.0


class _Reader:
    """A client that is reading a page."""

    __slots__ = ("scope", "since")

    def __init__(self) -> None:
        self.scope = trio.CancelScope()
        self.since = trio.current_time()
        """When it last took a piece."""


class Page:
    """One page, in pieces."""

    __slots__ = ("__weakref__", "bytes", "pieces", "readers")

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self.pieces = pieces
        self.bytes = sum(map(len, pieces))
        self.readers: dict[_Reader, None] = {}

    def __repr__(self) -> str:
        return f"<Page of {self.bytes} bytes>"


class _Wish:
    """The page that all requests between two pages wait for."""

    __slots__ = ("page",)

    def __init__(self) -> None:
        self.page: Page | None = None


class Pages:
    """Pages of one kind. ``make`` yields the text of one, with a checkpoint between its parts."""

    def __init__(self, make: Callable[[], AsyncIterator[str | bytes]], kind: str) -> None:
        self._make = make
        self._kind = kind
        self._one_at_a_time = trio.Lock()
        self._wish: _Wish | None = None
        self._next_at = 0.0
        self._newest: Callable[[], Page | None] = lambda: None
        self.alive: WeakSet[Page] = WeakSet()

    def __repr__(self) -> str:
        return f"<Pages {self._kind}, {len(self.alive)} in memory>"

    async def answer(self, request: Request) -> "PageAnswer":
        """Return the answer to a request for this page."""
        return PageAnswer(await self.current(), self._kind)

    async def current(self) -> Page:
        """Return a page begun after this call, unless too many are being read."""
        if self._wish is None:
            self._wish = _Wish()
        wish = self._wish
        async with self._one_at_a_time:
            if wish.page is None:
                await trio.sleep_until(self._next_at)
                if self._wish is wish:
                    self._wish = None
                wish.page = self._old() or await self._new()
        return wish.page

    def _old(self) -> Page | None:
        """Return the newest page if no newer one may be made now."""
        if len(self.alive) < PAGES_MAX:
            return None
        stands_since = trio.current_time() - HELD_S
        for page in list(self.alive):
            for reader in list(page.readers):
                if reader.since <= stands_since:
                    reader.scope.cancel()
        return self._newest()

    async def _new(self) -> Page:
        began = trio.current_time()
        pieces, parts, size = list[bytes](), list[bytes](), 0
        async for part in self._make():
            data = part.encode() if isinstance(part, str) else part
            parts.append(data)
            size += len(data)
            if size >= PIECE_BYTES:
                pieces.append(b"".join(parts))
                parts, size = [], 0
        pieces.append(b"".join(parts))
        page = Page(pieces)
        self._newest = ref(page)
        self.alive.add(page)
        now = trio.current_time()
        self._next_at = now + min(PAUSE_S_MAX, PAUSE_FACTOR * (now - began))
        return page


class PageAnswer(Response):
    """An answer with a page."""

    def __init__(self, page: Page, kind: str) -> None:
        super().__init__(media_type=kind, headers={"content-length": str(page.bytes)})
        self._page = page

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the page piece by piece, as fast as the client reads. Raises
        :class:`trio.TooSlowError` if the client reads nothing while others wait for a newer
        page."""
        page, reader = self._page, _Reader()
        page.readers[reader] = None
        try:
            with reader.scope:
                await send(
                    {"type": "http.response.start", "status": 200, "headers": self.raw_headers},
                )
                for piece in page.pieces:
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
                    reader.since = trio.current_time()
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            del page.readers[reader]
        if reader.scope.cancelled_caught:
            raise trio.TooSlowError
