"""Publishing: the producers of one connection, and the outcome of what they send.

The rule: a producer is here from its claim to its release; messages of one that is not here, or
whose topic is gone, are never stored.
"""

from functools import partial
from itertools import islice
from typing import Final

import trio

from arneb_core.api.entries.entry import HEADER_BYTES, messages_in
from arneb_core.api.entries.ledger_ids import LedgerIds
from arneb_core.api.entries.position import Position
from arneb_core.api.errors import CommitFailed, CoreError, TopicFenced, TopicNotFound
from arneb_core.api.topics.topic import Topic
from arneb_pulsar.authorization.callers import Caller
from arneb_pulsar.names import topic_name_of
from arneb_pulsar.namespaces.rates import NO_LIMITS, PublishLimits, Throttle
from arneb_pulsar.packing.entries import deliver_at_ms, without_delay
from arneb_pulsar.producers.sequences import NEVER
from arneb_pulsar.server.observed_sink import client_of
from arneb_pulsar.services.clients.connections import ClientConnection
from arneb_pulsar.services.clients.producers import ProducerClaim
from arneb_pulsar.services.context import BrokerContext
from arneb_pulsar.session.connection.rules import TO_PRODUCE
from arneb_pulsar.session.errors import Failure, TopicTerminated, TransactionNotOpen
from arneb_pulsar.session.interface import effects, events
from arneb_pulsar.session.interface.assigned import NOWHERE, Assigned
from arneb_pulsar.session.interface.effects import ProducerKey
from arneb_pulsar.session.produce.damaged import sort_refused
from arneb_pulsar.transactions.states import PROVISIONAL
from arneb_pulsar.wire.proto import pulsar_pb2 as pb

RECEIVE_BYTES: Final = 256 * 1024
"""Bytes read at once: hundreds of small messages, which then go to the log as one run."""

THROTTLED_RECEIVE_BYTES: Final = 1024
"""Bytes read at once while producers must keep to a rate: one read must not be worth minutes."""

TOO_LARGE: Final = Failure(pb.NotAllowedError, "Exceed maximum message size")
NOT_ALLOWED: Final = Failure(pb.AuthorizationError, TO_PRODUCE)


