"""The election: a Failover subscription of Pulsar decides which node may try to lead.

The rule: it only permits trying. The active node also holds an exclusive subscription; when another
node asks for that, the broker probes the holder, and ends its connection if it does not respond. A
leader holds another subscription in the same way: a leader that has lost it and writes nothing is
gone.
"""

import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

import trio

from arneb_cluster.pulsar.log_topic import CLOSE_S
from arneb_pulsar.client import Client, ConsumerOptions, SubscriptionType
from arneb_pulsar.client.errors import PulsarError

ELECTION_SUBSCRIPTION: Final = "election"
HOLDER_SUBSCRIPTION: Final = "holder"
LEADER_SUBSCRIPTION: Final = "leader"

LOOK_WITHIN_S: Final = 1.0
"""The time a broker has to answer; a late answer is ignored."""

RETRY_S: Final = 0.5
"""Wait after Pulsar could not be reached, or another node still holds the subscription."""

logger = logging.getLogger(__name__)


class Election:
    """One node's part in the election."""

    def __init__(
        self,
        client: Client,
        topic: str,
        node: str,
        active_changed: Callable[[bool], None],
        priority: int,
        ready: Callable[[], Awaitable[None]],
    ) -> None:
        """``active_changed`` is called with whether this node may try. Among the present nodes the
        one with the lowest ``priority`` may, or of several the one whose name sorts first. A node
        takes part once it is ``ready`` to open an engine without delay: another may be ready
        earlier."""
        self._client = client
        self._priority = priority
        self._topic = topic
        self._node = node
        self._active_changed = active_changed
        self._ready = ready
        self._active = self._leads = False
        self._changed = trio.Event()

    def __repr__(self) -> str:
        return f"<Election on {self._topic}, {self._node} is active: {self._active}>"

    async def run(self) -> None:
        """Take part until cancelled."""
        await self._ready()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._elect)
            nursery.start_soon(self._hold, HOLDER_SUBSCRIPTION, lambda: self._active)
            nursery.start_soon(self._hold, LEADER_SUBSCRIPTION, lambda: self._leads)

    async def suspect(self) -> None:
        """Have the broker probe the active node."""
        with suppress(PulsarError):
            taken = await self._client.subscribe(self._topic, HOLDER_SUBSCRIPTION)
            await taken.close()

    def leads(self, leads: bool) -> None:
        """Note whether this node leads."""
        self._leads = leads
        self._changed.set()
        self._changed = trio.Event()

    async def is_leader_gone(self) -> bool:
        """Return whether no leader holds its subscription."""
        with trio.move_on_after(LOOK_WITHIN_S), suppress(PulsarError):
            taken = await self._client.subscribe(self._topic, LEADER_SUBSCRIPTION)
            with trio.CancelScope(shield=True), trio.move_on_after(CLOSE_S):
                await taken.close()
            return True
        return False

    async def _elect(self) -> None:
        options = ConsumerOptions(
            type=SubscriptionType.FAILOVER,
            name=self._node,
            priority_level=self._priority,
            on_active=lambda _consumer, is_active: self._is_active(is_active),
        )
        while True:
            try:
                await self._client.subscribe(self._topic, ELECTION_SUBSCRIPTION, options)
                return
            except PulsarError as error:
                logger.warning("%s: %s", self._topic, error)
                await trio.sleep(RETRY_S)

    def _is_active(self, is_active: bool) -> None:
        self._active_changed(is_active)
        self._active = is_active
        self._changed.set()
        self._changed = trio.Event()

    async def _hold(self, subscription: str, wanted: Callable[[], bool]) -> None:
        """Hold a subscription exclusively whenever it is wanted."""
        while True:
            while not wanted():
                await self._changed.wait()
            with suppress(PulsarError):
                holder = await self._client.subscribe(self._topic, subscription)
                while wanted():
                    await self._changed.wait()
                await holder.close()
            await trio.sleep(RETRY_S)
