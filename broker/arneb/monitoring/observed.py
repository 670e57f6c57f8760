"""Observed: the core, and the node's name, for whoever shows them."""

import socket
from typing import Protocol

from arneb_core.api.core import Core
from arneb_core.api.statistics import EngineStatistics


class ObservedCore(Core, Protocol):
    """A core that also tells how it is doing as a whole."""

    def statistics(self) -> EngineStatistics:
        """The engine at this instant."""
        ...


def node_name() -> str:
    """What tools call the node."""
    return f"arneb@{socket.gethostname().partition('.')[0]}"
