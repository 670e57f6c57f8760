"""A topic in memory: its entries, producers and subscriptions.

The rule: entries get ids in the order of arrival; with deduplication a producer's sequence ids only
grow; exclusive producers are admitted as by Pulsar.
"""

from collections.abc import Callable
from dataclasses import dataclass

from arneb_pulsar.client.errors import (
    ConsumerBusy,
    NotAllowed,
    ProducerBusy,
    ProducerFenced,
)
from arneb_pulsar.client.ids import EARLIEST, LATEST, EntryId, MessageId
from arneb_pulsar.client.messages import TransactionId
from arneb_pulsar.client.testing.subscription import (
    Entry,
    FakeConsumer,
    FakeSubscription,
)
from arneb_pulsar.wire.checksum import split_body, verify_body
from arneb_pulsar.wire.metadata import ordering_key_of, parse_metadata
from arneb_pulsar.wire.proto.pulsar_pb2 import (
    CommandSubscribe,
    ProducerAccessMode,
    Schema,
)


@dataclass(slots=True, eq=False)
class FakeProducer:
    """One producer of a topic."""

    name: str
    mode: int
    ended: Callable[[], None]
    """Called to make it look its topic up again."""
    ready: Callable[[int], None]
    """Called with the epoch when it gets exclusive access."""
    is_ready: bool = True

    def __repr__(self) -> str:
        return f"<FakeProducer {self.name}{'' if self.is_ready else ', waiting'}>"


