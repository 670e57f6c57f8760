"""Backends: those that the settings name, made in their order."""

from collections.abc import Callable

import trio

from arneb.logins.http_backend import HttpBackend
from arneb.logins.oauth import OAuthBackend
from arneb.logins.settings import HTTP, OAUTH, LoginTable
from arneb_core.access.internal import InternalBackend
from arneb_core.access.principals import Backend
from arneb_core.access.tables import Tables


class Backends:
    """All that are asked, in their order. Raises :class:`ValueError` for a key that cannot be
    read."""

    def __init__(self, table: LoginTable, users: Tables, now_s: Callable[[], float]) -> None:
        self.in_order: list[Backend] = []
        self._remote: list[HttpBackend | OAuthBackend] = []
        for name in table.backends:
            if name == HTTP:
                self._remote.append(HttpBackend(table.http))
                self.in_order.append(self._remote[-1])
            elif name == OAUTH:
                self._remote.append(OAuthBackend(table.oauth, now_s))
                self.in_order.append(self._remote[-1])
            else:
                self.in_order.append(InternalBackend(users))

    def __repr__(self) -> str:
        return f"<Backends {self.in_order}>"

    async def close(self) -> None:
        """Ask nobody any more."""
        with trio.CancelScope(shield=True):
            for each in self._remote:
                await each.close()
