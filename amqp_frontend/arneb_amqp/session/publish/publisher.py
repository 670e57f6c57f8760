"""Publishing: from ``basic.publish`` to appends, returns and confirms, on one channel.

The rule: a run of publishes is handled as a run. The only work per message is one concatenation;
the route, the header, the append and the confirm are dealt with once a run, and consecutive runs to
the same queues are merged into one append.
"""

from dataclasses import replace
from itertools import repeat
from operator import add

from arneb_amqp.errors import AmqpError, not_implemented
from arneb_amqp.routing.consistent_hash import seen_by_exchanges
from arneb_amqp.routing.exchange import DEFAULT_EXCHANGE
from arneb_amqp.routing.reply_to import ReplyTo
from arneb_amqp.routing.router import RouteResult
from arneb_amqp.routing.routes import CachedRoute
from arneb_amqp.routing.search import StillSearching
from arneb_amqp.session.context import ChannelContext, Pause, VhostContext
from arneb_amqp.session.effects import Refused
from arneb_amqp.session.publish.confirms import Confirms
from arneb_amqp.session.publish.delay_forms import DelayForms
from arneb_amqp.session.publish.delaying import delayed_entry
from arneb_amqp.session.publish.findings import NOTHING, look
from arneb_amqp.session.publish.pieces import (
    head_of,
    is_returned,
    needs_inspection,
    pieces,
    single,
    singles,
)
from arneb_amqp.session.publish.publish_cost import (
    NAMED_WORK,
    ROUTE_WORK,
    SINGLE_WORK,
    copy_work,
)
from arneb_amqp.session.publish.returns import Returns
from arneb_amqp.session.publish.route_search import RouteSearch
from arneb_amqp.session.rights import RightUndecided
from arneb_amqp.session.transaction import Transaction
from arneb_amqp.traffic import ExchangeTraffic
from arneb_amqp.wire.constants import BASIC_PUBLISH, ChannelId, DeliveryTag
from arneb_amqp.wire.content import properties_of, with_properties
from arneb_amqp.wire.items import Publish, PublishRun, VariedRun
from arneb_amqp.wire.methods import encode_ack, encode_nack
from arneb_amqp.wire.properties import Properties, decode_properties
from arneb_amqp.wire.route import split_route


