"""Recovered transactions: those that were open when the broker ended.

The rule: the log of open transactions is read before anybody consumes. What was acknowledged in one
is withheld again, so nobody gets it; records of one whose outcome is known are passed over.
"""

from arneb_core.api.core import Core
from arneb_core.api.topics.topic import Topic
from arneb_pulsar.services.transactions.held_records import HeldRecords
from arneb_pulsar.services.transactions.open_transaction import Acks, HeldBytes, OpenTransaction
from arneb_pulsar.transactions.outcomes import Outcomes
from arneb_pulsar.transactions.records import Acked, Opened, Sent, unpack
from arneb_pulsar.transactions.states import COORDINATOR, TransactionId


async def recovered(
    core: Core, held: HeldRecords, outcomes: Outcomes, memory: HeldBytes
) -> dict[int, OpenTransaction]:
    """Return the open transactions by their numbers. Raises :class:`.CoreError`."""
    topics = {each.id: each for each in core.topics.values() if each.durable}
    found: dict[int, OpenTransaction] = {}
    async for position, entry in held.unended():
        number, record = unpack(entry)
        transaction = found.get(number)
        if isinstance(record, Opened) and transaction is not None:
            transaction.records.add(position)  # two commits brought its opening along
        elif isinstance(record, Opened) and outcomes.find(number) is None:
            known = OpenTransaction(TransactionId(COORDINATOR, number), record, memory)
            transaction = found[number] = known
            transaction.records.add(position)
        elif transaction is None:
            held.ended([position])
        elif isinstance(record, Sent):
            if (topic := topics.get(record.topic)) is not None:
                transaction.sent_bytes += len(record.entry)
                transaction.sent(topic, position, [record.entry])
                transaction.partitions.add(topic.name)
            else:
                transaction.records.add(position)
        elif isinstance(record, Acked):
            transaction.records.add(position)
            _withhold_again(transaction, record, topics.get(record.topic))
    await held.acknowledge_ended()
    return found


def _withhold_again(transaction: OpenTransaction, record: Acked, topic: Topic | None) -> None:
    found = None if topic is None else topic.subscriptions.get(record.subscription)
    if topic is None or found is None or found.id != record.subscription_id:
        return
    holder = found.withhold(record.whole, record.parts, again=True)
    acks = transaction.acks.setdefault(holder, Acks(topic, found, holder))
    acks.add(record.whole, record.parts)
    acks.is_cumulative |= record.is_cumulative
    transaction.count_acks(record.whole, record.parts)
    transaction.subscriptions.add((topic.name, found.name))
