"""Pieces of a run whose messages go different ways: those next to each other that go the same way.

The rule: a message whose way is known, leads to queues and is open to its publisher costs a
lookup and a concatenation, and no call. Any other is a piece of its own, to be published like one
that came alone. Part of the hot path: an application's messages have routing keys of their own,
and then there are no runs by one route.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from arneb_amqp.routing.routes import CachedRoute
from arneb_amqp.session.rights import Rights
from arneb_amqp.traffic import ExchangeTraffic
from arneb_amqp.wire.items import PublishRun, VariedRun


@dataclass(slots=True)
class Piece:
    """Entries that were published to one exchange and go to the same queues. Not frozen, since
    one is made for hardly more than a message at times."""

    traffic: ExchangeTraffic
    queues: tuple[str, ...]
    entries: list[bytes]


def pieces(
    run: VariedRun, routes: Mapping[bytes, CachedRoute], start: bytes, rights: Rights
) -> Iterator[Piece | PublishRun]:
    """``run`` in its order. ``start`` is what each entry starts with
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
            may_write = route.exchange in writable  # which the publisher may have found out
            continue
        if piece is None:
            entries = []
            piece = Piece(route.traffic, queues, entries)
        entries.append(start + route.rest + body)
    if piece is not None:
        yield piece
