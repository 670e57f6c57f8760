"""Admission: publishes and transactions for queues that refuse what is too much.

The rule: a message is asked for alone, so that its publisher gets an answer of its own; what other
queues take of it they keep, whatever the full one says, as in RabbitMQ.
"""

from collections.abc import Iterable, Sequence

from arneb_amqp.server.core_errors import in_amqp
from arneb_amqp.server.receiver import Receiver
from arneb_amqp.session.effects import Append
from arneb_amqp.topology.overflow import Admission
from arneb_amqp.topology.queues.queues import Queues
from arneb_core.api.core import Core, Unit
from arneb_core.api.errors import CommitFailed


def admit(effect: Append, core: Core, queues: Queues, receiver: Receiver) -> None:
    """Append the one message of ``effect`` where there is room for it."""
    (entry,) = effect.entries
    admission = Admission()
    refused = not pass_on(effect.queues, [entry], queues, admission)
    appends = admission.close()

    def done(error: CommitFailed | None) -> None:
        admission.over()
        failure = None if error is None else in_amqp(error)
        receiver.committed(effect.token, failure, refused=refused)

    if effect.expiring:
        for topic in appends:
            core.expect_expiry(topic)
    unit = Unit(list(appends.items()), passes_over_gone=True, has_batches=False)
    if core.commit(unit, done):
        admission.over()


def pass_on(
    names: Iterable[str], entries: Sequence[bytes], queues: Queues, admission: Admission
) -> bool:
    """Let ``entries`` into the queues of these names, where there is room: whether there was. A
    queue that was deleted has room for everything, unless it lost its topic by another door."""
    taken = True
    for name in names:
        refusing = queues.refusing.get(name)
        if refusing is not None:
            for entry in entries:
                taken &= admission.offer(refusing, entry)
        elif (topic := queues.topic(name)) is not None:
            admission.appends.setdefault(topic, []).extend(entries)
        else:
            taken &= not queues.lost(name)
    return taken