class Publisher:
    """The publishing half of a channel.

    ``confirms`` is set in confirm mode, ``transaction`` in transactional mode, never both.
    Invariants: ``_entries`` is the run being collected, all for ``_queues``, in order, or
    ``_delayed`` is, all for the exchanges ``_delayed_by``; ``_findings`` are those of the property
    list ``_looked_at``, which most messages repeat.
    """

    __slots__ = (
        "_channel", "_closed", "_context", "_delayed", "_delayed_by", "_entries", "_expiring",
        "_findings", "_forms", "_looked_at", "_queues", "_reply_to", "_search", "_traffic",
        "_vhost", "confirms", "dropped", "published", "returns", "transaction",
    )  # fmt: skip

    def __init__(
        self, context: ChannelContext, vhost: VhostContext, channel: ChannelId, reply_to: ReplyTo
    ) -> None:
        self._context = context
        self._vhost = vhost
        self._reply_to = reply_to
        self._channel = channel
        self._queues: tuple[str, ...] = ()
        self._entries: list[bytes] = []
        self._delayed_by: tuple[str, ...] = ()
        self._delayed: list[bytes] = []
        self._expiring = self._closed = False
        self._looked_at = b""
        self._findings = NOTHING
        self._forms = DelayForms()
        self._search = RouteSearch(context, vhost)
        self._traffic = vhost.router.traffic
        self.published = self.dropped = 0
        self.returns = Returns(context, vhost, channel)
        self.confirms: Confirms | None = None
        self.transaction: Transaction | None = None

    def __repr__(self) -> str:
        return f"<Publisher of channel {self._channel}, {len(self._entries)} entries collected>"

    def publish_run(self, run: PublishRun | VariedRun) -> None:
        """Publish messages that differ only in content, or in their routes as well."""
        if isinstance(run, VariedRun):
            self._publish_varied(run)
            return
        route = self._permitted(run.route)
        queues = self._queues_of(route)
        if needs_inspection(run, route, queues, in_transaction=self.transaction is not None):
            self._publish_each(run)
            return
        if route.depends_on_headers:
            self._publish_by_headers(route, run)
            return
        count = self._for_now(len(run.bodies), queues)
        self._count(route.traffic, count, queues)
        if not queues:
            self._drop(count)
        head = head_of(run, route, self._context.now_ms)
        entries = list(map(add, repeat(head), run.bodies[:count]))
        self._put(queues, entries, expiring=run.expiration_ms is not None)
        if count < len(run.bodies):
            raise Pause(replace(run, bodies=run.bodies[count:]))

    def publish(self, item: Publish) -> None:
        """Publish one message that must be inspected. Raises RabbitMQ's errors."""
        if item.immediate:
            raise not_implemented("immediate=true", BASIC_PUBLISH)
        route = self._permitted(item.route)
        if item.properties != self._looked_at:
            self._findings = look(item.properties, self._context.rights, self._reply_to)
            # The name that replaces the pseudo-queue may change from one message to the next.
            self._looked_at = b"" if self._findings.is_fleeting else item.properties
        found = self._findings
        body = item.body
        if found.replacement is not None:
            body = with_properties(body, found.replacement)
        queues = self._queues_of(route)
        is_delayed = False
        if found.copies or route.depends_on_headers:
            properties = decode_properties(item.properties)
            headers = seen_by_exchanges(properties)
            result = self._search.result(route, headers, found.copies, len(item.properties))
            queues = result.queues
            if result.delayed_by:
                is_delayed = True
                entry = delayed_entry(
                    route, properties, item.body, self._reply_to, self._context.now_ms,
                    persistent=item.persistent, priority=found.priority,
                )  # fmt: skip
                self._put_delayed(result.delayed_by, [entry], alone=bool(queues))
        self._count(route.traffic, 1, queues)
        goes_back = item.mandatory and is_returned(queues)
        if goes_back:
            self.returns.give_back(item.route, body, self.transaction)
        if is_delayed and not queues:
            return
        if not queues and not item.mandatory:
            self._drop(1)
        self._for_now(1, queues)
        if queues or not item.mandatory:
            now_ms, expires_at_ms = self._context.now_ms, 0
            if found.expiration_ms is not None:
                expires_at_ms = now_ms + found.expiration_ms
            head = route.head(
                now_ms,
                persistent=item.persistent,
                expires_at_ms=expires_at_ms,
                priority=found.priority,
            )
            entry = head + body
            self._put(queues, [entry], expiring=expires_at_ms > 0, joins=is_delayed)
            if item.mandatory and not goes_back and self.transaction is not None:
                self.transaction.require(queues, entry)
        else:
            entry = b""  # only counted, unless it is traced
            if self._vhost.is_traced:
                entry = route.head(self._context.now_ms, persistent=item.persistent) + body
            self._put((), [entry])

    def end_run(self) -> None:
        """Order the append of the collected run."""
        entries, kept = self._entries, self._delayed
        if not entries and not kept:
            return
        # A message that is both delayed and delivered is the only one of its run.
        count = len(entries) or len(kept)
        last_tag = 0
        if self.confirms is not None:
            last_tag = self.confirms.expect(count)
            self._traffic.to_confirm += count
        if kept:
            self._context.effects.append(
                self._queues if entries else (), entries, self, last_tag,
                expiring=self._expiring, delayed_by=self._delayed_by, delayed=kept,
            )  # fmt: skip
            self._delayed = []
        else:
            self._context.effects.append(
                self._queues, entries, self, last_tag, expiring=self._expiring
            )
        self._entries = []
        self._expiring = False

    def close(self) -> None:
        """End publishing. What was published counts; the confirms that are due are sent, and none
        after that."""
        self.end_run()
        self.send_confirms()
        self._closed = True
        if self.transaction is not None:
            self.transaction.end()
            self.transaction = None

    def committed(self, last_tag: int, error: AmqpError | None, *, refused: Refused) -> None:
        """Handle the append of the run that ends with ``last_tag``: on disk, or never will be."""
        if self._closed:
            return
        if self.confirms is not None and last_tag and not (error and error.leaves_doubt):
            if error is None and isinstance(refused, tuple):
                self.confirms.complete_each(last_tag, refused)
            else:
                self.confirms.complete(last_tag, stored=error is None and not refused)
            self._context.confirming(self)
        elif error is not None:
            # There is no other way to tell that messages were lost, or that only another node
            # knows.
            self._context.failed(self._channel, error.caused_by(BASIC_PUBLISH))

    def send_confirms(self) -> None:
        """Queue the confirms that are due."""
        if self.confirms is None or self._closed:
            return
        confirmed = self.confirms.confirmed
        for confirm in self.confirms.due():
            encode = encode_ack if confirm.stored else encode_nack
            tag = DeliveryTag(confirm.tag)
            self._context.output.send_chunks((encode(self._channel, tag, confirm.multiple),))
        self._traffic.confirmed += self.confirms.confirmed - confirmed

    def _publish_varied(self, run: VariedRun) -> None:
        context, done = self._context, 0
        try:
            for piece in (
                singles(run)
                if run.mandatory and self.transaction is not None
                else pieces(run, self._vhost.routes.known(), context.now_ms, context.rights)
            ):
                if isinstance(piece, PublishRun):
                    self.publish_run(piece)
                    done += 1
                    # Its route was probably searched for: many such messages take many turns.
                    context.work_left -= ROUTE_WORK
                    if context.work_left <= 0 and done < len(run.bodies):
                        raise Pause(run)
                    continue
                entries = piece.entries
                done += (count := self._for_now(len(entries), piece.queues))
                self._count(piece.traffic, count, piece.queues)
                self._put(piece.queues, entries[:count], expiring=run.expiration_ms is not None)
                if count < len(entries):
                    raise Pause(run)
        except Pause as pause:
            del run.routes[:done], run.bodies[:done]
            raise Pause(run, pause.search) from None
        except (StillSearching, RightUndecided):
            del run.routes[:done], run.bodies[:done]
            raise

    def _publish_each(self, run: PublishRun) -> None:
        """Publish mandatory messages one by one: each may be returned."""
        for at, body in enumerate(run.bodies):
            if at and self._context.work_left <= 0:
                raise Pause(replace(run, bodies=run.bodies[at:]))
            self._context.work_left -= SINGLE_WORK
            try:
                self.publish(single(run, body))
            except StillSearching as still:
                raise Pause(replace(run, bodies=run.bodies[at:]), still.search) from None

    def _put(
        self,
        queues: tuple[str, ...],
        entries: list[bytes],
        *,
        expiring: bool = False,
        joins: bool = False,
    ) -> None:
        """``joins``: this is the message just delayed, which other queues get now."""
        if self.transaction is not None:
            self.transaction.publish(queues, entries)
        elif joins:
            self._queues, self._entries, self._expiring = queues, entries, expiring
            self.end_run()
        elif queues and queues == self._queues and self._entries:
            self._entries += entries
            self._expiring = self._expiring or expiring
        elif queues:
            # Confirm tags follow publishing order, so the previous run ends here.
            self.end_run()
            self._queues, self._entries = queues, entries
            self._context.effects.collecting(self)
            self._expiring = expiring
        elif self._vhost.is_traced and entries[0]:
            self.end_run()
            self._queues, self._entries = (), entries
            self.end_run()
        elif self.confirms is not None:
            self.end_run()
            self._traffic.to_confirm += len(entries)
            self.confirms.complete(self.confirms.expect(len(entries)), stored=True)
            self._context.confirming(self)

    def _for_now(self, count: int, queues: tuple[str, ...]) -> int:
        """Return how many of ``count`` messages this turn may publish, at least one, and charge
        their work to it: each may become a dead letter at once, or be copied."""
        work = copy_work(self._vhost, queues)
        if self.transaction is not None or not work:
            return count
        most = min(count, max(1, self._context.work_left // work))
        self._context.work_left -= work * most
        return most

    def _put_delayed(
        self, exchanges: tuple[str, ...], entries: list[bytes], *, alone: bool
    ) -> None:
        """Collect messages that ``exchanges`` delay."""
        if self.transaction is not None:
            for entry in entries:
                self.transaction.delay(exchanges, entry)
        elif self._delayed and exchanges == self._delayed_by and not alone:
            self._delayed += entries
        else:
            self.end_run()
            self._delayed_by, self._delayed = exchanges, entries
            self._context.effects.collecting(self)

    def _permitted(self, raw: bytes) -> CachedRoute:
        """Return the route for these octets. Raises 403 and 404: a missing right is reported before
        a missing exchange."""
        rights = self._context.rights
        try:
            route = self._vhost.routes.find(raw)
        except AmqpError:
            rights.require_publish(split_route(raw), self._vhost)
            raise
        if route.exchange not in rights.writable and route.raw not in rights.keyed:
            rights.require_publish(route, self._vhost)
        return route

    def _queues_of(self, route: CachedRoute) -> tuple[str, ...]:
        if route.queues or route.exchange != DEFAULT_EXCHANGE:
            return route.queues
        return (route.routing_key,) if self._vhost.foreign_topic(route.routing_key) else ()

    def _publish_by_headers(self, route: CachedRoute, run: PublishRun) -> None:
        head = route.head(self._context.now_ms, persistent=run.persistent)
        bodies, at = run.bodies, 0
        known, by_headers = b"", self._vhost.routes.by_headers
        properties, result = Properties(), RouteResult(())
        while at < len(bodies):
            if (work_left := self._context.work_left) <= 0:
                raise Pause(replace(run, bodies=bodies[at:]))
            if entries := self._forms.entries(route, bodies, at, at + work_left, head):
                self._count(route.traffic, len(entries), ())
                self._put_delayed(self._forms.exchanges, entries, alone=False)
                at += len(entries)
                self._context.work_left -= len(entries)
                continue
            body = bodies[at]
            if (raw := properties_of(body)) == known:  # it goes where the previous one went
                self._context.work_left -= 1 + len(result.queues)
            elif found := by_headers.find(route.raw, raw):
                self._context.work_left -= NAMED_WORK + len(found.queues)
                result, known = found, raw
            else:
                properties = decode_properties(raw)
                try:
                    result = self._search.result(route, seen_by_exchanges(properties), (), len(raw))
                except StillSearching as still:
                    raise Pause(replace(run, bodies=bodies[at:]), still.search) from None
                known = raw
                by_headers.learn(route.raw, raw, result)
            at += 1
            self._count(route.traffic, 1, result.queues)
            if not result.queues and not result.delayed_by:
                self._drop(1)
            if result.delayed_by:
                entry = delayed_entry(
                    route, properties, body, self._reply_to, self._context.now_ms,
                    persistent=run.persistent, priority=0,
                )  # fmt: skip
                self._put_delayed(result.delayed_by, [entry], alone=bool(result.queues))
                self._forms.learn(route, result, properties, body)
            if result.queues or not result.delayed_by:
                self._for_now(1, result.queues)
                self._put(result.queues, [head + body], joins=bool(result.delayed_by))

    def _count(self, traffic: ExchangeTraffic, count: int, queues: tuple[str, ...]) -> None:
        """Count ``count`` messages, each published to ``queues``."""
        self.published += count
        traffic.published_in += count
        traffic.published_out += count * len(queues)

    def _drop(self, count: int) -> None:
        """Count messages that went to no queue and need no return."""
        self.dropped += count
        self._traffic.dropped += count
