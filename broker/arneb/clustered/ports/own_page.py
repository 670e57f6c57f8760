"""The page's own files, on a node of a cluster.

The rule: they come from the leader while there is one, so that they have the version that answers
their calls; while no node leads, the page still opens, and says so.
"""

from collections.abc import Callable

from starlette.types import ASGIApp, Receive, Scope, Send

from arneb.http.page.files import INDEX, PREFIX, PageFiles


class OwnPage:
    """Serves the files in front of an application that asks the leader."""

    def __init__(self, asked: ASGIApp, somebody_leads: Callable[[], bool]) -> None:
        self._asked = asked
        self._files = PageFiles(asked)
        self._somebody_leads = somebody_leads

    def __repr__(self) -> str:
        return f"<OwnPage before {self._asked!r}>"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        path = scope.get("path", "")
        is_file = path == INDEX or path.startswith(PREFIX)
        app = self._files if is_file and not self._somebody_leads() else self._asked
        await app(scope, receive, send)
