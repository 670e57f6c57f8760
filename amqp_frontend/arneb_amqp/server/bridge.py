"""The bridge: carries the effects of one connection into the topology and the core.

The rule: effects name queues and consumers by name and number; only the bridge knows the
objects behind them. What cannot be found any more (a queue deleted meanwhile, a consumer
that the core has closed) is passed over, because then there is nothing left to do.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import trio

from arneb_amqp.errors import AmqpError, precondition_failed
from arneb_amqp.routing.reply_to import is_reply_queue
from arneb_amqp.routing.stream_filter import StreamFilter
from arneb_amqp.server.admission import admit, pass_on
from arneb_amqp.server.core_errors import in_amqp
from arneb_amqp.server.methods import Methods, touched_by
from arneb_amqp.server.receiver import NOBODY, ConsumerSink, Receiver
from arneb_amqp.server.stamping import pieces, stamp
from arneb_amqp.session.deliveries import ConsumerId, attached_again, consumer_of
from arneb_amqp.session.effects import (
    Acknowledge,
    Append,
    Cancel,
    Commit,
    Consume,
    EndConnection,
    Find,
    Get,
    Leave,
    Perform,
    Reject,
    Release,
    Request,
    Token,
    Wake,
)
from arneb_amqp.session.events import Answered, Pulled, Refused
from arneb_amqp.topology.footprint import of_queue
from arneb_amqp.topology.overflow import Admission
from arneb_amqp.topology.queues.attachments import Attachment, Consumption, give_back
from arneb_amqp.topology.queues.declaration import ConnectionId
from arneb_amqp.topology.queues.delivery_counts import counted
from arneb_amqp.topology.queues.options import QueueType
from arneb_amqp.topology.topology import Topology, Vhost
from arneb_core.api.callbacks import Done
from arneb_core.api.core import Core, Unit
from arneb_core.api.errors import CommitFailed, CoreError
from arneb_core.api.waiting import durable


class Bridge:
    """What one connection has in the broker.

    Invariant: ``_leaving`` are those of ``_attached`` that were cancelled with deliveries
    unanswered; they are detached when the last answer comes.
    """

    def __init__(
        self, topology: Topology, core: Core, owner: ConnectionId, receiver: Receiver
    ) -> None:
        self._topology = topology
        self._core = core
        self._owner = owner
        self._receiver: Receiver = receiver
        self._vhost: Vhost | None = None
        self.attached: dict[ConsumerId, Attachment] = {}
        """While there are any, deliveries may come."""
        self._leaving: set[ConsumerId] = set()
        self._consumes: dict[ConsumerId, Consume] = {}
        self._last_ids: dict[ConsumerId, ConsumerId] = {}
        """The id of each consumer's last attachment, by that of its first."""
        self._methods = Methods(owner)
        self.writable = True

    def __repr__(self) -> str:
        return f"<Bridge {self._owner}, {len(self.attached)} consumers>"

    def open_vhost(self, name: str) -> Vhost | None:
        """The vhost in which the connection lives from now on."""
        self._vhost = self._topology.vhost(name)
        return self._vhost

    @property
    def vhost(self) -> Vhost:
        """The connection's vhost; nothing but the handshake happens before there is one."""
        assert self._vhost is not None, "effects come after connection.open"
        return self._vhost

    # Orders.

    def append(self, effect: Append) -> None:
        """Hand a run to the core."""
        token = effect.token
        if effect.delayed_by:
            self._keep(effect)
            return
        if self.vhost.refuses(effect.queues):
            admit(effect, self._core, self.vhost.queues, self._receiver)
            return
        topics = [self.vhost.queues.topic(name) for name in effect.queues]
        present = [topic for topic in topics if topic is not None]
        if effect.expiring:
            self.vhost.queues.expect_expiry(effect.queues)
        if len(present) < len(topics) and any(map(self.vhost.queues.lost, effect.queues)):
            self._receiver.committed(token, None, refused=True)
        elif not present:
            self._receiver.committed(token, None)
        elif len(present) == 1:
            # One entry is one message here, and saying so saves the core a look into each.
            self._core.append(
                present[0],
                effect.entries,
                lambda error, _: self._done(token, error),
                len(effect.entries),
                passes_over_gone=True,
            )
        else:
            appends = [(topic, effect.entries) for topic in present]
            unit = Unit(appends, passes_over_gone=True, has_batches=False)
            self._core.commit(unit, lambda error: self._done(token, error))

    def _keep(self, effect: Append) -> None:
        """Hand what exchanges keep to the core, and what other queues get of it at once."""
        admission = Admission()
        taken = pass_on(effect.queues, effect.entries, self.vhost.queues, admission)
        unit = Unit(list(admission.close().items()), passes_over_gone=True)
        if effect.expiring:
            self.vhost.queues.expect_expiry(effect.queues)
        for exchange in effect.delayed_by:
            if (topic := self.vhost.delayed_exchanges.topic(exchange)) is not None:
                unit.appends.append((topic, effect.delayed))

        def done(error: CommitFailed | None) -> None:
            admission.over()
            failure = None if error is None else in_amqp(error)
            self._receiver.committed(effect.token, failure, refused=not taken)

        if self._core.commit(unit, done):
            admission.over()

    def acknowledge(self, effect: Acknowledge) -> None:
        """Hand acknowledgements to the core."""
        settled = effect.settled
        attachment = self.attached.get(settled.consumer)
        if attachment is None:
            return
        if settled.places:
            attachment.consumer.acknowledge(settled.places)
        for place, mask in settled.masks.items():
            attachment.consumer.acknowledge_messages(place, mask)
        if settled.consumer in self._leaving:
            self._end_if_answered(settled.consumer, attachment)

    def reject(self, effect: Reject) -> None:
        """Hand messages that nobody wants to the core."""
        settled = effect.settled
        attachment = self.attached.get(settled.consumer)
        if attachment is None:
            return
        attachment.consumer.reject(settled.places, settled.masks or None)
        if settled.consumer in self._leaving:
            self._end_if_answered(settled.consumer, attachment)

    def release(self, effect: Release) -> None:
        """Give messages back to their queue."""
        settled = effect.settled
        attachment = self.attached.get(settled.consumer)
        if attachment is None:
            return
        attachment.consumer.release(
            [*settled.places, *settled.masks], count=True, masks=settled.masks or None
        )
        if settled.consumer in self._leaving:
            self._end_if_answered(settled.consumer, attachment)

    def wake(self, effect: Wake) -> None:
        """Have the dispatcher look at these consumers again."""
        for consumer in effect.consumers:
            attachment = self.attached.get(self._last_ids.get(consumer, consumer))
            if attachment is not None:
                attachment.consumer.wake()

    def set_writable(self, writable: bool) -> None:
        """Let all consumers be assigned messages, or none."""
        if writable == self.writable:
            return
        self.writable = writable
        for attachment in self.attached.values():
            if attachment.counted:
                attachment.consumer.writable = writable
                if writable:
                    attachment.consumer.wake()

    def _next_id(self, consumer: ConsumerId) -> ConsumerId:
        """The id of an attachment that is about to be made."""
        last = self._last_ids.get(consumer)
        return consumer if last is None else attached_again(last)

    def closed(self, id_: ConsumerId) -> None:
        """The core has detached a consumer."""
        attachment = self.attached.pop(id_, None)
        self._leaving.discard(id_)
        if attachment is not None:
            attachment.queue.closed(attachment.consumer, exclusive=attachment.exclusive)

    # Requests.

    async def perform(self, request: Request) -> Answered | Refused:
        """Carry out ``request``."""
        try:
            return Answered(await _REQUESTS[type(request)](self, request))
        except AmqpError as error:
            return Refused(error)
        except CoreError as error:
            return Refused(in_amqp(error))

    async def reattach(self, id_: ConsumerId) -> None:
        """Attach a consumer again that a seek has detached, unless it was cancelled meanwhile.

        Raises :class:`~arneb_core.api.errors.SubscriptionFenced` while the seek is under way.
        """
        consumer = consumer_of(id_)
        request = self._consumes.get(consumer)
        if request is None:
            return
        await self._attach(request)
        if consumer not in self._consumes:
            await self._leave(Leave((consumer,)))

    async def end(self) -> None:
        """The connection is over: detach everything, delete exclusive queues. Idempotent."""
        self._consumes.clear()
        self._last_ids.clear()
        await self._leave(Leave(tuple(self.attached)))
        if self._methods.made_exclusive:
            self._methods.made_exclusive = False
            async with self._topology.changing():
                await self.vhost.queues.delete_exclusive(self._owner)

    def end_telling(self) -> None:
        """Nobody is told any more of what was begun."""
        self._receiver = NOBODY

    async def _find(self, request: Find) -> None:
        while not request.search.step():
            await trio.lowlevel.checkpoint()

    async def _perform(self, request: Perform) -> object:
        vhost, command = self.vhost, request.command
        async with self._topology.changing(lambda: touched_by(vhost, command)):
            return await self._methods.perform(vhost, command)

    async def _consume(self, request: Consume) -> StreamFilter | None:
        filter_ = await self._attach(request)
        self._consumes[request.consumer] = request
        return filter_

    async def _attach(self, request: Consume) -> StreamFilter | None:
        wanted = Consumption(
            request.queue,
            request.tag,
            request.no_ack,
            request.exclusive,
            request.arguments,
            request.windows,
        )
        id_ = self._next_id(request.consumer)
        sink = ConsumerSink(self._receiver, id_)
        async with self._topology.changing(lambda: of_queue(self.vhost.name, request.queue)):
            if is_reply_queue(request.queue):
                await self.vhost.queues.make_reply_queue(request.queue)
            attachment = await self.vhost.attachments.attach(wanted, self._owner, sink)
        attachment.consumer.writable = self.writable
        self.attached[id_] = attachment
        self._last_ids[request.consumer] = id_
        return attachment.stream_filter

    async def _cancel(self, request: Cancel) -> None:
        self._consumes.pop(request.consumer, None)
        id_ = self._last_ids.pop(request.consumer, request.consumer)
        attachment = self.attached.get(id_)
        if attachment is None:
            return
        async with self._topology.changing(attachment.touched_by_leaving):
            if await self.vhost.attachments.cancel(attachment):
                self.attached.pop(id_, None)
            elif id_ in self.attached:
                self._leaving.add(id_)

    async def _get(self, request: Get) -> Pulled | None:
        id_ = self._last_ids.get(request.consumer, request.consumer)
        attachment = self.attached.get(id_)
        if attachment is None:
            id_ = self._next_id(request.consumer)
            sink = ConsumerSink(self._receiver, id_)
            async with self._topology.changing(lambda: of_queue(self.vhost.name, request.queue)):
                attachment = await self.vhost.attachments.attach_getter(
                    request.queue, self._owner, sink, no_ack=request.no_ack
                )
            self.attached[id_] = attachment
            self._last_ids[request.consumer] = id_
        run = await attachment.consumer.pull()
        if run is None:
            return None
        if attachment.queue.type is QueueType.QUORUM:
            run = counted(run, always=True)
        return Pulled(run, attachment.queue.message_count, id_)

    async def _commit(self, request: Commit) -> None:
        for names in await stamp(request):
            self.vhost.queues.expect_expiry(names)
        admission = Admission()
        taken = True
        try:
            for queues, entries in request.appends:
                for piece in pieces(entries):
                    taken &= pass_on(queues, piece, self.vhost.queues, admission)
                    if piece is not entries:
                        await trio.lowlevel.checkpoint()
            unit = Unit(list(admission.close().items()), passes_over_gone=True)
            for exchanges, entries in request.delayed:
                kept = map(self.vhost.delayed_exchanges.topic, exchanges)
                unit.appends += [(topic, entries) for topic in kept if topic is not None]
            known = [each for each in request.acknowledged if each.consumer in self.attached]
            for settled in known:
                consumer = self.attached[settled.consumer].consumer
                unit.acks.append((consumer, settled.places))
                unit.parts.append((consumer, settled.masks))

            def begin(done: Done) -> None:
                if self._core.commit(unit, done):
                    admission.over()

            await durable(begin)
        finally:
            admission.over()
        for id_ in {each.consumer for each in known} & self._leaving:
            self._end_if_answered(id_, self.attached[id_])
        if not taken:
            raise precondition_failed("partial tx completion")
        await self._receiver.deliveries_made()

    async def _leave(self, request: Leave) -> None:
        last = [self._last_ids.pop(id_, id_) for id_ in request.consumers]
        for id_ in request.consumers:
            self._consumes.pop(id_, None)
        present = [
            id_ for id_ in dict.fromkeys([*last, *request.consumers]) if id_ in self.attached
        ]
        if not present:
            return
        await give_back(map(self.attached.get, present))
        async with self._topology.changing():
            for id_ in present:
                attachment = self.attached.pop(id_, None)
                self._leaving.discard(id_)
                if attachment is not None:
                    await self.vhost.attachments.detach(attachment)

    async def _end(self, _: EndConnection) -> None:
        await self.end()

    def _done(self, token: Token, error: CommitFailed | None) -> None:
        self._receiver.committed(token, None if error is None else in_amqp(error))

    def _end_if_answered(self, id_: ConsumerId, attachment: Attachment) -> None:
        if not attachment.consumer.in_flight:
            self._leaving.discard(id_)
            del self.attached[id_]
            attachment.consumer.detach()
            attachment.queue.unseen.discard(attachment.consumer)


_REQUESTS: Final[Mapping[type[Request], Callable[[Bridge, Any], Awaitable[object]]]] = {
    Find: Bridge._find,
    Perform: Bridge._perform,
    Consume: Bridge._consume,
    Cancel: Bridge._cancel,
    Get: Bridge._get,
    Commit: Bridge._commit,
    Leave: Bridge._leave,
    EndConnection: Bridge._end,
}
