"""Publishes: one connection's messages on their way to queues, in runs and transactions.

The rule: effects name queues, and only here are their topics looked up. A queue deleted meanwhile
is skipped. A queue that refuses overflow decides on each message of a run, and the publisher gets
an answer for each; other queues keep what they have taken, as in RabbitMQ.
"""

from collections.abc import Iterable, Sequence
from operator import and_

import trio

from arneb_amqp.server.context import ConnectionContext
from arneb_amqp.server.operations.core_errors import in_amqp
from arneb_amqp.server.operations.stamping import PIECE_ENTRIES, TRACED_PIECE_ENTRIES, pieces, stamp
from arneb_amqp.session.deliveries import AnsweredDeliveries
from arneb_amqp.session.effects import Append, Commit, Refused, Token
from arneb_amqp.topology.overflow import Admission
from arneb_amqp.topology.queues.queues import Queues
from arneb_core.api.core import Unit
from arneb_core.api.errors import CommitFailed
from arneb_core.api.process.callbacks import Done
from arneb_core.api.process.waiting import durable
from arneb_core.api.subscriptions.consumer import Consumer
from arneb_core.api.topics.topic import Topic


class Publishes:
    """Passes what one connection publishes to the core."""

    def __init__(self, context: ConnectionContext) -> None:
        self._context = context
        self._core = context.core

    def __repr__(self) -> str:
        return f"<Publishes of {self._context!r}>"

    def append(self, effect: Append) -> None:
        """Pass a run to the core."""
        token, vhost = effect.token, self._context.vhost
        if vhost.tracing is not None:
            entries = effect.delayed or effect.entries
            vhost.tracing.published(self._context.tapped, entries, effect.queues)
        if effect.delayed_by:
            self._delay(effect)
            return
        if vhost.refuses(effect.queues):
            self._append_admitted(effect)
            return
        queues = vhost.queues
        if len(effect.queues) == 1 and not effect.expiring:  # the usual case
            (name,) = effect.queues
            if (topic := queues.topic(name)) is not None:
                self._append(topic, effect)
                return
        topics = [queues.topic(name) for name in effect.queues]
        present = [topic for topic in topics if topic is not None]
        if effect.expiring:
            queues.expect_expiry(effect.queues)
        if len(present) < len(topics) and any(map(queues.lost, effect.queues)):
            self._context.core_events.committed(token, None, refused=True)
        elif not present:
            self._context.core_events.committed(token, None)
        elif len(present) == 1:
            self._append(present[0], effect)
        else:
            appends = [(topic, effect.entries) for topic in present]
            unit = Unit(appends, passes_over_gone=True, has_batches=False)
            self._core.commit(unit, lambda error: self._done(token, error))

    def _append(self, topic: Topic, effect: Append) -> None:
        entries, token = effect.entries, effect.token
        # One entry is one message here; saying so spares the core inspecting each.
        self._core.append(
            topic,
            entries,
            lambda error, _: self._done(token, error),
            len(entries),
            passes_over_gone=True,
        )

    async def commit(
        self, request: Commit, acks: Sequence[tuple[Consumer, AnsweredDeliveries]]
    ) -> bool:
        """Commit a transaction including ``acks``; return whether every queue took its messages,
        for a refusing queue may have been full."""
        vhost = self._context.vhost
        for names in await stamp(request):
            vhost.queues.expect_expiry(names)
        admission = Admission()
        try:
            admitted = await self._admit_all(request, admission)
            for _ in admission.closing():
                await trio.lowlevel.checkpoint()
            unit = Unit(list(admission.appends.items()), passes_over_gone=True, has_batches=False)
            for consumer, answered in acks:
                unit.acks.append((consumer, answered.positions))
                unit.parts.append((consumer, answered.masks))

            def begin(done: Done) -> None:
                def ended(error: CommitFailed | None) -> None:
                    if error is None:
                        self._context.core_events.answer_follows()
                    done(error)

                if self._core.commit(unit, ended):
                    admission.over()

            await durable(begin)
        finally:
            admission.over()
        return admitted

    async def _admit_all(self, request: Commit, admission: Admission) -> bool:
        """Admit the messages of ``request`` where there is room; return whether there was room
        everywhere."""
        vhost, admitted = self._context.vhost, True
        most = PIECE_ENTRIES if vhost.tracing is None else TRACED_PIECE_ENTRIES
        for run in pieces(request.appends, most):
            if run is None:
                await trio.lowlevel.checkpoint()
                continue
            queues, entries = run
            if vhost.tracing is not None:
                vhost.tracing.published(self._context.tapped, entries, queues)
            admitted &= all(_admit(queues, entries, vhost.queues, admission))
        for run in pieces(request.delayed):
            if run is None:
                await trio.lowlevel.checkpoint()
                continue
            exchanges, entries = run
            for topic in map(vhost.delayed_exchanges.topic, exchanges):
                if topic is not None:
                    admission.put_all(topic, entries)
        return admitted

    def _append_admitted(self, effect: Append) -> None:
        """Append the messages of ``effect`` where there is room for them."""
        queues, admission = self._context.vhost.queues, Admission()
        admitted = _admit(effect.queues, effect.entries, queues, admission)
        refused: Refused = not admitted[0]
        if len(set(admitted)) > 1:
            refused = tuple(not each for each in admitted)
        appends = admission.close()
        if effect.expiring:
            for topic in appends:
                self._core.expect_expiry(topic)
        unit = Unit(list(appends.items()), passes_over_gone=True, has_batches=False)
        self._commit_admitted(effect.token, unit, admission, refused=refused)

    def _delay(self, effect: Append) -> None:
        """Pass delayed messages to the core, and what other queues get of them at once."""
        vhost, admission = self._context.vhost, Admission()
        refused = not all(_admit(effect.queues, effect.entries, vhost.queues, admission))
        unit = Unit(list(admission.close().items()), passes_over_gone=True, has_batches=False)
        if effect.expiring:
            vhost.queues.expect_expiry(effect.queues)
        for exchange in effect.delayed_by:
            if (topic := vhost.delayed_exchanges.topic(exchange)) is not None:
                unit.appends.append((topic, effect.delayed))
        self._commit_admitted(effect.token, unit, admission, refused=refused)

    def _commit_admitted(
        self, token: Token, unit: Unit, admission: Admission, *, refused: Refused
    ) -> None:
        def done(error: CommitFailed | None) -> None:
            admission.over()
            failure = None if error is None else in_amqp(error)
            self._context.core_events.committed(token, failure, refused=refused)

        if self._core.commit(unit, done):
            admission.over()

    def _done(self, token: Token, error: CommitFailed | None) -> None:
        self._context.core_events.committed(token, None if error is None else in_amqp(error))


def _admit(
    names: Iterable[str], entries: Sequence[bytes], queues: Queues, admission: Admission
) -> list[bool]:
    """Admit ``entries`` to these queues where there is room; return for each entry whether there
    was. A deleted queue has room for everything, unless another frontend deleted its topic."""
    admitted = [True] * len(entries)
    for name in names:
        overflow = queues.refusing.get(name)
        if overflow is not None:
            admitted = list(map(and_, admitted, admission.offer_all(overflow, entries)))
        elif (topic := queues.topic(name)) is not None:
            admission.appends.setdefault(topic, []).extend(entries)
        elif queues.lost(name):
            admitted = [False] * len(entries)
    return admitted
