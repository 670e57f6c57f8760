"""Observed: the core, for whoever shows figures of it."""

from typing import Protocol

from arneb_core.api.core import Core
from arneb_core.api.statistics import EngineStatistics


class ObservedCore(Core, Protocol):
    """A core that also tells how it is doing as a whole."""

    def statistics(self) -> EngineStatistics:
        """The engine at this instant."""
        ...
