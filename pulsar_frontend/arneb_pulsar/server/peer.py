"""The shell of one connection: carries out what its session asks for.

One task reads, one task writes; requests that must wait for the core run in tasks of their
own. Whatever a wake-up brings is written with one flush. Nothing here decides anything about
the protocol, and no error in one connection reaches another.
"""

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final

import trio

from arneb_core.api.errors import CoreError
from arneb_core.api.long_turns import FIRST_READ_BYTES, SHORT_READ_BYTES
from arneb_core.api.subscriptions import Subscription
from arneb_core.api.topics import Topic
from arneb_pulsar.identity.certificates import Certificate
from arneb_pulsar.identity.grants import Grant
from arneb_pulsar.server.attaching import Attaching
from arneb_pulsar.server.door import Door
from arneb_pulsar.server.keeper import OWNED
from arneb_pulsar.server.listings import Listings
from arneb_pulsar.server.outbox import Outbox
from arneb_pulsar.server.publishing import Publishing
from arneb_pulsar.server.receivers import Receiver, receipt_of
from arneb_pulsar.server.requests import Requests
from arneb_pulsar.server.times import clock_ms
from arneb_pulsar.session import effects, events
from arneb_pulsar.session.connection import Connection
from arneb_pulsar.session.effects import ConsumerKey, Effect
from arneb_pulsar.session.errors import failure_of

REQUESTS_MAX: Final = 1000
"""Requests of one connection that may wait for the core at once; Pulsar bounds lookups alike."""

UNREAD_BYTES_MAX: Final = 16 * 1024 * 1024
"""What a client did not ask for, as that a consumer of its has become the active one, is said
however full its connection is; whoever leaves so much of it unread is not there."""

FAREWELL_S: Final = 1.0
"""How long the last flush of a closing connection may take."""

logger = logging.getLogger(__name__)


