"""Admission: publishes to queues that refuse what is too much.

The rule: a message is asked for alone, so that its publisher gets an answer of its own; what other
queues take of it they keep, whatever the full one says, as in RabbitMQ.
"""

from arneb_amqp.server.core_errors import in_amqp
from arneb_amqp.server.receiver import Receiver
from arneb_amqp.session.effects import Append
from arneb_amqp.topology.keeping import Keeping, payload_bytes
from arneb_amqp.topology.queues import Queues
from arneb_core.errors import CommitFailed
from arneb_core.interface import Core, Unit


def admit(effect: Append, core: Core, queues: Queues, receiver: Receiver) -> None:
    """Append the one message of ``effect`` where there is room for it."""
    (entry,) = effect.entries
    unit = Unit()
    refused = False
    entered: list[Keeping] = []
    size = payload_bytes(entry)
    for name in effect.queues:
        topic = queues.topic(name)
        queue = queues.refusing.get(name)
        if topic is None:
            continue
        if queue is None or queue.keeping is None:
            unit.appends.append((topic, [entry]))
        elif queue.keeping.takes(queue, size):
            # What is kept in memory only is in the queue, and counted there, at once.
            if topic.durable and queue.keeping.outlives(queue, entry):
                queue.keeping.let_in(size)
                entered.append(queue.keeping)
            unit.appends.append((topic, [entry]))
        else:
            refused = True
            unit.appends += queue.keeping.dead_letters(entry).items()

    def done(error: CommitFailed | None) -> None:
        for keeping in entered:
            keeping.arrived()
        failure = None if error is None else in_amqp(error)
        receiver.committed(effect.token, failure, refused=refused)

    if effect.expiring:
        for topic, _ in unit.appends:
            core.expect_expiry(topic)
    core.commit(unit, done)
