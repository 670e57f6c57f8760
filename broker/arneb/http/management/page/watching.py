"""Watching: the calls of a page that are answered each second while it is shown.

The rule: a page names the calls for what is on the screen, and nothing else is sent. Their number
is bounded, and long lists have to be requested page by page.
"""

from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl

from arneb.http.management.requests.calls import Call, Reply, bad_request
from arneb.http.management.requests.rules import USERS, is_administrator
from arneb.http.management.router import ROOT, Route
from arneb.http.management.sessions import Session
from arneb.http.management.site import Site

WATCHED_MAX: Final = 4
"""Calls of one page."""

CALL_CHARACTERS_MAX: Final = 2000
NAME_CHARACTERS_MAX: Final = 40

ROWS_MAX: Final = 100
"""Rows of a list; more do not fit on a screen."""

LISTS: Final = frozenset(
    {"queues", "connections", "channels", "exchanges", "page/topics", "page/connections"}
)
"""Lists that may be very long, and can only be watched page by page."""

BY_VHOST: Final = frozenset({"queues", "exchanges", "page/topics"})
"""Lists that also exist for each vhost."""

WATCHABLE: Final = tuple(
    path.split("/")
    for path in (
        "overview", "nodes", "nodes/:node",
        "queues", "queues/:vhost", "queues/:vhost/:queue",
        "exchanges", "exchanges/:vhost", "exchanges/:vhost/:exchange",
        "connections", "connections/:connection", "channels", "channels/:channel",
        "page/topics", "page/topics/:vhost", "page/queues/:vhost/:queue",
        "page/topic/:topic", "page/connections", "page/pulsar/connections/:connection",
        "page/transactions", "page/delayed", "page/node",
    )
)  # fmt: skip
"""The routes that may be watched, by segment: figures that are cheap to compute each second, have
no side effects and are the same for all administrators. Messages and bindings are requested
once."""

OF_ONE: Final = "x-arneb-shard"
"""The header of requests below the path of one shard: only that shard is shown."""

EVERY_ADMINISTRATOR: Final = ""
"""The key that all administrators share, since they see the same."""


@dataclass(frozen=True, slots=True)
class Watched:
    """One call to answer each second."""

    name: str
    """The page's name for the answers."""
    raw_path: str
    query: str


@dataclass(frozen=True, slots=True)
class Watch:
    """The calls of one page: the body of a reply that continues until its session ends."""

    site: Site
    session: Session
    watched: tuple[Watched, ...]
    address: str
    is_of_one: bool = False
    """Only one shard of a cluster is watched, though there may be several."""

    @property
    def eyes(self) -> str:
        """A key that sessions share if they see the same."""
        principal = self.session.principal
        return EVERY_ADMINISTRATOR if is_administrator(principal) else f"user {principal.name}"


async def _watch(site: Site, call: Call) -> Reply:
    session = site.sessions.find(call.headers.get("cookie", ""))
    if session is None:
        raise bad_request("expected a session, as a login at page/session begins one")
    if not 1 <= len(call.query) <= WATCHED_MAX:
        raise bad_request(f"expected 1 to {WATCHED_MAX} calls to watch, got {len(call.query)}")
    watched = tuple(_watched(name, text) for name, text in call.query.items())
    headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
    body = Watch(site, session, watched, call.address, OF_ONE in call.headers)
    return Reply(body, headers=headers, kind="text/event-stream")


def _watched(name: str, text: str) -> Watched:
    if not name.isidentifier() or len(name) > NAME_CHARACTERS_MAX:
        raise bad_request("expected names of calls to be plain words")
    if len(text) > CALL_CHARACTERS_MAX or not text.isprintable():
        raise bad_request(f"{name}: expected a call of {CALL_CHARACTERS_MAX} characters at most")
    path, _, query = text.partition("?")
    if not _is_watchable(path):
        raise bad_request(f"{name}: {path[:100]} cannot be watched")
    asked = dict(parse_qsl(query, keep_blank_values=True))
    if _is_list(path):
        size = asked.get("page_size", "")
        if "page" not in asked or not size.isdecimal() or int(size) > ROWS_MAX:
            raise bad_request(f"{name}: expected page, and page_size of {ROWS_MAX} at the most")
    return Watched(name, ROOT + path, query)


def _is_watchable(path: str) -> bool:
    words = path.split("/")
    return any(len(words) == len(route) and all(map(_fits, words, route)) for route in WATCHABLE)


def _fits(word: str, of_route: str) -> bool:
    return bool(word) if of_route.startswith(":") else word == of_route


def _is_list(path: str) -> bool:
    """Return whether a path is a list, of everything or of a vhost."""
    return path in LISTS or path.rpartition("/")[0] in BY_VHOST


ROUTES: Final = (Route("GET", "page/stream", USERS, _watch),)
