"""The producers of one connection: PRODUCER, SEND, CLOSE_PRODUCER, and the receipts.

SENDs are gathered into runs of a topic, which keep the order of each producer;
:meth:`Producers.flush` hands the runs over when all received commands are handled. Hot path:
:meth:`Producers.send` and :meth:`Producers.appended`.
"""

from collections import deque
from typing import Final

from arneb_core.api.entries.position import Position
from arneb_pulsar.names import NAME_BYTES_MAX, TopicName
from arneb_pulsar.packing.entries import make_entries
from arneb_pulsar.packing.metadata_pattern import MetadataPattern
from arneb_pulsar.producers.access import AccessMode
from arneb_pulsar.session.errors import (
    Failure,
    RemoteProtocolError,
    RequestRefused,
    failure_of,
)
from arneb_pulsar.session.fields import properties_of, text_of, topic_of
from arneb_pulsar.session.interface.effects import (
    AppendRun,
    LeaveProducer,
    OpenProducer,
    ProducerKey,
)
from arneb_pulsar.session.interface.events import (
    Appended,
    ProducerDisconnected,
    ProducerLost,
    ProducerOpened,
    ProducerQueued,
    ProducerRefused,
    SendsSorted,
)
from arneb_pulsar.session.interface.pending_sends import PendingSends
from arneb_pulsar.session.output import Output
from arneb_pulsar.session.produce.damaged import sort_damaged
from arneb_pulsar.session.schemas import schema_of
from arneb_pulsar.session.transitions import PRODUCER_MOVES, ProducerInput, ProducerState
from arneb_pulsar.transactions.states import TransactionId
from arneb_pulsar.wire import commands
from arneb_pulsar.wire.errors import PayloadError
from arneb_pulsar.wire.proto import pulsar_pb2 as pb
from arneb_pulsar.wire.proto.pulsar_pb2 import (
    CommandCloseProducer,
    CommandProducer,
    CommandSend,
)

PRODUCERS_MAX: Final = 10_000
"""Producers of one connection; Pulsar bounds them per topic only."""

IGNORE_SENDS_S: Final = 30.0
"""How long SENDs of a producer that the broker closed are ignored: its client may have sent them
before it knew. Java's broker waits as long."""

UNAVAILABLE: Final = Failure(pb.ServiceNotReady, "Topic is temporarily unavailable")
"""Makes a producer that is not open yet ask again: its topic was deleted, or is being reopened."""


class Producer:
    """One producer. Invariant: ``state`` moves only along the table."""

    __slots__ = (
        "close_request",
        "key",
        "latest_run",
        "pattern",
        "producer_id",
        "request_id",
        "sends",
        "state",
        "topic",
    )

    def __init__(
        self, key: ProducerKey, producer_id: int, request_id: int, topic: TopicName
    ) -> None:
        self.key = key
        self.producer_id = producer_id
        self.request_id = request_id
        self.topic = topic.core_name
        self.state = ProducerState.OPENING
        self.sends: deque[PendingSends] = deque()
        """Its unanswered sends, in order."""
        self.latest_run = 0
        """The number of the last run that has messages of this producer."""
        self.pattern = MetadataPattern()
        self.close_request = 0

    def __repr__(self) -> str:
        in_flight = sum(len(each.sequences) for each in self.sends)
        state = f"{self.state.name}, {in_flight} in flight"
        return f"<Producer {self.producer_id} on {self.topic}, {state}>"

    def move(self, happened: ProducerInput) -> None:
        """Make the move that the table has; one that it does not have is a defect of ours."""
        self.state = PRODUCER_MOVES[self.state, happened]


