"""Pieces of a run of varied routes: neighbouring messages that go to the same queues.

The rule: a message whose route is cached, leads to queues and is permitted costs a lookup and a
concatenation, and no call. Any other is a piece of its own, published like a single message. This
is on the hot path: applications give their messages different routing keys, and then there are no
runs on one route.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from arneb_amqp.routing.routes import CachedRoute
from arneb_amqp.session.rights import Rights
from arneb_amqp.traffic import ExchangeTraffic
from arneb_amqp.wire.items import PublishRun, VariedRun


@dataclass(slots=True)
class Piece:
    """Entries published to one exchange and bound for the same queues. Not frozen, because a piece
    may be hardly more than one message."""

    traffic: ExchangeTraffic
    queues: tuple[str, ...]
    entries: list[bytes]


def pieces(
    run: VariedRun, routes: Mapping[bytes, CachedRoute], start: bytes, rights: Rights
) -> Iterator[Piece | PublishRun]:
    """Yield the pieces of ``run`` in order. ``start`` is what each entry starts with
    (:func:`~arneb_amqp.routing.routes.entry_start`)."""
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
            if route is None or route.depends_on_headers or not route.queues:
                yield PublishRun(run.channel, raw, run.persistent, [body])
                continue
            traffic, queues = route.traffic, route.queues
            may_write = route.exchange in writable
        if not may_write and route.raw not in keyed:
            if piece is not None:
                yield piece
                piece = None
            yield PublishRun(run.channel, raw, run.persistent, [body])
            may_write = route.exchange in writable  # the publisher may have checked it
            continue
        if piece is None:
            entries = []
            piece = Piece(route.traffic, queues, entries)
        entries.append(start + route.rest + body)
    if piece is not None:
        yield piece
