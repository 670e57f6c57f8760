"""The files of the management page, as shipped in the package.

The rule: the files contain nothing of this broker, so everybody may get them. The page loads
nothing from elsewhere, runs only scripts in our files, and cannot be framed by another site.
"""

import gzip
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files
from typing import Final

import trio
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

INDEX: Final = "/"
PREFIX: Final = "/page/"
FOLDER: Final = "static"

KINDS: Final[Mapping[str, str]] = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
    "txt": "text/plain; charset=utf-8",
}
"""The content types by file name extension; other files are not served."""

POLICY: Final = (
    "default-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'self'; "
    "object-src 'none'; frame-ancestors 'none'"
)
SECURITY: Final[Mapping[str, str]] = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=()",
}

ALWAYS_ASKED: Final = "no-cache"
"""A browser checks each time whether its copy is current, so that no page mixes two versions."""


@dataclass(frozen=True, slots=True)
class PageFile:
    """One file."""

    kind: str
    data: bytes
    packed: bytes
    tag: str
    """The entity tag of the content."""

    def headers(self, *, packed: bool) -> dict[str, str]:
        """Return the headers of an answer with this file."""
        found = {
            **SECURITY,
            "content-type": self.kind,
            "cache-control": ALWAYS_ASKED,
            "etag": self.tag,
            "vary": "accept-encoding",
        }
        return {**found, "content-encoding": "gzip"} if packed else found


def read_files() -> Mapping[str, PageFile]:
    """Return all files by path."""
    found: dict[str, PageFile] = {}
    folders = [("", files(__package__).joinpath(FOLDER))]
    while folders:
        above, folder = folders.pop()
        for each in folder.iterdir():
            kind = KINDS.get(each.name.rpartition(".")[2])
            if each.is_dir():
                folders.append((f"{above}{each.name}/", each))
            elif kind is not None:
                found[PREFIX + above + each.name] = _file(kind, each.read_bytes())
    return {**found, INDEX: found[f"{PREFIX}index.html"]}


def _file(kind: str, data: bytes) -> PageFile:
    tag = f'"{sha256(data).hexdigest()[:24]}"'
    return PageFile(kind, data, gzip.compress(data, 9, mtime=0), tag)


class PageFiles:
    """Serves the files, and passes other requests to another application."""

    def __init__(self, next_app: ASGIApp) -> None:
        self._next = next_app
        self._files: Mapping[str, PageFile] | None = None
        self._reading = trio.Lock()

    def __repr__(self) -> str:
        return f"<PageFiles before {self._next!r}>"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"] if scope["type"] == "http" else ""
        if (path != INDEX and not path.startswith(PREFIX)) or scope["method"] not in (
            "GET",
            "HEAD",
        ):
            await self._next(scope, receive, send)
            return
        found = (await self._all()).get(path)
        if found is None:
            await self._next(scope, receive, send)
            return
        headers = Headers(scope=scope)
        packed = "gzip" in headers.get("accept-encoding", "")
        known = found.tag in headers.get("if-none-match", "")
        data = b"" if known else found.packed if packed else found.data
        sent = found.headers(packed=packed and not known)
        if not known:
            sent["content-length"] = str(len(data))
        raw = [(name.encode(), value.encode()) for name, value in sent.items()]
        status = 304 if known else 200
        await send({"type": "http.response.start", "status": status, "headers": raw})
        await send({"type": "http.response.body", "body": data})

    async def _all(self) -> Mapping[str, PageFile]:
        """Return all files, read and compressed once, at the first request."""
        async with self._reading:
            if self._files is None:
                self._files = await trio.to_thread.run_sync(read_files)
        return self._files
