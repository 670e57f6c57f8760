"""Topology: queues, exchanges and bindings are as the last answer said."""

import asyncio
from dataclasses import dataclass, field
from typing import Final

from conformance.wire.amqp import AmqpClient, AmqpClosed
from pamqp import commands
from tests.crash.players.player import Loop, Player, until_gone
from tests.crash.verdict import some

NUMBER: Final = 3
NOT_FOUND: Final = 404

Thing = tuple[str, ...]
"""("queue", name), ("exchange", name) or ("binding", exchange, queue)."""


@dataclass(slots=True)
class TopologyBook:
    """Whether the last answer about each thing said that it exists (True) or not (False); None
    without an answer."""

    state: dict[Thing, bool | None] = field(default_factory=dict)

    def ask(self, thing: Thing) -> None:
        """The thing is about to be created or deleted."""
        self.state[thing] = None

    def bindings_of(self, name: str) -> list[Thing]:
        return [each for each in self.state if each[0] == "binding" and name in each[1:]]


def judge_topology(book: TopologyBook, found: dict[Thing, bool]) -> list[str]:
    """Every broken promise; ``found`` says whether each thing exists."""
    return [
        *some("gone", [each for each, there in found.items() if book.state[each] and not there]),
        *some(
            "there again",
            [each for each, there in found.items() if book.state[each] is False and there],
        ),
    ]


class TopologyPlayer(Player):
    """One client that creates and deletes."""

    name = "topology"

    _book: TopologyBook
    _changes = 0

    async def prepare(self) -> None:
        queues = [self.called(f"queue{number}") for number in range(NUMBER)]
        exchanges = [self.called(f"exchange{number}") for number in range(NUMBER)]
        things: list[Thing] = [("queue", each) for each in queues]
        things += [("exchange", each) for each in exchanges]
        things += [("binding", each, one) for each in exchanges for one in queues]
        self._book = TopologyBook(dict.fromkeys(things, False))

    async def clear(self) -> None:
        """Nothing to delete: this player's objects end with the run."""

    async def start(self) -> list[Loop]:
        return [until_gone(self._change(await self.amqp()))]

    def summary(self) -> str:
        there = sum(map(bool, self._book.state.values()))
        return f"{there} of {len(self._book.state)} there, {self._changes} changes"

    async def judge(self) -> list[str]:
        found = {each: await self._is_there(each) for each in self._book.state}
        anomalies = judge_topology(self._book, found)
        self._book.state.update(found)
        return anomalies

    async def _is_there(self, thing: Thing) -> bool:
        client = await self.amqp()
        try:
            if thing[0] == "queue":
                await client.declare_queue(thing[1], passive=True)
            elif thing[0] == "exchange":
                await self._declare_exchange(client, thing[1], passive=True)
            else:
                return await self._is_bound(client, *thing[1:])
        except AmqpClosed as closed:
            if closed.code != NOT_FOUND:
                raise
            return False
        finally:
            await client.abort()
        return True

    async def _is_bound(self, client: AmqpClient, exchange: str, queue: str) -> bool:
        """Whether a message takes that way; nobody else uses this routing key."""
        returned: list[object] = []
        client.handlers.returned = returned.append
        answered: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        client.handlers.confirmed = lambda tags, acked: answered.set_result(acked)
        client.handlers.ended = lambda: None if answered.done() else answered.set_result(False)
        await client.confirm_select()
        client.publish(exchange, queue, b"probe", mandatory=True)
        return await answered and not returned

    async def _declare_exchange(
        self, client: AmqpClient, name: str, *, passive: bool = False
    ) -> None:
        method = commands.Exchange.Declare(
            exchange=name, exchange_type="direct", durable=True, passive=passive
        )
        await client.call(method, commands.Exchange.DeclareOk)

    async def _change(self, client: AmqpClient) -> None:
        state = self._book.state
        while True:
            thing = self.dice.choice(list(state))
            kind, there = thing[0], bool(state[thing])
            self._changes += 1
            if kind == "binding":
                if state["exchange", thing[1]] and state["queue", thing[2]]:
                    await self._change_binding(client, thing, not there)
                continue
            gone = self._book.bindings_of(thing[1]) if there else []
            for each in (thing, *gone):
                self._book.ask(each)
            await self._change_one(client, thing, there)
            state[thing] = not there
            state.update(dict.fromkeys(gone, False))

    async def _change_one(self, client: AmqpClient, thing: Thing, there: bool) -> None:
        kind, name = thing
        if kind == "queue" and there:
            await client.call(commands.Queue.Delete(queue=name), commands.Queue.DeleteOk)
        elif kind == "queue":
            await client.declare_queue(name)
        elif there:
            await client.call(commands.Exchange.Delete(exchange=name), commands.Exchange.DeleteOk)
        else:
            await self._declare_exchange(client, name)

    async def _change_binding(self, client: AmqpClient, thing: Thing, wanted: bool) -> None:
        _, exchange, queue = thing
        self._book.ask(thing)
        if wanted:
            bind = commands.Queue.Bind(queue=queue, exchange=exchange, routing_key=queue)
            await client.call(bind, commands.Queue.BindOk)
        else:
            unbind = commands.Queue.Unbind(queue=queue, exchange=exchange, routing_key=queue)
            await client.call(unbind, commands.Queue.UnbindOk)
        self._book.state[thing] = wanted
