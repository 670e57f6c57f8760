"""Everybody: all players, and judging them together.

The rule: players that did nothing in a life are judged too, and all of them at once, as clients
reconnect.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

from conformance.wire.amqp import AmqpClosed
from conformance.wire.pulsar import PulsarClosed
from tests.crash.players.applications import ApplicationPlayer
from tests.crash.players.compaction import CompactionPlayer
from tests.crash.players.cursors import CursorPlayer
from tests.crash.players.dead_letters import DeadLetterPlayer
from tests.crash.players.deduplication import DeduplicationPlayer
from tests.crash.players.delayed_exchange import DelayedExchangePlayer
from tests.crash.players.deliver_at import DeliverAtPlayer
from tests.crash.players.epochs import EpochPlayer
from tests.crash.players.fan_out import FanOutPlayer
from tests.crash.players.holes import HolePlayer
from tests.crash.players.keys import KeyPlayer
from tests.crash.players.lone import LonePlayer
from tests.crash.players.places import PlacePlayer
from tests.crash.players.player import Player
from tests.crash.players.priorities import PriorityPlayer
from tests.crash.players.streams import StreamPlayer
from tests.crash.players.topology import TopologyPlayer
from tests.crash.players.transactions import TransactionPlayer

PLAYERS: Final[dict[str, type[Player]]] = {
    player.name: player
    for player in (
        ApplicationPlayer,
        CompactionPlayer,
        CursorPlayer,
        DeadLetterPlayer,
        DeduplicationPlayer,
        DelayedExchangePlayer,
        DeliverAtPlayer,
        EpochPlayer,
        FanOutPlayer,
        HolePlayer,
        KeyPlayer,
        LonePlayer,
        PlacePlayer,
        PriorityPlayer,
        StreamPlayer,
        TopologyPlayer,
        TransactionPlayer,
    )
}

UNLIMITED: Final = """
[log]
level = "info"

[amqp]
handshake_s = 60

[pulsar]
handshake_timeout_s = 60
max_unacked_messages_per_consumer = 0
max_unacked_messages_per_subscription = 0
delete_inactive_topics = false
"""
"""Settings. One process plays all clients, so it is slow to answer a handshake while it judges
thousands of messages. Its log shows clients that the broker gives up. Topics without subscriptions
are kept, because deleting them would break no promise."""


class PromiseBroken(Exception):
    """Promises were broken; one line for each anomaly."""


async def judge(players: Sequence[Player], within_s: float) -> None:
    """Judge all players. Raises :class:`PromiseBroken`."""
    found = await asyncio.gather(*(_judge_one(each, within_s) for each in players))
    if anomalies := [anomaly for each in found for anomaly in each]:
        raise PromiseBroken("\n".join(anomalies))


async def _judge_one(player: Player, within_s: float) -> list[str]:
    try:
        async with asyncio.timeout(within_s):
            anomalies = await player.judge()
    except TimeoutError:
        anomalies = [f"no answer, or stuck for {within_s} s: {player.summary()}"]
    except (AmqpClosed, PulsarClosed, OSError) as error:
        anomalies = [f"cut off: {error!r}"]
    finally:
        await player.end()
    return [f"{player.name}: {anomaly}" for anomaly in anomalies]
