"""The data API as one thing: what the routes are over, and what goes on by itself.

The rule: made once a broker, when the HTTP port is served; it finds everything that it keeps in the
store.
"""

from collections.abc import Sequence

from starlette.routing import Route

from arneb.data.rights import RightsOf, everything
from arneb.data.routes import DataRoutes
from arneb.data.topics import TopicDirectory
from arneb_amqp.topology.topology import Topology
from arneb_core.engine.engine import Engine
from arneb_core.engine.stored_reading import StoredReading


class DataService:
    """The data API of one broker."""

    def __init__(
        self, core: Engine, topology: Topology | None, rights_of: RightsOf = everything
    ) -> None:
        self._directory = TopicDirectory(core, topology)
        self._routes = DataRoutes(self._directory, StoredReading(core.reader), rights_of)

    def __repr__(self) -> str:
        return f"<DataService over {self._directory!r}>"

    @property
    def routes(self) -> Sequence[Route]:
        """For the application of the HTTP port."""
        return self._routes.routes
