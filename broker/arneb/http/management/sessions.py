"""Sessions: the users logged in at the management page, by the token that the browser keeps.

The rule: a token is random, and kept in memory only. A session ends when the user logs out, is
deleted or gets another password. It follows changes of the user's rights, and its event streams are
notified at once of these and of its end.
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
"""Beyond this, the least recently used session ends."""

IDLE_S: Final = 8 * 3600.0
"""A session that is unused for this long ends, as in RabbitMQ."""

FOREIGN_S: Final = 3600.0
"""The longest session of a user whom an external authority or a token vouches for: their tags are
only learned at a login."""


class Session:
    """One login of a user."""

    __slots__ = ("moved", "opened_s", "path", "principal", "token", "used_s", "user")

    def __init__(
        self, token: str, principal: Principal, user: User | None, now: float, path: str
    ) -> None:
        self.path: Final = path
        """The path of the page at the login: several brokers may share one proxy, each with its own
        cookie."""
        self.token: Final = token
        self.principal = principal
        self.user = user
        """The catalogue's record; None for a user of an external authority."""
        self.opened_s: Final = now
        self.used_s = now
        self.moved = trio.Event()
        """Set when the user's rights have changed, or the session has ended."""

    def __repr__(self) -> str:
        return f"<Session of {self.principal.name!r}>"

    def move(self) -> None:
        """Wake the tasks that wait for :attr:`moved`: rights have changed, or the session has
        ended."""
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
        """By token, least recently used first."""
        catalogue.watch(self._changed)

    def __repr__(self) -> str:
        return f"<Sessions, {len(self._sessions)} open>"

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, principal: Principal, path: str = ROOT_PATH) -> Session:
        """Open a session for a user who has logged in."""
        user = self._catalogue.get(User, principal.name)
        session = Session(token_urlsafe(TOKEN_BYTES), principal, user, self._clock(), path)
        self._sessions[session.token] = session
        if len(self._sessions) > SESSIONS_MAX:
            self.end(next(iter(self._sessions.values())))
        return session

    def find(self, cookies: str) -> Session | None:
        """Return the open session whose token is in a ``Cookie`` header, and count this as a
        use."""
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
        """Return whether a session is still open."""
        now = self._clock()
        is_foreign_old = session.user is None and now - session.opened_s > FOREIGN_S
        idle = now - session.used_s > IDLE_S
        return session.token in self._sessions and not (is_foreign_old or idle)

    def end(self, session: Session) -> None:
        """End a session: the user has logged out, or may no longer use it."""
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
    """Yield the users whose records or permissions these are."""
    for each in changed:
        record = each.after or each.before
        if isinstance(record, User):
            yield record.name
        elif isinstance(record, Permission | TopicPermission):
            yield record.user


def token_in(cookies: str) -> str:
    """Return the token in a ``Cookie`` header, or an empty string."""
    try:
        morsel = SimpleCookie(cookies).get(COOKIE)
    except CookieError:
        return ""
    return "" if morsel is None else morsel.value


def cookie_for(token: str, *, secure: bool, path: str = ROOT_PATH) -> str:
    """Return the cookie that the browser is to keep, or, without a token, to forget. It is hidden
    from scripts, not sent from other sites, and, if ``secure``, sent by TLS only."""
    age = "" if token else "; Max-Age=0"
    safe = "; HttpOnly; SameSite=Strict"
    return f"{COOKIE}={token}; Path={path}{safe}{'; Secure' * secure}{age}"
