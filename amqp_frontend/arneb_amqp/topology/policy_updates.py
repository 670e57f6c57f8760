"""Policy updates: changed policies of a vhost are applied to what was declared before.

The rule: later declarations get the new policies anyway; everything else is visited, a batch at a
time, under the lock, and at the end everything has them. Only queues whose policy differs are
touched.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from itertools import islice
from typing import Final

import trio

from arneb_amqp.routing.reply_to import is_reply_queue
from arneb_amqp.routing.router import Router
from arneb_amqp.topology.exchanges.exchanges import Exchanges
from arneb_amqp.topology.policies.policies import Policies
from arneb_amqp.topology.queues.queue import Queue
from arneb_amqp.topology.queues.queues import Queues

QUEUES_PER_TURN: Final = 500
"""Queues checked in one turn: 2 ms with a policy or two."""

QUEUES_AT_ONCE: Final = 100
"""Queues changed under one lock and in one commit: 2 ms."""

EXCHANGES_PER_TURN: Final = 500

CLOCK_STEP_S: Final = 0.002
"""What is published in the millisecond in which a time to live changes, or in the next, still has
the old one. The client that made the change gets its answer only after that."""

Lock = Callable[[], AbstractAsyncContextManager[None]]


class PolicyUpdates:
    """Applies the policies of one vhost to its queues and exchanges."""

    def __init__(self, router: Router, queues: Queues, exchanges: Exchanges) -> None:
        self._router = router
        self._queues = queues
        self._exchanges = exchanges
        self._one_at_a_time = trio.Lock()

    def __repr__(self) -> str:
        return f"<PolicyUpdates of {self._queues!r} by {self._queues.policies!r}>"

    def replace(self, policies: Policies) -> None:
        """Set the policies for further declarations."""
        self._queues.policies = policies

    def begin(self) -> None:
        """Apply the policies to exchanges as the broker starts: no client is there yet."""
        self._exchanges.apply_policies(self._router.exchanges.values())

    async def carry_out(self, changing: Lock) -> None:
        """Apply replaced policies to everything. When this returns they hold for whatever is
        published from then on."""
        async with self._one_at_a_time:
            exchanges = list(self._router.exchanges.values())
            for start in range(0, len(exchanges), EXCHANGES_PER_TURN):
                self._exchanges.apply_policies(exchanges[start : start + EXCHANGES_PER_TURN])
                await trio.lowlevel.checkpoint()
            concerned = [queue async for queue in self._concerned()]
            waiting = iter(concerned)
            while batch := list(islice(waiting, QUEUES_AT_ONCE)):
                async with changing():
                    await self._queues.apply_policies(batch)
            if concerned:
                self._router.queues_changed()
                await trio.sleep(CLOCK_STEP_S)

    async def _concerned(self) -> AsyncIterator[Queue]:
        """Yield the queues whose policy differs from the applied one."""
        for number, queue in enumerate(self._queues, 1):
            if number % QUEUES_PER_TURN == 0:
                await trio.lowlevel.checkpoint()
            policies = self._queues.policies
            if is_reply_queue(queue.name):
                continue
            if policies.for_queue(queue.name, queue.type) != queue.applied:
                yield queue
