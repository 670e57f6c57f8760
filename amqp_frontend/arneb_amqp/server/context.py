"""The services of a server: what all its connections have in common.

The rule: made once, by whoever serves; connections find in it whatever is not theirs alone.
"""

from dataclasses import dataclass

import trio

from arneb_amqp.config import AmqpConfig
from arneb_amqp.server.flusher import Flusher
from arneb_amqp.server.timers import Timers
from arneb_amqp.topology.topology import Topology
from arneb_core.api.core import Core
from arneb_core.api.long_turns import LongTurns
from arneb_core.api.resource_alarms import Shortages


@dataclass(frozen=True, slots=True)
class Services:
    """What all connections of a server share."""

    core: Core
    topology: Topology
    config: AmqpConfig
    flusher: Flusher
    timers: Timers
    nursery: trio.Nursery
    shortages: Shortages
    long_turns: LongTurns