class Producers:
    """All producers of a connection. Invariant: ``_ready`` has those that may send."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._by_id: dict[int, Producer] = {}
        self._by_key: dict[ProducerKey, Producer] = {}
        self._ready: dict[int, Producer] = {}
        self._opened: dict[ProducerKey, ProducerOpened] = {}
        self._runs: dict[str | tuple[str, TransactionId], AppendRun] = {}
        """The latest run by topic, and by transaction if there is one."""
        self._gathered: list[AppendRun] = []
        """All gathered runs, in order."""
        self._last_run = 0
        self._disconnected: dict[int, float] = {}
        self._fenced_out: dict[ProducerKey, Producer] = {}
        """Fenced-out producers whose sends are not answered yet."""
        self._next_key = 1

    def __repr__(self) -> str:
        return f"<Producers: {len(self._by_key)}, {len(self._ready)} ready>"

    # Commands

    def open(self, command: CommandProducer) -> None:
        """PRODUCER: ask the broker for the topic and the name."""
        present = self._by_id.get(command.producer_id)
        if present is not None and present.state is ProducerState.READY:
            self._say_opened(command.request_id, self._opened[present.key])
            return
        if present is not None:
            raise RequestRefused(
                pb.ServiceNotReady, "Producer is already present on the connection"
            )
        name = text_of(command.producer_name, "producer_name")
        if len(name.encode()) > NAME_BYTES_MAX:
            raise RequestRefused(
                pb.NotAllowedError, f"Producer name longer than {NAME_BYTES_MAX} bytes"
            )
        if len(self._by_id) >= PRODUCERS_MAX:
            raise RequestRefused(
                pb.TooManyRequests, f"At most {PRODUCERS_MAX} producers a connection"
            )
        topic = topic_of(command.topic)
        key = ProducerKey(self._next_key)
        self._next_key += 1
        producer = Producer(key, command.producer_id, command.request_id, topic)
        self._by_id[command.producer_id] = self._by_key[key] = producer
        self._output.do(
            OpenProducer(
                key=key,
                producer_id=command.producer_id,
                topic=topic,
                name=name,
                mode=AccessMode(command.producer_access_mode),
                topic_epoch=command.topic_epoch if command.HasField("topic_epoch") else None,
                initial_subscription=text_of(
                    command.initial_subscription_name, "initial_subscription_name"
                ),
                schema=schema_of(command.schema) if command.HasField("schema") else None,
                properties=properties_of(command.metadata),
                encrypted=command.encrypted,
            )
        )

    def send(self, command: CommandSend, bodies: list[bytes]) -> None:
        """Put SENDs that one producer numbered one after the other into the run of their topic;
        ``command`` is the first of them."""
        producer_id = command.producer_id
        producer = self._ready.get(producer_id)
        if producer is None:
            self._send_of_nobody(producer_id)
            return
        first = command.sequence_id
        sequences = range(first, first + len(bodies))
        key: str | tuple[str, TransactionId] = producer.topic
        transaction = None
        if command.txnid_most_bits or command.txnid_least_bits:
            transaction = TransactionId(command.txnid_most_bits, command.txnid_least_bits)
            key = producer.topic, transaction
        run = self._runs.get(key)
        if run is None or run.number < producer.latest_run:
            # Deduplication takes a message after a higher number of its producer for stored.
            self._last_run += 1
            run = AppendRun(producer.key, transaction=transaction, number=self._last_run)
            self._runs[key] = run
            self._gathered.append(run)
        producer.latest_run = run.number
        sends = producer.sends
        sent = sends[-1] if sends else None
        if sent is None or not run.sends or run.sends[-1] is not sent:
            sent = PendingSends(producer_id, key=producer.key)
            sends.append(sent)
            run.sends.append(sent)
        if highest := command.highest_sequence_id:
            at = len(sent.sequences)
            sent.highest.update((at + index, highest) for index in range(len(bodies)))
        if command.is_chunk:
            # The last of one message and the first of the next have successive numbers.
            at = len(sent.sequences)
            sent.chunks.update(range(at, at + len(bodies)))
        sent.sequences += sequences
        run.bodies += bodies

    def close(self, command: CommandCloseProducer) -> None:
        """CLOSE_PRODUCER: answered once every receipt is sent."""
        producer = self._by_id.get(command.producer_id)
        if producer is None:
            self._output.send(commands.success(command.request_id))
            return
        if producer.state is ProducerState.CLOSING:
            raise RequestRefused(pb.ServiceNotReady, "Producer is being closed already")
        was = producer.state
        producer.move(ProducerInput.CLOSE)
        producer.close_request = command.request_id
        self._ready.pop(producer.producer_id, None)
        if was in (ProducerState.OPENING, ProducerState.WAITING):
            # The server gives it up when it reports it opened; see opened().
            self._forget(producer)
            if was is ProducerState.WAITING:
                self._output.do(LeaveProducer(producer.key))
            self._output.send(commands.success(command.request_id))
        else:
            self._drain(producer)

    def flush(self, publish_time_ms: int) -> None:
        """Hand over the runs gathered since the last call."""
        if not self._gathered:
            return
        runs, self._gathered, self._runs = self._gathered, [], {}
        for run in runs:
            producer = self._by_id.get(run.sends[0].producer_id)
            pattern = MetadataPattern() if producer is None else producer.pattern
            try:
                run.entries, run.messages, run.delayed = make_entries(
                    run.bodies, publish_time_ms, pattern
                )
                pattern.learn(run.bodies)
            except PayloadError:
                for sent, parts in sort_damaged(run, publish_time_ms):
                    self._replace(sent, parts)
                if run.sends:
                    # The run's first producer may be closed by now; one with pending sends is not.
                    run.key = self._by_id[run.sends[0].producer_id].key
            run.bodies = []
            if run.entries:
                self._output.do(run)

    # Events

    def opened(self, event: ProducerOpened) -> None:
        """The producer may send, unless it was closed meanwhile."""
        producer = self._by_key.get(event.key)
        if producer is None:
            self._output.do(LeaveProducer(event.key))
            return
        producer.move(ProducerInput.OPENED)
        self._ready[producer.producer_id] = producer
        self._opened[producer.key] = event
        self._disconnected.pop(producer.producer_id, None)
        self._say_opened(producer.request_id, event)

    def queued(self, event: ProducerQueued) -> None:
        """Tell the client that its producer waits in line; its second answer has the same id."""
        producer = self._by_key.get(event.key)
        if producer is None:
            self._output.do(LeaveProducer(event.key))
            return
        producer.move(ProducerInput.QUEUED)
        reply = commands.producer_success(producer.request_id, event.name, ready=False)
        self._output.send(reply)

    def refused(self, event: ProducerRefused) -> None:
        """The producer is refused."""
        producer = self._by_key.get(event.key)
        if producer is None:
            return
        producer.move(ProducerInput.REFUSED)
        self._forget(producer)
        failure = event.failure
        self._output.send(commands.error(producer.request_id, failure.code, failure.text))

    def lost(self, event: ProducerLost) -> None:
        """Another producer has exclusive access to the topic. One that could send already gets the
        outcome of its sends, as from Apache Pulsar (``Producer.close``), and nothing else: its next
        SEND ends the connection, and it gets the reason when it opens again."""
        producer = self._by_key.get(event.key)
        if producer is None:
            return
        was = producer.state
        producer.move(ProducerInput.LOST)
        self._forget(producer)
        failure = event.failure
        if was is ProducerState.CLOSING:
            self._output.send(commands.success(producer.close_request))
        elif was is not ProducerState.READY:
            self._output.send(commands.error(producer.request_id, failure.code, failure.text))
        elif producer.sends:
            self._fenced_out[producer.key] = producer

    def disconnected(self, event: ProducerDisconnected) -> None:
        """The topic is gone: have the client reopen its producer and resend."""
        producer = self._by_key.get(event.key)
        if producer is None or producer.state is ProducerState.OPENING:
            return  # a producer being opened learns of it when it sends
        was = producer.state
        producer.move(ProducerInput.DISCONNECTED)
        self._forget(producer)
        self._output.do(LeaveProducer(producer.key))
        if was is ProducerState.CLOSING:
            self._output.send(commands.success(producer.close_request))
        elif was is ProducerState.READY:
            self._disconnected[producer.producer_id] = self._output.now + IGNORE_SENDS_S
            urls = event.assigned.url, event.assigned.url_tls
            self._output.send(commands.close_producer(producer.producer_id, *urls))
        else:
            failure = UNAVAILABLE
            self._output.send(commands.error(producer.request_id, failure.code, failure.text))

    def sorted(self, event: SendsSorted) -> None:
        """Some sends of a run are not stored: replace them by their parts."""
        for sent, parts in event.replaced:
            self._replace(sent, parts)

    def appended(self, event: Appended) -> None:
        """A run is durable or failed: note the outcome of its sends, and send the receipts due."""
        offset = 0
        for sent in event.run.sends:
            if sent.frames is not None:
                continue  # refused for a reason of its own
            if event.error is None:
                sent.stored(Position(event.first + offset), event.run.ledger_ids)
            else:
                sent.refused(failure_of(event.error))
            offset += sent.entries
        sends = event.run.sends
        if len(sends) == 1:  # as when each producer has a topic of its own
            if (producer := self._waiting(ProducerKey(sends[0].key))) is not None:
                self._drain(producer)
            return
        for key in {ProducerKey(sent.key) for sent in sends}:
            producer = self._waiting(key)
            if producer is not None:
                self._drain(producer)

    # Inside

    def _waiting(self, key: ProducerKey) -> Producer | None:
        """Return the producer of that key, if it may still wait for answers."""
        return self._by_key.get(key) or self._fenced_out.get(key)

    def _drain(self, producer: Producer) -> None:
        """Send the answers that are known, from the head of the producer's queue."""
        sends = producer.sends
        while sends and (frames := sends[0].frames) is not None:
            sends.popleft()
            self._output.send(frames)
        if not sends:
            self._fenced_out.pop(producer.key, None)
        if not sends and producer.state is ProducerState.CLOSING:
            producer.move(ProducerInput.DRAINED)
            self._forget(producer)
            self._output.do(LeaveProducer(producer.key))
            self._output.send(commands.success(producer.close_request))

    def _forget(self, producer: Producer) -> None:
        del self._by_id[producer.producer_id], self._by_key[producer.key]
        self._ready.pop(producer.producer_id, None)
        self._opened.pop(producer.key, None)

    def _say_opened(self, request_id: int, event: ProducerOpened) -> None:
        reply = commands.producer_success(
            request_id,
            event.name,
            event.last_sequence_id,
            epoch=event.epoch,
            schema_version=event.schema_version,
        )
        self._output.send(reply)

    def _send_of_nobody(self, producer_id: int) -> None:
        """Handle a SEND without a producer: it ends the connection, as with the Java broker, unless
        the broker closed the producer a moment ago."""
        until = self._disconnected.get(producer_id)
        if until is None or until < self._output.now:
            raise RemoteProtocolError(f"expected an open producer, got SEND of {producer_id}")

    def _replace(self, sent: PendingSends, parts: list[PendingSends]) -> None:
        """Replace ``sent``, which its producer waits for, by ``parts``."""
        producer = self._waiting(ProducerKey(sent.key))
        if producer is None:
            return
        queue = producer.sends
        at = next(index for index, each in enumerate(queue) if each is sent)
        producer.sends = deque([*list(queue)[:at], *parts, *list(queue)[at + 1 :]])
        self._drain(producer)