class Peer:
    """One connected client."""

    def __init__(
        self,
        door: Door,
        stream: trio.abc.Stream,
        service_url: str,
        address: str,
        certificate: Certificate,
    ) -> None:
        self.door = door
        self.service_url = service_url
        """Where this client reached us."""
        self.address = address
        self.certificate = certificate
        self.role = ""
        """Who the client has proved to be; empty = nobody asked."""
        self.publishing = Publishing(self)
        self.receivers: dict[ConsumerKey, Receiver] = {}
        self._stream = stream
        self._session = Connection(door.config, door.server_version, trio.current_time())
        self._outbox = Outbox(stream, self._session, door.config.outbox_bytes_max, door.long_turns)
        self._requests = Requests(self)
        self._scope = trio.CancelScope()
        self._heard = trio.Event()
        self._timer = trio.CancelScope()
        self._closing = False
        self._is_over = False
        self._paused = False
        self._pending = 0
        self._pending_bytes = 0
        self._performers = self._make_performers()

    @property
    def client_name(self) -> str:
        """The library that the client is made on, with its version."""
        return self._session.client.name

    def __repr__(self) -> str:
        return f"<Peer {self.address} {self._session!r}>"

    @property
    def is_full(self) -> bool:
        """It leaves so much unread that nothing more should be said."""
        return self._outbox.is_full(self._session.waiting_bytes)

    async def room(self) -> None:
        """Wait until not :attr:`is_full`."""
        while self.is_full:
            await self._outbox.flushed()

    async def run(self) -> None:
        """Serve the client until it leaves, breaks the protocol, or :meth:`kill`."""
        logger.debug("= %s connected", self.address)
        try:
            with self._scope:
                async with trio.open_nursery() as self._nursery:
                    self._nursery.start_soon(self._outbox.run, self._sent)
                    await self._read()
                    if self._closing:
                        with trio.move_on_after(FAREWELL_S):
                            await self._outbox.flushed()
                    self._nursery.cancel_scope.cancel()
        except* (trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # the client is gone, which is its right
        finally:
            self._leave()
            with trio.move_on_after(FAREWELL_S, shield=True):
                await self._outbox.farewell()
            await trio.aclose_forcefully(self._stream)
            self._come_apart()
            logger.debug("= %s gone", self.address)

    def kill(self) -> None:
        """End the connection: its client is dead."""
        self._leave()
        self._scope.cancel()

    async def is_alive(self) -> bool:
        """Ask the client for a sign of life and wait for it as long as the settings allow."""
        if self._closing:
            return False
        if self._paused or self._session.has_more:
            return True  # it is we who do not listen
        if not self._session.probe():
            return True  # its client is too old to be asked
        self._outbox.wake()
        with trio.move_on_after(self.door.config.probe_timeout_s) as waited:
            await self._heard.wait()
        return not waited.cancelled_caught

    def tell(self, event: events.Event) -> None:
        """Report to the session and carry out what it asks for then.

        The core calls this too, and must not be hurt by a defect of ours: it costs this client
        its connection, as one in the connection's own tasks does.
        """
        try:
            self._perform(self._session.handle(event, trio.current_time()))
        except Exception:
            logger.exception("unexpected error in the connection of %s", self.address)
            self._closing = True
            self._scope.cancel()
            return
        self._outbox.wake()
        if self.is_full:
            self._set_writable(writable=False)
            if self._session.unasked_bytes > UNREAD_BYTES_MAX:
                logger.info("x %s: does not read its answers", self.address)
                self._closing = True
                self._scope.cancel()

    def disconnect(self, topic: Topic) -> None:
        """Close its producers and consumers on ``topic``; they may come again."""
        if self._is_over:
            return
        self.publishing.expel_from(topic)
        for key, receiver in list(self.receivers.items()):
            if receiver.topic is topic:
                receiver.consumer.detach()
                self.forget_consumer(key)
                self.tell(events.ConsumerClosed(key))

    def end_reached(self, subscription: Subscription) -> None:
        """Its consumers there have everything that there will ever be."""
        for key, receiver in list(self.receivers.items()):
            if receiver.subscription is subscription:
                self.tell(events.EndReached(key))

    def authenticated(self, grant: Grant, event: events.Authenticated) -> None:
        """The client is who it says; its proof may end before anything else is due."""
        self.role = grant.role
        self.tell(event)
        self._timer.deadline = self._session.next_timer()

    def forget_consumer(self, key: ConsumerKey) -> None:
        """The core detached it, or it detached itself. With the last one Pulsar's brokers forget
        how often they delivered what."""
        receiver = self.receivers.pop(key, None)
        if receiver is not None:
            subscription = receiver.subscription
            self.door.consumer_left(receiver.topic.name, subscription.name, self)
            if not subscription.consumers and subscription.name not in OWNED:
                subscription.forget_counts()

    # Reading

    async def _read(self) -> None:
        """Until the client closes or must be closed."""
        session, asks = self._session, False
        while not self._closing:
            if asks:
                await self._my_turn()
            most = self.publishing.receive_bytes
            piece = most if asks else min(most, FIRST_READ_BYTES)
            with trio.move_on_at(session.next_timer()) as self._timer:
                data = await self._stream.receive_some(piece)
            now = trio.current_time()
            if self._timer.cancelled_caught:
                self._perform(session.handle_timer(now, clock_ms()))
                self._outbox.wake()
                continue
            if not data:
                return
            self._heard.set()
            self._heard = trio.Event()
            if not asks and len(data) > SHORT_READ_BYTES:
                await self._my_turn()
                now = trio.current_time()
            # Not small again before little comes: a batch would be cut in two.
            asks = len(data) > (SHORT_READ_BYTES if asks else FIRST_READ_BYTES - 1)
            self._perform(session.receive_data(bytes(data), now, clock_ms()))
            self._outbox.wake()
            if self._must_pause():
                await self._pause()
            if session.has_more:
                await self._go_on()

    async def _my_turn(self) -> None:
        """Wait until others have had theirs; the client, who is not read, may well live."""
        self._paused = True
        await self.door.long_turns.begin()
        self._paused = False
        self._session.resumed(trio.current_time())

    async def _go_on(self) -> None:
        """Work off what has been read, one request after the other."""
        while self._session.has_more and not self._closing:
            # Others first: an answer may take as long as a hundred messages.
            await self.door.long_turns.next()
            self._perform(self._session.go_on(trio.current_time(), clock_ms()))
            self._outbox.wake()
            if self._must_pause():
                await self._pause()

    def _must_pause(self) -> bool:
        """Is there no room for the answer to one more request? What waits for the core counts as
        what it was asked with, for that much is held."""
        waiting = self._session.waiting_bytes + self._pending_bytes
        return (
            self.door.crowded
            or self._pending >= REQUESTS_MAX
            or self._outbox.is_full(waiting)
            or self.publishing.silent_until > 0
        )

    async def _pause(self) -> None:
        """Read nothing until there is room: the client's own socket then makes it wait."""
        self._paused = True
        while self._must_pause() and not self._closing:
            await self.door.room()
            await self._outbox.flushed()
            if self._pending >= REQUESTS_MAX or self._outbox.is_full(self._pending_bytes):
                await self._requests.one_done()
            if self.publishing.silent_until:
                await self.publishing.keep_silent()
        self._paused = False
        self._session.resumed(trio.current_time())

    # Carrying out effects

    def _perform(self, wanted: list[Effect]) -> None:
        performers = self._performers
        for effect in wanted:
            performers[type(effect)](effect)

    def _make_performers(self) -> dict[type, Callable[[Any], None]]:
        requests, publishing, listings = self._requests, self.publishing, Listings(self)
        return {
            effects.AppendRun: publishing.append,
            effects.AddPermits: self._flow,
            effects.Acknowledge: self._acknowledge,
            effects.AcknowledgeUntil: self._acknowledge_until,
            effects.Redeliver: self._redeliver,
            effects.LeaveProducer: publishing.leave,
            effects.DetachConsumer: self._detach,
            effects.FindTopic: requests.find_topic,
            effects.ListTopics: partial(self.spawn, listings.list_topics),
            effects.WatchTopics: listings.watch_topics,
            effects.UnwatchTopics: listings.unwatch_topics,
            effects.FindSchema: requests.find_schema,
            effects.Authenticate: partial(self.spawn, requests.authenticate),
            effects.AttachSchema: partial(self.spawn, requests.attach_schema),
            effects.DescribeConsumer: requests.describe,
            effects.Close: self._close,
            effects.OpenProducer: partial(self.spawn, requests.open_producer),
            effects.AttachConsumer: partial(self.spawn, Attaching(self).attach),
            effects.Seek: partial(self.spawn, requests.seek),
            effects.Unsubscribe: partial(self.spawn, requests.unsubscribe),
            effects.ReadLast: partial(self.spawn, requests.read_last),
        }

    def spawn(self, request: Callable[[Any], Awaitable[None]], effect: Effect) -> None:
        """Carry out a request that waits for the core, in a task of its own."""
        size = self._session.request_bytes
        self._pending += 1
        self._pending_bytes += size
        self._nursery.start_soon(self._finish, request, effect, size)

    async def _finish(
        self, request: Callable[[Any], Awaitable[None]], effect: Effect, size: int
    ) -> None:
        try:
            await request(effect)
        finally:
            self._pending -= 1
            self._pending_bytes -= size
            self._requests.done()

    def _flow(self, effect: effects.AddPermits) -> None:
        receiver = self.receivers.get(effect.key)
        if receiver is not None:
            receiver.consumer.flow(effect.permits)

    def _acknowledge(self, effect: effects.Acknowledge) -> None:
        receiver = self.receivers.get(effect.key)
        if receiver is not None:
            receiver.acknowledge(effect, receipt_of(effect, self.tell))
            if receiver.topic.id in self.door.registry.ended:
                self.door.check_end(receiver.topic, receiver.subscription)

    def _acknowledge_until(self, effect: effects.AcknowledgeUntil) -> None:
        receiver = self.receivers.get(effect.key)
        if receiver is None:
            return
        receipt = receipt_of(effect, self.tell)
        try:
            receiver.acknowledge_until(effect, receipt)
        except CoreError as error:
            if receipt is not None:
                receipt(failure_of(error))
        if receiver.topic.id in self.door.registry.ended:
            self.door.check_end(receiver.topic, receiver.subscription)

    def _redeliver(self, effect: effects.Redeliver) -> None:
        receiver = self.receivers.get(effect.key)
        if receiver is not None:
            receiver.release(effect.positions, count=effect.count)

    def _detach(self, effect: effects.DetachConsumer) -> None:
        receiver = self.receivers.get(effect.key)
        if receiver is not None:
            receiver.consumer.detach()
            self.forget_consumer(effect.key)

    def _close(self, effect: effects.Close) -> None:
        logger.info("x %s: %s", self.address, effect.reason)
        self._closing = True
        self._timer.cancel()

    # Back-pressure and the end

    def _sent(self) -> None:
        """A flush is through."""
        if not self.is_full:
            self._set_writable(writable=True)
            self.door.watchers.catch_up(self)

    def _set_writable(self, *, writable: bool) -> None:
        for receiver in self.receivers.values():
            consumer = receiver.consumer
            if consumer.writable is not writable:
                consumer.writable = writable
                if writable:
                    consumer.wake()

    def _come_apart(self) -> None:
        """Refer to nothing that refers to this: the connection is given up with its last user then,
        and not only when a collection of everything finds it. Commits may still be under way."""
        self._is_over = True
        self._session.end()
        self._performers.clear()
        del self.publishing, self._requests

    def _leave(self) -> None:
        """Give back everything that the client held. Idempotent."""
        if self._is_over:
            return
        self._closing = True
        self.door.watchers.leave(self)
        for key in list(self.receivers):
            self.receivers[key].consumer.detach()
            self.forget_consumer(key)
        self.publishing.leave_all()
