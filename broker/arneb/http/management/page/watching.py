"""Watching: what a page shows, as calls that are answered each second for as long as it does.

The rule: a page names what stands on the screen and nothing else is sent; what it names is bounded,
and what could be long has to be asked for page by page.
"""

from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl

from arneb.http.management.calls import Call, Refused, Reply, bad_request
from arneb.http.management.router import ROOT, Route
from arneb.http.management.rules import USERS, is_administrator
from arneb.http.management.sessions import Session
from arneb.http.management.site import Site

WATCHED_MAX: Final = 4
"""Calls on one page."""

CALL_CHARACTERS_MAX: Final = 2000
NAME_CHARACTERS_MAX: Final = 40

ROWS_MAX: Final = 100
"""Of a list; more do not fit on a screen."""

LISTS: Final = frozenset({"queues", "connections", "channels", "exchanges", "page/topics"})
"""Asked for page by page only: there may be very many."""

BY_VHOST: Final = frozenset({"queues", "exchanges", "page/topics"})
"""Lists of which there is one of each vhost, too."""

WATCHABLE: Final = frozenset(
    {"overview", "nodes", "queues", "connections", "channels", "exchanges", "page"}
)
"""What may be watched, by the first word of its path: figures, which look at much but change
nothing and say the same to all administrators."""

EVERY_ADMINISTRATOR: Final = ""
"""Administrators all see the same."""


@dataclass(frozen=True, slots=True)
class Watched:
    """One call that is answered each second."""

    name: str
    """By which the page knows the answers."""
    raw_path: str
    query: str


@dataclass(frozen=True, slots=True)
class Watch:
    """What one page shows: the body of a reply that goes on until its session ends."""

    site: Site
    session: Session
    watched: tuple[Watched, ...]
    address: str

    @property
    def eyes(self) -> str:
        """Whoever has the same sees the same."""
        principal = self.session.principal
        return EVERY_ADMINISTRATOR if is_administrator(principal) else f"user {principal.name}"


async def _watch(site: Site, call: Call) -> Reply:
    session = site.sessions.find(call.headers.get("cookie", ""))
    if session is None:
        raise bad_request("expected a session, as a login at page/session begins one")
    if not 1 <= len(call.query) <= WATCHED_MAX:
        raise bad_request(f"expected 1 to {WATCHED_MAX} calls to watch, got {len(call.query)}")
    watched = tuple(_watched(name, text) for name, text in call.query.items())
    if not site.watchers.has_room:
        raise Refused(503, "unavailable", "too many pages are open")
    headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
    body = Watch(site, session, watched, call.address)
    return Reply(body, headers=headers, kind="text/event-stream")


def _watched(name: str, text: str) -> Watched:
    if not name.isidentifier() or len(name) > NAME_CHARACTERS_MAX:
        raise bad_request("expected names of calls to be plain words")
    if len(text) > CALL_CHARACTERS_MAX or not text.isprintable():
        raise bad_request(f"{name}: expected a call of {CALL_CHARACTERS_MAX} characters at most")
    path, _, query = text.partition("?")
    if path.split("/")[0] not in WATCHABLE or path == "page/stream":
        raise bad_request(f"{name}: {path[:100]} cannot be watched")
    asked = dict(parse_qsl(query, keep_blank_values=True))
    if _is_list(path):
        size = asked.get("page_size", "")
        if "page" not in asked or not size.isdecimal() or int(size) > ROWS_MAX:
            raise bad_request(f"{name}: expected page, and page_size of {ROWS_MAX} at the most")
    return Watched(name, ROOT + path, query)


def _is_list(path: str) -> bool:
    """A list of everything, or of a vhost."""
    return path in LISTS or path.rpartition("/")[0] in BY_VHOST


ROUTES: Final = (Route("GET", "page/stream", USERS, _watch),)