class Publishing:
    """Carries out what a connection's producers ask for, and tells them what becomes of it
    (:class:`arneb_pulsar.services.clients.producers.ProducerOwner`)."""

    def __init__(self, context: BrokerContext, connection: ClientConnection) -> None:
        self._context = context
        self._connection = connection
        self._opened: dict[ProducerKey, tuple[Topic, ProducerClaim]] = {}
        self.receive_bytes = RECEIVE_BYTES
        self.silent_until = 0.0
        """The client is not read before this time; 0 = it did not send too much."""

    def __repr__(self) -> str:
        silent = f", silent until {self.silent_until}" if self.silent_until else ""
        return f"<Publishing: {len(self._opened)} producers{silent}>"

    @property
    def caller(self) -> Caller:
        """The identity that the producers send as."""
        return self._connection.caller

    def producer_name(self, key: ProducerKey) -> str | None:
        """Return the name of a producer, None if it is not there."""
        opened = self._opened.get(key)
        return None if opened is None else opened[1].name

    # Claims

    def claimed(self, claim: ProducerClaim) -> None:
        """The claim has its name, or a place in the queue; it must be released."""
        self._opened[claim.holder.key] = claim.holder.topic, claim

    def queued(self, claim: ProducerClaim) -> None:
        """The producer waits for its turn."""
        self._connection.tell(events.ProducerQueued(claim.holder.key, claim.name))

    def admitted(self, claim: ProducerClaim, epoch: int | None) -> None:
        """The producer may send, as soon as it is known how far it got before."""
        producer = claim.holder
        if self._context.throttles.of(producer.topic) is not None:
            self.receive_bytes = THROTTLED_RECEIVE_BYTES

        def then(highest: int) -> None:
            if self._opened.get(producer.key) == (producer.topic, claim):
                if not self._may_produce(producer.topic):  # any more
                    self._context.producers.release(claim)
                    self.lost(claim, NOT_ALLOWED)
                    return
                version = producer.schema_version
                opened = events.ProducerOpened(producer.key, claim.name, epoch, highest, version)
                self._connection.tell(opened)

        deduplication = self._context.deduplications.of(producer.topic)
        if deduplication is None:
            then(NEVER)
        else:
            deduplication.ask_highest(claim.name, then)

    def _may_produce(self, topic: Topic) -> bool:
        name = topic_name_of(topic.name)
        return self._context.rights.may_produce(self._connection.caller, name)

    def lost(self, claim: ProducerClaim, failure: Failure) -> None:
        """Another producer has the topic for itself now, or this one never got it."""
        del self._opened[claim.holder.key]
        self._connection.tell(events.ProducerLost(claim.holder.key, failure))

    def leave(self, effect: effects.LeaveProducer) -> None:
        """Release a producer's name."""
        opened = self._opened.pop(effect.key, None)
        if opened is not None:
            self._context.producers.release(opened[1])

    def leave_all(self) -> None:
        """Release all producers: the connection ends."""
        self.leave_some(len(self._opened))

    def leave_some(self, count: int) -> bool:
        """Release up to ``count`` producers; return True when none is left."""
        for key in list(islice(self._opened, count)):
            self.leave(effects.LeaveProducer(key))
        return not self._opened

    def disconnect(self, key: ProducerKey, assigned: Assigned = NOWHERE) -> None:
        """Close a producer; its client may open it again, here or at the ``assigned`` broker."""
        self._connection.tell(events.ProducerDisconnected(key, assigned))

    def disconnect_all(self, topic: Topic) -> None:
        """As :meth:`disconnect`, for all producers of a topic."""
        for key in [key for key, (each, _) in self._opened.items() if each is topic]:
            self.disconnect(key)

    # What they send

    def append(self, run: effects.AppendRun) -> None:
        """Store a run of messages; the session is told in the end."""
        context, opened = self._context, self._opened.get(run.key)
        if opened is None or opened[0].fenced:
            self._refuse(run)
            return
        topic = opened[0]
        if topic.id in context.namespaces.ended:
            self._end(run, topic)
            return
        run.ledger_ids = LedgerIds(topic.id)
        if (observer := context.message_observer.observer) is not None:
            observer.sent(client_of(self._connection), topic.name, run.entries)
        size = sum(map(len, run.entries))
        throttle = context.throttles.of(topic)
        self.receive_bytes = RECEIVE_BYTES if throttle is None else THROTTLED_RECEIVE_BYTES
        if throttle is not None:
            self._slow_down(throttle, run, size)
            if throttle.limits is not NO_LIMITS:
                self._keep_limits(throttle.limits, run)
                if not run.entries:
                    return
                size = sum(map(len, run.entries))
        if run.delayed:
            context.core.expect_delays(topic)
        if len(run.sends) == 1:
            counts = opened[1].holder.counts
            counts.messages += run.messages
            counts.bytes += size - HEADER_BYTES * len(run.entries)
            has_chunks = bool(run.sends[0].chunks)
        else:
            self._count_each(run)
            has_chunks = any(sends.chunks for sends in run.sends)
        if has_chunks:
            topic.expect_groups()
            opened[1].holder.counts.chunks += sum(len(sends.chunks) for sends in run.sends)
        deduplication = context.deduplications.of(topic)
        if deduplication is not None:
            deduplication.append(self, run)
            return
        if run.transaction is not None:
            entries, run.entries = run.entries, []
            context.transactions.send(
                run.transaction, self._connection.caller, topic, entries,
                partial(self.appended, run),
            )  # fmt: skip
            return
        if not (topic.durable or topic.subscriptions):
            run.entries = []  # no consumer is there, and nothing is kept for later ones
            self._connection.tell(events.Appended(run, None, Position(0)))
            return
        context.core.append(
            topic, run.entries, partial(self.appended, run), run.messages, size=size
        )
        run.entries = []

    def _count_each(self, run: effects.AppendRun) -> None:
        """Count what each of several producers sent."""
        start = 0
        for sends in run.sends:
            if sends.frames is not None:
                continue  # refused: it has no entry here
            behind = start + len(sends.sequences)
            opened = self._opened.get(ProducerKey(sends.key))
            if opened is not None:
                counts, entries = opened[1].holder.counts, run.entries[start:behind]
                counts.messages += sum(map(messages_in, entries))
                counts.bytes += sum(map(len, entries)) - HEADER_BYTES * len(entries)
            start = behind

    def appended(self, run: effects.AppendRun, error: CoreError | None, first: Position) -> None:
        """A run is stored, or has failed."""
        if isinstance(error, TopicFenced):
            self._refuse(run)
            return
        if run.transaction is not None:
            first = Position(PROVISIONAL + first)
        self._connection.tell(events.Appended(run, error, first))
        if isinstance(error, CommitFailed) and not isinstance(error, TransactionNotOpen):
            # They reconnect and send everything again, in order, as after a failed write of Apache
            # Pulsar (PersistentTopic.addFailed). If they were not closed, messages sent since would
            # be stored in front of it, and deduplication would then take it for stored.
            for key in {ProducerKey(sends.key) for sends in run.sends}:
                self.disconnect(key)

    def _refuse(self, run: effects.AppendRun) -> None:
        """Refuse a run whose topic is being deleted, or is gone."""
        opened = self._opened.get(run.key)
        if opened is not None:
            self.disconnect_all(opened[0])
        # Other producers in the run opened a new topic of the same name; they send it all again.
        gone = TopicNotFound("The topic was deleted")
        self._connection.tell(events.Appended(run, gone, Position(0)))

    def _end(self, run: effects.AppendRun, topic: Topic) -> None:
        """Close the producers of a topic being terminated; they are told why when they return.

        A SEND_ERROR before that would leave Go's client waiting until its send times out.
        """
        self.disconnect_all(topic)
        ended = TopicTerminated("Topic was already terminated")
        self._connection.tell(events.Appended(run, ended, Position(0)))

    def _keep_limits(self, limits: PublishLimits, run: effects.AppendRun) -> None:
        """Refuse messages of a run that are too large, or delayed for too long."""
        if run.delayed and not limits.delays:
            run.entries = [without_delay(entry) for entry in run.entries]
            run.delayed = False
        refused: dict[int, Failure] = {}
        latest_ms = self._context.clock.wall_ms() + limits.delay_ms_max
        for index, entry in enumerate(run.entries):
            if 0 < limits.body_bytes_max < len(entry) - HEADER_BYTES:
                refused[index] = TOO_LARGE
            elif run.delayed and limits.delay_ms_max > 0 and deliver_at_ms(entry) > latest_ms:
                text = f"Exceeds max allowed delivery delay of {limits.delay_ms_max} milliseconds"
                refused[index] = Failure(pb.NotAllowedError, text)
        if refused:
            self._connection.tell(events.SendsSorted(sort_refused(run, refused)))

    def _slow_down(self, throttle: Throttle, run: effects.AppendRun, size: int) -> None:
        """Spend from the topic's rate; the next read waits until the rate allows it."""
        now = self._context.clock.now()
        wait_until = throttle.spend(run.messages, size, now)
        if wait_until > now:
            self.silent_until = max(self.silent_until, wait_until)

    async def keep_silent(self) -> None:
        """Wait until more may be read."""
        await trio.sleep_until(self.silent_until)
        self.silent_until = 0.0
