"""Observed: the core and the node's name, for metrics and the APIs."""

import socket
from typing import Protocol

from arneb_core.api.core import Core
from arneb_core.api.statistics import EngineStatistics


class ObservedCore(Core, Protocol):
    """A core that also has statistics of the whole engine."""

    def statistics(self) -> EngineStatistics:
        """Return the engine's statistics at this instant."""
        ...


def node_name() -> str:
    """Return the node's name, as tools show it."""
    return f"arneb@{socket.gethostname().partition('.')[0]}"
