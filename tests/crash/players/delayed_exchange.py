"""Messages delayed by an ``x-delayed-message`` exchange; see :mod:`tests.crash.players.delays`."""

import asyncio
from datetime import timedelta

from conformance.wire.amqp import AmqpClient, Delivery
from pamqp import commands
from tests.crash.history import AckBook
from tests.crash.players.bodies import body_of
from tests.crash.players.clients import Inbox, Publisher, consume, pause
from tests.crash.players.delays import DELAYS, DelayBook, all_expected, judge_delays
from tests.crash.players.player import Loop, Player, until_gone


class DelayedExchangePlayer(Player):
    """A publisher to an ``x-delayed-message`` exchange, and consumers of the queue behind it."""

    name = "delayed"

    _book: DelayBook
    _acks: AckBook[int]

    async def prepare(self) -> None:
        client = await self.amqp()
        declare = commands.Exchange.Declare(
            exchange=self.called("later"),
            exchange_type="x-delayed-message",
            durable=True,
            arguments={"x-delayed-type": "direct"},
        )
        await client.call(declare, commands.Exchange.DeclareOk)
        queue = self.called("due")
        await client.declare_queue(queue)
        bind = commands.Queue.Bind(queue=queue, exchange=self.called("later"), routing_key="k")
        await client.call(bind, commands.Queue.BindOk)
        self._book, self._acks = DelayBook(), AckBook()

    async def clear(self) -> None:
        client = await self.amqp()
        delete = commands.Queue.Delete(queue=self.called("due"))
        await client.call(delete, commands.Queue.DeleteOk)
        gone = commands.Exchange.Delete(exchange=self.called("later"))
        await client.call(gone, commands.Exchange.DeleteOk)

    async def start(self) -> list[Loop]:
        client = await self.amqp()
        window = self.dice.choice([1, 10, 100])
        publisher = await Publisher.begin(client, window, self._book.answered)
        loops = [self._publish(publisher), self._consume(await self.amqp())]
        return [until_gone(loop) for loop in loops]

    def summary(self) -> str:
        return f"{len(self._book.confirmed)} confirmed, {len(self._acks.durable)} acked"

    def crash(self, now: float) -> None:
        self._acks.crash(now)

    async def judge(self) -> list[str]:
        client = await self.amqp()
        back: list[int] = []
        tags: list[int] = []
        inbox: Inbox[object] = Inbox()

        def delivered(delivery: Delivery) -> None:
            back.append(self._book.see(delivery.body))
            tags.append(delivery.tag)
            inbox.put(delivery)

        client.handlers.delivered = delivered
        client.handlers.ended = inbox.end
        await client.consume(self.called("due"))
        anomalies = await all_expected(self.name, self._book, self._acks, back, inbox)
        await client.round_trip()
        anomalies += judge_delays(self.name, self._book, self._acks, back)
        acked = list(back)
        self._acks.send(acked)
        if tags:  # and not "all", because more may be on its way
            client.acknowledge(tags[-1], multiple=True)
        await client.round_trip()
        self._acks.reach(acked, asyncio.get_running_loop().time())
        await client.abort()
        return anomalies

    async def _publish(self, publisher: Publisher) -> None:
        delays = self.dice.sample(DELAYS, 4)
        while True:
            delay = self.dice.choice(delays)
            number = self._book.plan(delay)
            properties = commands.Basic.Properties(
                delivery_mode=2, headers={"x-delay": int(delay / timedelta(milliseconds=1))}
            )
            await publisher.publish(
                number, self.called("later"), "k", body_of(number, 100), properties
            )

    async def _consume(self, client: AmqpClient) -> None:
        inbox = await consume(client, self.called("due"), prefetch=self.dice.choice([5, 100]))
        while run := await inbox.run():
            numbers = []
            for delivery in run:
                number = self._book.see(delivery.body)
                if self.dice.random() < 0.2:
                    client.requeue(delivery.tag)
                    continue
                self._acks.send([number])
                numbers.append(number)
                client.acknowledge(delivery.tag)
            await client.round_trip()
            self._acks.reach(numbers, asyncio.get_running_loop().time())
            await pause(0.01)  # requeued messages come again immediately
