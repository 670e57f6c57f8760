"""A canary: a publisher that never stops, and consumers at each node, of which one is active.

The rule: it runs through every disturbance, reconnects by itself as an application does, and
records each delivery when it receives it. A consumer that another one has replaced must never
receive anything again. If a former leader still delivered something, it would show here.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Final

from conformance.brokers.process import Address
from conformance.wire.amqp import AmqpClient, AmqpClosed, Delivery
from tests.crash.verdict import some

QUEUE: Final = "canary"
PAUSE_S: Final = 0.02
RETRY_S: Final = 0.05
OPEN_WITHIN_S: Final = 10.0
CONFIRM_WITHIN_S: Final = 3.0
"""After this time it reconnects: a node that hangs would never answer."""
DRAINED_WITHIN_S: Final = 60.0
PREFETCH: Final = 20
LEASE_S: Final = 2.0
"""A leader that has stored nothing for this long answers nobody, and sends new clients away."""
RECENT_MAX: Final = 1_000
"""Number of its confirms that are kept: more than it gets in a minute."""

LOST: Final = (AmqpClosed, OSError, TimeoutError, AssertionError)
"""What ends a connection. AssertionError: another answer than the expected one, on the way out."""


class Canary:
    """The publisher and the consumers of one cluster."""

    def __init__(self, address: Callable[[], Address], nodes: Sequence[Address]) -> None:
        """``address`` is where it publishes; it has a consumer at each of ``nodes``."""
        self.confirms: list[tuple[float, float]] = []
        """When each confirm arrived, by the monotonic clock, and how long it took."""
        self.anomalies: list[str] = []
        self.unanswered = 0
        """Publishes whose confirm it gave up waiting for."""
        self._address = address
        self._nodes = nodes
        self._published = 0
        self._confirmed: set[int] = set()
        self._delivered: dict[int, int] = {}
        """How often each was delivered."""
        self._highest = 0
        """The highest number that was delivered for the first time."""
        self._consumers = 0
        self._heard: list[int] = []
        """Consumers in the order of their first deliveries."""
        self._is_quiet = False
        self._tasks: list[asyncio.Task[None]] = []

    def __repr__(self) -> str:
        return f"<Canary {len(self._confirmed)} of {self._published} confirmed>"

    async def start(self) -> None:
        """Declare the queue, and begin."""
        client = await AmqpClient.open(self._address())
        await client.declare_queue(QUEUE, arguments={"x-single-active-consumer": True})
        await client.abort()
        loops = [self._always(self._publish), *(self._consumer(each) for each in self._nodes)]
        self._tasks = [asyncio.create_task(each) for each in loops]

    def slowest_s(self, seconds: float) -> float:
        """The slowest confirm of the last so many seconds."""
        since = time.monotonic() - seconds
        return max((took for when, took in self.confirms if when >= since), default=0.0)

    async def confirm_after(self, since: float, within_s: float) -> float:
        """When the first publish that was sent after ``since`` was confirmed. Raises
        TimeoutError."""
        async with asyncio.timeout(within_s):
            while True:
                for when, took in reversed(self.confirms):
                    if when < since:
                        break
                    if when - took >= since:
                        return min(w for w, t in self.confirms if w - t >= since)
                await asyncio.sleep(PAUSE_S)

    async def steady(self, seconds: float, within_s: float) -> None:
        """Wait until it has had confirms for so long, without a pause as long as a lease. Raises
        TimeoutError."""
        async with asyncio.timeout(within_s):
            await asyncio.sleep(seconds)
            while not self._had_confirms(time.monotonic() - seconds):  # noqa: ASYNC110
                await asyncio.sleep(PAUSE_S)

    def _had_confirms(self, since: float) -> bool:
        recent = [when for when, _ in self.confirms[-RECENT_MAX:] if when >= since]
        times = [since, *recent, time.monotonic()]
        return all(late - early < LEASE_S for early, late in pairwise(times))

    async def finish(self) -> list[str]:
        """Stop publishing; return what is wrong, once everything has arrived."""
        self._is_quiet = True
        with suppress(TimeoutError):
            async with asyncio.timeout(DRAINED_WITHIN_S):
                while self._confirmed - self._delivered.keys():  # noqa: ASYNC110
                    await asyncio.sleep(PAUSE_S)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        lost = sorted(self._confirmed - self._delivered.keys())
        return [*self.anomalies, *some("canary: lost", lost)]

    def summary(self) -> str:
        """What it has seen."""
        again = sum(count - 1 for count in self._delivered.values())
        return (
            f"{len(self._confirmed)} of {self._published} confirmed, {len(self._delivered)} "
            f"delivered, {again} of them again, to {self._consumers} consumers, of which "
            f"{len(self._heard)} were active; {self.unanswered} publishes without an answer"
        )

    # Inside

    async def _always(self, play: Callable[[], "asyncio.Future[None] | object"]) -> None:
        while True:
            with suppress(*LOST):
                await play()  # type: ignore[misc]
            await asyncio.sleep(RETRY_S)

    async def _consumer(self, node: Address) -> None:
        await self._always(lambda: self._consume(node))

    async def _publish(self) -> None:
        async with asyncio.timeout(OPEN_WITHIN_S):
            client = await AmqpClient.open(self._address())
        try:
            async with asyncio.timeout(OPEN_WITHIN_S):
                await client.confirm_select()
            news = asyncio.Event()
            acked: list[bool] = []

            def confirmed(_: list[int], is_ack: bool) -> None:
                acked.append(is_ack)
                news.set()

            client.handlers.confirmed = confirmed
            client.handlers.ended = news.set
            while not self._is_quiet:
                self._published += 1
                number, began = self._published, time.monotonic()
                client.publish("", QUEUE, b"%d" % number)
                try:
                    async with asyncio.timeout(CONFIRM_WITHIN_S):
                        await news.wait()
                except TimeoutError:
                    self.unanswered += 1
                    raise
                if not acked:
                    return  # the connection has ended
                news.clear()
                now = time.monotonic()
                if acked.pop():
                    self._confirmed.add(number)
                    self.confirms.append((now, now - began))
                else:
                    self.anomalies.append(f"canary: {number} was refused")
                await asyncio.sleep(PAUSE_S)
            await asyncio.sleep(DRAINED_WITHIN_S)
        finally:
            await client.abort()

    async def _consume(self, node: Address) -> None:
        async with asyncio.timeout(OPEN_WITHIN_S):
            client = await AmqpClient.open(node)
        self._consumers += 1
        consumer = self._consumers
        try:

            def delivered(delivery: Delivery) -> None:
                self._hear(consumer, int(delivery.body), delivery.redelivered)
                with suppress(AmqpClosed):
                    client.acknowledge(delivery.tag)

            client.handlers.delivered = delivered
            async with asyncio.timeout(OPEN_WITHIN_S):
                await client.consume(QUEUE, prefetch=PREFETCH)
            await client.wait_closed()
        finally:
            await client.abort()

    def _hear(self, consumer: int, number: int, redelivered: bool) -> None:
        if consumer not in self._heard:
            self._heard.append(consumer)
        elif self._heard[-1] != consumer:
            self.anomalies.append(
                f"canary: {number} came to consumer {consumer} after {self._heard[-1]} was active"
            )
        before = self._delivered.get(number, 0)
        self._delivered[number] = before + 1
        if redelivered:
            return
        if before:
            self.anomalies.append(f"canary: {number} came again without the redelivered flag")
        if number < self._highest:
            self.anomalies.append(f"canary: {number} came after {self._highest}")
        self._highest = max(self._highest, number)
