"""Sessions: who has logged in at the management page, by the token that the browser keeps.

The rule: a token is nothing but chance, and is kept in memory only. A session ends when the user
logs out, is deleted or gets another password; it asks anew what the user may do whenever that has
changed, and whoever streams figures by it hears of both at once.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from http.cookies import CookieError, SimpleCookie
from secrets import token_urlsafe
from typing import Final

import trio

from arneb_core.access.catalogue import Catalogue
from arneb_core.access.principals import Principal
from arneb_core.access.records import Permission, TopicPermission, User
from arneb_core.access.tables import Changed

COOKIE: Final = "arneb-session"
TOKEN_BYTES: Final = 32

ROOT_PATH: Final = "/"

SESSIONS_MAX: Final = 1000
"""When one more comes, the one that was not used for the longest time ends."""

IDLE_S: Final = 8 * 3600.0
"""Unused for so long a session ends, as in RabbitMQ."""

FOREIGN_S: Final = 3600.0
"""So long at the most lasts the session of somebody whom another server knows, or a token: what
tags they have now is known at a login only."""


class Session:
    """Somebody who has logged in."""

    __slots__ = ("moved", "opened_s", "path", "principal", "token", "used_s", "user")

    def __init__(
        self, token: str, principal: Principal, user: User | None, now: float, path: str
    ) -> None:
        self.path: Final = path
        """Where the page was when its user logged in: several brokers may stand behind one proxy,
        and each has its own cookie."""
        self.token: Final = token
        self.principal = principal
        self.user = user
        """The record of the catalogue; None: somebody else knows who it is."""
        self.opened_s: Final = now
        self.used_s = now
        self.moved = trio.Event()
        """Set when what the user may do has changed, or the session is over."""

    def __repr__(self) -> str:
        return f"<Session of {self.principal.name!r}>"

    def move(self) -> None:
        """What the user may do has changed."""
        self.moved.set()
        self.moved = trio.Event()


class Sessions:
    """The sessions of one node."""

    def __init__(
        self, catalogue: Catalogue, clock: Callable[[], float] = trio.current_time
    ) -> None:
        self._catalogue = catalogue
        self._clock = clock
        self._sessions: OrderedDict[str, Session] = OrderedDict()
        """By their tokens, first those that were not used for the longest time."""
        catalogue.watch(self._changed)

    def __repr__(self) -> str:
        return f"<Sessions, {len(self._sessions)} open>"

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, principal: Principal, path: str = ROOT_PATH) -> Session:
        """Somebody has logged in."""
        user = self._catalogue.get(User, principal.name)
        session = Session(token_urlsafe(TOKEN_BYTES), principal, user, self._clock(), path)
        self._sessions[session.token] = session
        if len(self._sessions) > SESSIONS_MAX:
            self.end(next(iter(self._sessions.values())))
        return session

    def find(self, cookies: str) -> Session | None:
        """The session of which a header ``Cookie`` has the token."""
        session = self._sessions.get(token_in(cookies))
        if session is None:
            return None
        now = self._clock()
        if not self.lasts(session):
            self.end(session)
            return None
        session.used_s = now
        self._sessions.move_to_end(session.token)
        return session

    def lasts(self, session: Session) -> bool:
        """Is it still open?"""
        now = self._clock()
        is_foreign_old = session.user is None and now - session.opened_s > FOREIGN_S
        idle = now - session.used_s > IDLE_S
        return session.token in self._sessions and not (is_foreign_old or idle)

    def end(self, session: Session) -> None:
        """The user has logged out, or is not to come in any more."""
        self._sessions.pop(session.token, None)
        session.move()

    def _changed(self, changed: Sequence[Changed]) -> None:
        names = set(_users_in(changed))
        for session in [each for each in self._sessions.values() if each.principal.name in names]:
            before, after = session.user, self._catalogue.get(User, session.principal.name)
            if before is not None and (after is None or after.password != before.password):
                self.end(session)
                continue
            if after is not None and before is not None:
                principal = session.principal
                tags = frozenset(after.tags)
                session.principal = Principal(principal.name, principal.verdicts, tags)
                session.user = after
            session.move()


def _users_in(changed: Iterable[Changed]) -> Iterable[str]:
    """Whose records, or rights, these are."""
    for each in changed:
        record = each.after or each.before
        if isinstance(record, User):
            yield record.name
        elif isinstance(record, Permission | TopicPermission):
            yield record.user


def token_in(cookies: str) -> str:
    """The token that a header ``Cookie`` has; else nothing."""
    try:
        morsel = SimpleCookie(cookies).get(COOKIE)
    except CookieError:
        return ""
    return "" if morsel is None else morsel.value


def cookie_for(token: str, *, secure: bool, path: str = ROOT_PATH) -> str:
    """What the browser is told to keep; without a token, to forget. Scripts do not see it, other
    sites do not send it, and by TLS it came it goes by TLS only."""
    age = "" if token else "; Max-Age=0"
    safe = "; HttpOnly; SameSite=Strict"
    return f"{COOKIE}={token}; Path={path}{safe}{'; Secure' * secure}{age}"
