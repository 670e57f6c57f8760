"""Pieces of a run of varied routes: neighbouring messages that go to the same queues.

The rule: a message whose route is cached, leads to queues and is permitted costs a lookup and a
concatenation, and no call. Any other is a piece of its own, published like a single message. This
is on the hot path: applications give their messages different routing keys, and then there are no
runs on one route.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from arneb_amqp.routing.reply_to import is_reply_queue
from arneb_amqp.routing.routes import TIMES, CachedRoute, entry_start
from arneb_amqp.session.rights import Rights
from arneb_amqp.traffic import ExchangeTraffic
from arneb_amqp.wire.content import properties_of
from arneb_amqp.wire.items import Publish, PublishRun, VariedRun


@dataclass(slots=True)
class Piece:
    """Entries published to one exchange and bound for the same queues. Not frozen, because a piece
    may be hardly more than one message."""

    traffic: ExchangeTraffic
    queues: tuple[str, ...]
    entries: list[bytes]


def is_returned(queues: Sequence[str]) -> bool:
    """Whether a mandatory message that goes to ``queues`` is returned: RabbitMQ returns those to
    reply queues and delayed ones as unroutable, although it delivers or stores them."""
    return all(map(is_reply_queue, queues))


def needs_inspection(
    run: PublishRun, route: CachedRoute, queues: Sequence[str], *, in_transaction: bool
) -> bool:
    """Whether each message of ``run``, which goes to ``queues``, must be inspected by itself."""
    if run.mandatory and (in_transaction or is_returned(queues)):
        return True
    return route.depends_on_headers and (
        run.mandatory or run.priority > 0 or run.expiration_ms is not None
    )


def head_of(run: PublishRun, route: CachedRoute, now_ms: int) -> bytes:
    """Return what each entry of ``run``, published now, begins with."""
    return route.head(
        now_ms,
        persistent=run.persistent,
        expires_at_ms=_expires_at_ms(run, now_ms),
        priority=run.priority,
    )


def pieces(
    run: VariedRun, routes: Mapping[bytes, CachedRoute], now_ms: int, rights: Rights
) -> Iterator[Piece | PublishRun]:
    """Yield the pieces of ``run``, published now, in order."""
    expires = _expires_at_ms(run, now_ms)
    start = entry_start(
        now_ms, persistent=run.persistent, priority=run.priority, expires_at_ms=expires
    )
    rest_from = TIMES.size if expires else 0
    writable, keyed = rights.writable, rights.keyed
    piece: Piece | None = None
    traffic: ExchangeTraffic | None = None
    queues: tuple[str, ...] = ()
    may_write = False
    entries: list[bytes] = []
    for raw, body in zip(run.routes, run.bodies, strict=True):
        route = routes.get(raw)
        if route is None or route.traffic is not traffic or route.queues != queues:
            if piece is not None:
                yield piece
            piece = traffic = None
            if (
                route is None
                or route.depends_on_headers
                or not route.queues
                or (run.mandatory and is_returned(route.queues))
            ):
                yield alone(run, raw, body)
                continue
            traffic, queues = route.traffic, route.queues
            may_write = route.exchange in writable
        if not may_write and route.raw not in keyed:
            if piece is not None:
                yield piece
                piece = None
            yield alone(run, raw, body)
            may_write = route.exchange in writable  # the publisher may have checked it
            continue
        if piece is None:
            entries = []
            piece = Piece(route.traffic, queues, entries)
        rest = route.rest[rest_from:] if rest_from else route.rest
        entries.append(start + rest + body)
    if piece is not None:
        yield piece


def single(run: PublishRun, body: bytes) -> Publish:
    """Return one message of ``run``, to be inspected."""
    properties = properties_of(body)
    return Publish(run.channel, run.route, run.persistent, run.mandatory, False, properties, body)


def singles(run: VariedRun) -> Iterator[PublishRun]:
    """Yield each message of ``run`` as a run of its own."""
    for route, body in zip(run.routes, run.bodies, strict=True):
        yield alone(run, route, body)


def alone(run: VariedRun, route: bytes, body: bytes) -> PublishRun:
    """Return one message of ``run`` as a run of its own."""
    return PublishRun(
        run.channel, route, run.persistent, run.mandatory, [body], run.priority, run.expiration_ms
    )


def _expires_at_ms(run: PublishRun | VariedRun, now_ms: int) -> int:
    """Return when the messages of ``run``, published now, expire; 0: never."""
    return 0 if run.expiration_ms is None else now_ms + run.expiration_ms
