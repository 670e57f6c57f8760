"""Backends: opens the backends that the settings name, in that order."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import trio

from arneb.logins.settings import HTTP, OAUTH, LoginTable
from arneb_core.access.internal import InternalBackend
from arneb_core.access.principals import Backend
from arneb_core.access.tables import Tables

if TYPE_CHECKING:
    from arneb.logins.http_backend import HttpBackend
    from arneb.logins.oauth import OAuthBackend


class Backends:
    """The configured backends, in order. Raises :class:`ValueError` for a key that cannot be
    read."""

    def __init__(self, table: LoginTable, users: Tables, now_s: Callable[[], float]) -> None:
        self.in_order: list[Backend] = []
        self._remote: list[HttpBackend | OAuthBackend] = []
        for name in table.backends:
            if name == HTTP:
                self._remote.append(_http(table))
                self.in_order.append(self._remote[-1])
            elif name == OAUTH:
                self._remote.append(_oauth(table, now_s))
                self.in_order.append(self._remote[-1])
            else:
                self.in_order.append(InternalBackend(users))

    def __repr__(self) -> str:
        return f"<Backends {self.in_order}>"

    async def close(self) -> None:
        """Close the backends' connections to other servers, also if cancelled."""
        with trio.CancelScope(shield=True):
            for each in self._remote:
                await each.close()


# Imported only when the settings name them: most brokers know their users themselves.


def _http(table: LoginTable) -> "HttpBackend":
    from arneb.logins.http_backend import HttpBackend

    return HttpBackend(table.http)


def _oauth(table: LoginTable, now_s: Callable[[], float]) -> "OAuthBackend":
    from arneb.logins.oauth import OAuthBackend

    return OAuthBackend(table.oauth, now_s)
