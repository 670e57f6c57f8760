"""Moving single messages: deletes, copies and moves them, or sends dead letters back.

The rule: a message moves from one log to another in one commit, so it is never in both or in
neither. Messages acknowledged in the meantime are left alone, and counted in the answer.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import trio

from arneb.http.management.page.log_lookup import (
    FoundLog,
    expect_publishable,
    expect_readable,
    log_in,
    position_in,
)
from arneb.http.management.requests.calls import Body, Call, Document, Reply, bad_request
from arneb.http.management.requests.rules import VHOST
from arneb.http.management.router import Route
from arneb.http.management.site import Site
from arneb_amqp.routing.death import FIRST_DEATH_QUEUE, without_deaths
from arneb_amqp.topology.overflow import Admission
from arneb_amqp.wire.content import properties_of, with_properties
from arneb_amqp.wire.properties import decode_properties, encode_properties
from arneb_amqp.wire.tables import Field
from arneb_core.api.core import Unit
from arneb_core.api.entries.entry import (
    FLAGS_OFFSET,
    HEADER_BYTES,
    TIMES,
    TIMES_OFFSET,
    EntryFlag,
    Origin,
    read_header,
)
from arneb_core.api.entries.position import Position
from arneb_core.api.errors import AlreadyAcknowledged
from arneb_core.api.topics.topic import Topic

MOVED_MAX: Final = 500
"""Entries in one call, which is one commit."""

ENTRY_BYTES_MAX: Final = 64 * 1024 * 1024
"""All entries of a call together; they are in memory meanwhile."""


async def _move(site: Site, call: Call) -> Reply:
    return await _put_elsewhere(site, call, acknowledged=True)


async def _copy(site: Site, call: Call) -> Reply:
    return await _put_elsewhere(site, call, acknowledged=False)


async def _put_elsewhere(site: Site, call: Call, *, acknowledged: bool) -> Reply:
    log, body = log_in(site, call), call.document()
    target = log_in(site, call, body.text("to"))
    await expect_readable(call, log)
    await expect_publishable(call)
    positions = positions_in(body)
    entries = await entries_in(log.row.topic, positions)
    return await _done(site, log, {target.row.name: target}, [
        (at, target.row.name, plain(entry)) for at, entry in entries.items()
    ], acknowledged=acknowledged, asked=len(positions))  # fmt: skip


async def _delete(site: Site, call: Call) -> Reply:
    log = log_in(site, call)
    await expect_readable(call, log)
    positions = positions_in(call.document())
    there = await entries_in(log.row.topic, positions)
    moves = [(at, "", b"") for at in there]
    return await _done(site, log, {}, moves, acknowledged=True, asked=len(positions))


async def _send_back(site: Site, call: Call) -> Reply:
    """Send each message back to the queue in which it first died, as it was before."""
    log = log_in(site, call)
    await expect_readable(call, log)
    await expect_publishable(call)
    positions = positions_in(call.document())
    moves: list[tuple[Position, str, bytes]] = []
    targets: dict[str, FoundLog] = {}
    for at, entry in (await entries_in(log.row.topic, positions)).items():
        name, alive = revived(entry)
        if name is None:
            continue
        if name not in targets:
            targets[name] = log_in(site, call, name)
        moves.append((at, name, plain(alive)))
    return await _done(site, log, targets, moves, acknowledged=True, asked=len(positions))


def positions_in(body: Body) -> list[Position]:
    """Return the positions in a body. Raises 400."""
    given = body.texts("positions")
    if not 1 <= len(given) <= MOVED_MAX:
        raise bad_request(f"expected 1 to {MOVED_MAX} positions, got {len(given)}")
    return sorted({position_in(each) for each in given})


async def entries_in(topic: Topic, positions: Sequence[Position]) -> dict[Position, bytes]:
    """Return the entries that exist. Raises 400 if they are too large together."""
    found: dict[Position, bytes] = {}
    size = 0
    for at in positions:
        entry = await topic.entry_at(at)
        if entry is not None:
            found[at] = entry
            size += len(entry)
        if size > ENTRY_BYTES_MAX:
            raise bad_request(f"they are more than {ENTRY_BYTES_MAX} bytes: choose fewer")
    return found


async def _done(
    site: Site,
    log: FoundLog,
    targets: Mapping[str, FoundLog],
    moves: Sequence[tuple[Position, str, bytes]],
    *,
    acknowledged: bool,
    asked: int,
) -> Reply:
    admission, unit = Admission(), Unit(passes_over_gone=True)
    subscription = log.subscription if acknowledged else None
    try:
        done = 0
        for at, name, entry in moves:
            if subscription is not None:
                try:
                    holder = subscription.withhold([at], {})
                except AlreadyAcknowledged:
                    continue
                unit.acks.append((holder, [at]))
            done += 1
            if name:
                _put(targets[name], entry, admission)
        for _ in admission.closing():
            await trio.lowlevel.checkpoint()
        unit.appends += admission.appends.items()
        with trio.CancelScope(shield=True):  # withheld entries are acknowledged or given back
            await site.core.committed(unit)
    except BaseException:
        if subscription is not None:
            subscription.give_back([at for _, run in unit.acks for at in run], {})
        raise
    finally:
        admission.over()
    document: Document = {"done": done, "left": asked - done}
    return Reply(document)


def _put(target: FoundLog, entry: bytes, admission: Admission) -> None:
    queue, vhost = target.row.queue, target.vhost
    overflow = None
    if queue is not None and vhost is not None:
        overflow = vhost.queues.refusing.get(queue.name)
    if overflow is None:
        admission.put(target.row.topic, entry)
    elif not admission.offer(overflow, entry):
        raise bad_request(f"{target.row.name} is full and refuses more; nothing was moved")


def plain(entry: bytes) -> bytes:
    """Return the entry without its delay and its expiry."""
    header = read_header(entry)
    times = TIMES.pack(header.publish_time_ms, 0, 0)
    return entry[:TIMES_OFFSET] + times + entry[TIMES_OFFSET + TIMES.size :]


def revived(entry: bytes) -> tuple[str | None, bytes]:
    """Return the queue in which a dead letter first died, and the message as it was before; None if
    it is not a dead letter."""
    header = read_header(entry)
    if header.origin is not Origin.AMQP:
        return None, entry
    start = HEADER_BYTES + header.hint
    properties = decode_properties(properties_of(entry, start))
    headers = dict(properties.headers or {})
    name = headers.get(FIRST_DEATH_QUEUE)
    if not isinstance(name, Field) or not header.flags & EntryFlag.DEAD_LETTERED:
        return None, entry
    alive = replace(properties, headers=without_deaths(headers) or None)
    flags = entry[FLAGS_OFFSET] & ~int(EntryFlag.DEAD_LETTERED)
    head = entry[:FLAGS_OFFSET] + bytes((flags,)) + entry[FLAGS_OFFSET + 1 : start]
    return name.text, head + with_properties(entry[start:], encode_properties(alive))


ROUTES: Final = (
    Route("POST", "page/messages/:vhost/:queue/move", VHOST, _move),
    Route("POST", "page/messages/:vhost/:queue/copy", VHOST, _copy),
    Route("POST", "page/messages/:vhost/:queue/delete", VHOST, _delete),
    Route("POST", "page/messages/:vhost/:queue/send-back", VHOST, _send_back),
)