class FakeTopic:
    """One topic, or one partition."""

    def __init__(
        self,
        name: str,
        *,
        deduplication: bool,
        is_open: Callable[[TransactionId], bool] = lambda _transaction: False,
    ) -> None:
        """``is_open`` tells whether a transaction accepts messages."""
        self.name = name
        self.entries: list[Entry] = []
        self.trimmed = 0
        """How many of the first entries are trimmed: they stay listed, but nobody gets them."""
        self.aborted: set[int] = set()
        """Indexes of the entries of aborted transactions."""
        self.subscriptions: dict[str, FakeSubscription] = {}
        self.producers: list[FakeProducer] = []
        self.schemas: list[Schema] = []
        self.epoch = -1
        self.moves = 0
        """How often it was unloaded."""
        self._deduplication = deduplication
        self._is_open = is_open
        self._open_transactions: dict[TransactionId, list[int]] = {}
        self._ledger = 1
        self._first_of_ledger = 0
        self._names = 0
        self._last_sequence_ids: dict[str, int] = {}

    def __repr__(self) -> str:
        return (
            f"<FakeTopic {self.name}, {len(self.entries)} entries, {len(self.producers)} producers,"
            f" {len(self.subscriptions)} subscriptions>"
        )

    @property
    def is_persistent(self) -> bool:
        """Whether its name is that of a persistent topic."""
        return self.name.startswith("persistent:")

    # Producers

    def admit(self, producer: FakeProducer, epoch: int | None) -> None:
        """Admit a producer, or make it wait. Raises :class:`ProducerBusy` and
        :class:`ProducerFenced`."""
        if not producer.name:
            self._names += 1
            producer.name = f"fake-{self._names}"
        if epoch is not None and epoch < self.epoch:
            raise ProducerFenced(f"epoch {epoch} is over, {self.epoch} has begun")
        same = [each for each in self.producers if each.name == producer.name]
        if same:
            raise ProducerBusy(f"Producer with name '{producer.name}' is already connected")
        owners = [each for each in self.producers if each.mode != ProducerAccessMode.Shared]
        if producer.mode == ProducerAccessMode.Shared:
            if owners:
                raise ProducerBusy("Topic has an existing exclusive producer")
        elif producer.mode == ProducerAccessMode.ExclusiveWithFencing:
            others, self.producers = self.producers, []
            for each in others:
                each.ended()
            self._own(epoch)
        elif self.producers:
            if producer.mode == ProducerAccessMode.Exclusive:
                raise ProducerFenced("Topic has other producers")
            producer.is_ready = False
        else:
            self._own(epoch)
        self.producers.append(producer)

    def dismiss(self, producer: FakeProducer) -> None:
        """Remove a producer; the next one waiting may get the topic."""
        if producer in self.producers:
            self.producers.remove(producer)
        if self.producers and not any(each.is_ready for each in self.producers):
            following = self.producers[0]
            following.is_ready = True
            self._own(None)
            following.ready(self.epoch)

    def _own(self, epoch: int | None) -> None:
        if epoch is None or epoch > self.epoch:
            self.epoch += 1

    def last_sequence_id(self, producer: str) -> int:
        """Return the last known sequence id of a producer; -1 if there is none."""
        return self._last_sequence_ids.get(producer, -1) if self._deduplication else -1

    # Entries

    def append(
        self, producer: str, sequence_id: int, highest: int, body: bytes, now_ms: int
    ) -> EntryId | None:
        """Store an entry and return its id; None for a duplicate. Raises the errors of
        :mod:`arneb_pulsar.wire` for bytes that are not a message, and :class:`NotAllowed` for a
        message of a transaction that has ended."""
        verify_body(body)
        metadata = parse_metadata(split_body(body)[0])
        last = max(sequence_id, highest)
        is_last_chunk = metadata.chunk_id + 1 >= metadata.num_chunks_from_msg
        if self._deduplication and sequence_id <= self._last_sequence_ids.get(producer, -1):
            return None
        transaction = None
        if metadata.HasField("txnid_least_bits"):
            transaction = TransactionId(metadata.txnid_most_bits, metadata.txnid_least_bits)
            if not self._is_open(transaction):
                raise NotAllowed(f"transaction {transaction} is over")
            self._open_transactions.setdefault(transaction, []).append(len(self.entries))
        if is_last_chunk:
            known = self._last_sequence_ids.get(producer, -1)
            self._last_sequence_ids[producer] = max(known, last)
        entry_id = (self._ledger, len(self.entries) - self._first_of_ledger)
        self.entries.append(
            Entry(
                entry_id,
                body,
                metadata.num_messages_in_batch,
                metadata.HasField("num_messages_in_batch"),
                ordering_key_of(metadata) or b"",
                now_ms,
                transaction,
            )
        )
        self._dispatch()
        return entry_id

    @property
    def end(self) -> int:
        """The index at which reading ends: the first entry of an open transaction."""
        return min(
            [each[0] for each in self._open_transactions.values()], default=len(self.entries)
        )

    @property
    def last(self) -> Entry | None:
        """The last entry that consumers may get."""
        indexes = range(self.end - 1, self.trimmed - 1, -1)
        return next((self.entries[each] for each in indexes if each not in self.aborted), None)

    def end_transaction(self, transaction: TransactionId, *, commit: bool) -> None:
        """Commit or abort the entries of a transaction."""
        indexes = self._open_transactions.pop(transaction, [])
        if not commit:
            self.aborted.update(indexes)
            for subscription in self.subscriptions.values():
                for index in indexes:
                    subscription.acknowledge(index, 0)
        self._dispatch()

    def _dispatch(self) -> None:
        for subscription in list(self.subscriptions.values()):
            subscription.dispatch()

    def new_ledger(self) -> None:
        """Put entries from now on into another ledger."""
        if len(self.entries) > self._first_of_ledger:
            self._ledger += 1
            self._first_of_ledger = len(self.entries)

    def trim(self) -> None:
        """Close the ledger, as when a broker dies, and trim the ledgers that no durable
        subscription needs; without such a subscription, all of them."""
        self.new_ledger()
        durable = [each for each in self.subscriptions.values() if each.is_durable]
        needed = min((each.mark_delete for each in durable), default=len(self.entries))
        ledgers = {self._ledger, *(each.id[0] for each in self.entries[needed:])}
        while self.trimmed < needed and self.entries[self.trimmed].id[0] not in ledgers:
            self.trimmed += 1

    def index_of(self, entry: EntryId) -> int:
        """Return the index of an entry, or of the first after it; at the end, the next index."""
        for index in range(self.trimmed, len(self.entries)):
            if self.entries[index].id >= entry:
                return index
        return len(self.entries)

    def start_index_of(self, message: MessageId) -> int:
        """Return the index at which to begin for a message id, EARLIEST and LATEST included."""
        if message.entry == EARLIEST.entry:
            return self.trimmed
        is_latest = message.entry == LATEST.entry
        return len(self.entries) if is_latest else self.index_of(message.entry)

    @property
    def before_first(self) -> EntryId:
        """The position before the first entry."""
        kept = self.entries[self.trimmed :]
        return (kept[0].id[0] if kept else self._ledger), -1

    def index_at(self, publish_time_ms: int) -> int:
        """Return the index of the first entry published at that time or later."""
        for index in range(self.trimmed, len(self.entries)):
            if self.entries[index].publish_time_ms >= publish_time_ms:
                return index
        return len(self.entries)

    # Subscriptions

    def subscribe(
        self, command: CommandSubscribe, consumer: FakeConsumer, now_ms: int
    ) -> FakeSubscription:
        """Admit a consumer. Raises :class:`ConsumerBusy`."""
        start = len(self.entries)
        if command.initialPosition == CommandSubscribe.Earliest:
            start = self.trimmed
        if command.HasField("start_message_id"):
            start = self.start_index_of(MessageId.from_wire(command.start_message_id))
        if not command.durable and (ago_s := command.start_message_rollback_duration_sec):
            start = self.index_at(now_ms - ago_s * 1_000)
        name, kind = command.subscription, command.subType
        found = self.subscriptions.get(name)
        if found is None:
            found = FakeSubscription(name, kind, self, start)
            found.is_durable = command.durable
            found.is_replicated = command.replicate_subscription_state
            self.subscriptions[name] = found
        if found.consumers and found.kind != kind:
            raise ConsumerBusy("Subscription is of different type")
        if found.consumers and kind == CommandSubscribe.Exclusive:
            raise ConsumerBusy("Exclusive consumer is already connected")
        found.kind = kind
        if not command.durable and not found.consumers:
            found.reset(start)
        found.attach(consumer)
        return found

    def leave(self, subscription: FakeSubscription, consumer: FakeConsumer) -> None:
        """Remove a consumer; a non-durable subscription goes with its last one."""
        if consumer in subscription.consumers:
            subscription.detach(consumer)
        if not subscription.is_durable and not subscription.consumers:
            self.subscriptions.pop(subscription.name, None)

    def schema_version(self, schema: Schema) -> bytes:
        """Return the version of a schema, registering it if it is new."""
        for number, each in enumerate(self.schemas):
            if each.type == schema.type and each.schema_data == schema.schema_data:
                return number.to_bytes(8, "big")
        self.schemas.append(schema)
        return (len(self.schemas) - 1).to_bytes(8, "big")

    def unload(self) -> None:
        """Make all producers and consumers look the topic up again."""
        self.moves += 1
        self.new_ledger()
        producers, self.producers = self.producers, []
        for producer in producers:
            producer.ended()
        for subscription in list(self.subscriptions.values()):
            subscription.end_all()
            if not subscription.is_durable:
                del self.subscriptions[subscription.name]
