"""The data API as a whole: its routes, and its background tasks.

The rule: made once for each broker, when the HTTP port is served; all of its state is in the store.
"""

from collections.abc import Callable, Sequence
from typing import NoReturn

import trio

from arneb.data.commits import Commits
from arneb.data.cursors import Cursors
from arneb.data.here import Misplaced, everything_is
from arneb.data.rights import RightsOf, everything
from arneb.data.routes import DataRoutes
from arneb.data.targets import Targets
from arneb.data.topics import TopicDirectory
from arneb.data.writing import LARGE, WritingRoutes
from arneb.http.access.rules import RuledRoute
from arneb.settings.data_limits import DEFAULT_DATA_LIMITS, DataLimits
from arneb_amqp.topology.topology import Topology
from arneb_core.api.process.clock import wall_clock_ms
from arneb_core.api.process.supervision import supervise
from arneb_core.engine.engine import Engine
from arneb_core.engine.topics.stored_reading import StoredReading
from arneb_pulsar.services.context import BrokerContext


class DataService:
    """The data API of one broker."""

    def __init__(
        self,
        core: Engine,
        topology: Topology | None,
        pulsar: BrokerContext | None = None,
        limits: DataLimits = DEFAULT_DATA_LIMITS,
        rights_of: RightsOf = everything,
        now_ms: Callable[[], int] = wall_clock_ms,
        misplaced: Misplaced = everything_is,
    ) -> None:
        self._directory = TopicDirectory(core, topology, misplaced)
        self.cursors = Cursors(core, now_ms)
        reading = StoredReading(core.reader, core.topics)
        self.commits = Commits(core, Targets(core, topology, pulsar, misplaced), limits, now_ms)
        writing = WritingRoutes(self.commits, limits)
        self._routes = DataRoutes(self._directory, reading, self.cursors, writing, rights_of)
        self.bodies = dict.fromkeys(LARGE, limits.body_bytes_max)
        """The most bytes of a body, by path, where it differs from the port's limit."""

    def __repr__(self) -> str:
        return f"<DataService over {self._directory!r}>"

    @property
    def routes(self) -> Sequence[RuledRoute]:
        """The routes, for the application of the HTTP port."""
        return self._routes.routes

    async def run(self) -> NoReturn:
        """Run the background tasks until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(supervise, "the leases of cursors", self.cursors.run)
            nursery.start_soon(supervise, "the expiry of stages", self.commits.run)
        raise AssertionError("they never return")
