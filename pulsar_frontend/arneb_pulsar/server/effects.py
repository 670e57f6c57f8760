"""The effect runner: carries out what the session of one connection asks for.

The rule: every effect has its case here, which the type checker ensures; what waits for the core
runs in a task of its own, everything else at once and in order.
"""

from collections.abc import Awaitable, Callable, Iterable
from typing import Final, TypeVar, assert_never

import trio

from arneb_pulsar.server.attachments import Attachments
from arneb_pulsar.server.consumers import ConnectionConsumers
from arneb_pulsar.server.listings import Listings
from arneb_pulsar.server.publishing import Publishing
from arneb_pulsar.server.request_tasks import RequestTasks
from arneb_pulsar.server.requests import Endpoint, Requests
from arneb_pulsar.server.transactions import ConnectionTransactions
from arneb_pulsar.services.clients.connections import ClientConnection
from arneb_pulsar.services.context import BrokerContext
from arneb_pulsar.session.connection.connection import ConnectionSession
from arneb_pulsar.session.interface import effects
from arneb_pulsar.session.interface.effects import Effect
from arneb_pulsar.session.interface.events import Authenticated

RELEASED_PER_TURN: Final = 50
"""Consumers, or producers, released in one turn when their connection ends: some 2 ms."""

Asked = TypeVar("Asked")


class EffectRunner:
    """Passes each effect of one connection to the part that carries it out.

    ``close`` is called with the reason when the session wants to close, ``authenticated`` when the
    client has proved its identity.
    """

    def __init__(
        self,
        context: BrokerContext,
        connection: ClientConnection,
        endpoint: Endpoint,
        session: ConnectionSession,
        *,
        close: Callable[[str], None],
        authenticated: Callable[[Authenticated], None],
    ) -> None:
        self._context = context
        self._connection = connection
        self._session = session
        self._close = close
        self.tasks = RequestTasks()
        self.publishing = Publishing(context, connection)
        self.consumers = ConnectionConsumers(context, connection)
        self._listings = Listings(context, connection)
        self.transactions = ConnectionTransactions(context, connection, self.tasks)
        self._requests = Requests(
            context, connection, endpoint, self.publishing, self.consumers, authenticated
        )
        self._attachments = Attachments(
            context, connection, self.consumers, self.tasks.start, self._requests.check_owned
        )

    def __repr__(self) -> str:
        return f"<EffectRunner {self.publishing!r} {self.consumers!r} {self.tasks!r}>"

    def run(self, wanted: Iterable[Effect]) -> None:
        """Carry effects out in order. Hot path: those that come with every message are first."""
        for effect in wanted:
            match effect:
                case effects.AppendRun():
                    self.publishing.append(effect)
                case effects.Acknowledge():
                    self.consumers.acknowledge(effect)
                case effects.AddPermits():
                    self.consumers.flow(effect)
                case effects.AcknowledgeUntil():
                    self.consumers.acknowledge_until(effect)
                case effects.Redeliver():
                    self.consumers.redeliver(effect)
                case effects.DetachConsumer():
                    self.consumers.detach(effect)
                case effects.LeaveProducer():
                    self.publishing.leave(effect)
                case effects.FindTopic():
                    if self._requests.makes_partitions(effect):
                        self._spawn(self._requests.make_partitions, effect)
                    else:
                        self._requests.find_topic(effect)
                case effects.OpenProducer():
                    self._spawn(self._requests.open_producer, effect)
                case effects.AttachConsumer():
                    self._spawn(self._attachments.attach, effect)
                case effects.Seek():
                    self._spawn(self._requests.seek, effect)
                case effects.Unsubscribe():
                    self._spawn(self._requests.unsubscribe, effect)
                case effects.AcknowledgeInTransaction():
                    self._acknowledge_in(effect)
                case effects.BeginTransaction():
                    self.transactions.begin(effect)
                case effects.JoinTransaction():
                    self.transactions.join(effect)
                case effects.EndTransaction():
                    self.transactions.end(effect)
                case effects.ReadLast():
                    self._spawn(self._requests.read_last, effect)
                case effects.DescribeConsumer():
                    self._requests.describe(effect)
                case effects.FindSchema():
                    self._requests.find_schema(effect)
                case effects.AttachSchema():
                    self._spawn(self._requests.attach_schema, effect)
                case effects.ListTopics():
                    self._spawn(self._listings.list_topics, effect)
                case effects.WatchTopics():
                    self._context.watchers.watch(self._connection, effect.namespace)
                    self._spawn(self._listings.watch_topics, effect)
                case effects.UnwatchTopics():
                    self._context.watchers.unwatch(self._connection, effect.namespace)
                case effects.Authenticate():
                    self._spawn(self._requests.authenticate, effect)
                case effects.Close():
                    self._close(effect.reason)
                case _:
                    assert_never(effect)

    def _acknowledge_in(self, effect: effects.AcknowledgeInTransaction) -> None:
        attached = self.consumers.find(effect.key)
        if attached is not None:
            self.transactions.acknowledge(
                effect, attached, lambda task: self._spawn(lambda _: task(), effect)
            )

    def _spawn(self, request: Callable[[Asked], Awaitable[None]], effect: Asked) -> None:
        self.tasks.spawn(request, effect, self._session.request_bytes)

    async def release_in_turns(self) -> None:
        """Release consumers and producers over several turns, even if cancelled: a thousand clients
        may leave at the same moment, with thousands of consumers each."""
        while not self.consumers.detach_some(RELEASED_PER_TURN):
            await trio.lowlevel.cancel_shielded_checkpoint()
        while not self.publishing.leave_some(RELEASED_PER_TURN):
            await trio.lowlevel.cancel_shielded_checkpoint()

    def release_all(self) -> None:
        """Release everything that the client held: the connection ends. Idempotent."""
        self._context.watchers.leave(self._connection)
        self.consumers.detach_all()
        self.publishing.leave_all()
