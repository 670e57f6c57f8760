"""Looking into a log: reads and searches messages in place, without side effects.

The rule: nothing is delivered, released or counted. Each call reads slice by slice, within a budget
of time and bytes, and says where the next may continue; messages are matched in a thread. No read
transaction stays open between slices.
"""

import json
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Final

import trio

from arneb.http.management.page.log_lookup import (
    expect_readable,
    log_in,
    number_in,
    position_in,
)
from arneb.http.management.page.schema_views import schema_views
from arneb.http.management.requests.calls import Call, Document, Reply, bad_request
from arneb.http.management.requests.rules import ADMINISTRATOR, VHOST
from arneb.http.management.router import Route
from arneb.http.management.site import Site
from arneb_core.api.entries.codec import Message, codecs
from arneb_core.api.entries.entry import EntryHeader, Origin, read_header
from arneb_core.api.entries.position import BEFORE_ALL, Position, render
from arneb_core.api.process.clock import wall_clock_ms
from arneb_core.api.subscriptions.subscription import Subscription
from arneb_core.api.topics.topic import Topic

FOUND_MAX: Final = 100
"""Messages in one answer, and of one batch, whose size is shown."""

SLICE_BYTES: Final = 256 * 1024
"""Read in one transaction, in a millisecond or two."""

SEARCHED_BYTES_MAX: Final = 32 * 1024 * 1024
SEARCHED_S: Final = 0.5
"""The budget of one call; the next continues where it ended."""

SHOWN_BYTES: Final = 64 * 1024
"""Of a body in a list; a message that is requested alone has more."""

WHOLE_BYTES: Final = 4 * 1024 * 1024
"""Of the body of a message that is requested alone."""

TEXT_CHARACTERS_MAX: Final = 1000


@dataclass(frozen=True, slots=True)
class Wanted:
    """A search; a message has to match everything that is given."""

    key: str = ""
    header: str = ""
    value: str | None = None
    """The header's value; None if any will do."""
    text: bytes = b""
    since_ms: int = 0
    until_ms: int = 1 << 62
    due_after_ms: int = 0

    def fits(self, header: EntryHeader, message: Message) -> bool:
        """Return whether a message matches."""
        if not self.since_ms <= header.publish_time_ms <= self.until_ms:
            return False
        if header.deliver_at_ms < self.due_after_ms:
            return False
        if self.key and (message.key is None or self.key != message.key.decode("utf-8", "replace")):
            return False
        if self.header:
            found = _header(message.properties, self.header)
            if found is None or (self.value is not None and found != self.value):
                return False
        return not self.text or self.text in message.value


def _header(properties: Mapping[str, str], name: str) -> str | None:
    found = properties.get(name)
    return properties.get(name.lower()) if found is None else found


def wanted_in(query: Mapping[str, str]) -> Wanted:
    """Return the search in a query. Raises 400."""
    name, equals, value = query.get("header", "").partition("=")
    text = query.get("text", "")
    if max(map(len, (name, value, text, query.get("key", "")))) > TEXT_CHARACTERS_MAX:
        raise bad_request(f"expected at most {TEXT_CHARACTERS_MAX} characters to look for")
    return Wanted(
        query.get("key", ""),
        name.strip(),
        value.strip() if equals else None,
        text.encode("utf-8", "surrogatepass"),
        number_in(query, "since", 0),
        number_in(query, "until", 1 << 62),
        wall_clock_ms() if query.get("delayed") == "yes" else 0,
    )


@dataclass(frozen=True, slots=True)
class Found:
    """One message."""

    position: Position
    header: EntryHeader
    message: Message


def matches(
    runs: Sequence[tuple[Position, Sequence[bytes]]], wanted: Wanted, most: int
) -> tuple[list[Found], Position | None]:
    """Return the matches in a slice, and the last entry looked at. No entry is begun once there are
    ``most`` matches."""
    found: list[Found] = []
    last: Position | None = None
    for first, entries in runs:
        for index, entry in enumerate(entries):
            if len(found) >= most:
                return found, last
            last = Position(first + index)
            matching = (e for e in found_at(last, entry) if wanted.fits(e.header, e.message))
            found += islice(matching, FOUND_MAX)
    return found, last


def found_at(position: Position, entry: bytes) -> Iterator[Found]:
    """Yield the messages of an entry; none if it cannot be decoded."""
    header = read_header(entry)
    with suppress(ValueError, KeyError, LookupError):
        for message in codecs()[Origin(header.origin)].decode(entry):
            yield Found(position, header, message)


async def search(
    topic: Topic,
    start: Position,
    wanted: Wanted,
    limit: int,
    waits: Subscription | None = None,
    *,
    clock: Callable[[], float] = trio.current_time,
) -> tuple[list[Found], Position | None, int]:
    """Return the matches from ``start`` on, only those unacknowledged in ``waits`` if that is
    given; where the next call continues (None at the end of the log); and the number of bytes
    searched. Raises :class:`.StoreFailed`."""
    found: list[Found] = []
    position, size, until_s = start, 0, clock() + SEARCHED_S
    while topic.last is not None and position <= topic.last:
        runs = await topic.read(position, SLICE_BYTES)
        if not any(entries for _, entries in runs):
            break
        got, last = await trio.to_thread.run_sync(matches, runs, wanted, limit - len(found))
        found += [each for each in got if waits is None or is_waiting(waits, each.position)]
        size += sum(len(each) for _, entries in runs for each in entries)
        if last is not None:
            position = Position(last + 1)
        if len(found) >= limit or size >= SEARCHED_BYTES_MAX or clock() >= until_s:
            return found, position if position <= topic.last else None, size
    return found, None, size


def is_waiting(subscription: Subscription, position: Position) -> bool:
    """Return whether an entry is unacknowledged in a subscription."""
    return subscription.unacknowledged(1, Position(position - 1)) == [position]


async def _look(site: Site, call: Call) -> Reply:
    log = log_in(site, call)
    await expect_readable(call, log)
    query, topic = call.query, log.row.topic
    wanted = wanted_in(query)
    limit = number_in(query, "limit", 20)
    if not 1 <= limit <= FOUND_MAX:
        raise bad_request(f"expected a limit of 1 to {FOUND_MAX}")
    waits = log.row.main if query.get("of", "waiting") == "waiting" else None
    first = topic.first
    start = BEFORE_ALL if first is None else first
    if given := query.get("from", ""):
        start = max(start, position_in(given))
    elif waits is not None:
        waiting = waits.unacknowledged(1)
        start = waiting[0] if waiting else topic.next_append
    start = max(start, topic.floor)
    cut = WHOLE_BYTES if limit == 1 else SHOWN_BYTES
    found, then, size = await search(topic, start, wanted, limit, waits)
    last = topic.last
    shown = [message_document(log.row.main, each, cut) for each in found]
    views = await schema_views(site, topic, [each.message for each in found])
    for index, view in views.items():
        shown[index]["schema"] = view
    return Reply(
        {
            "messages": shown,
            "from": render(start),
            "next": None if then is None else render(then),
            "last": None if last is None else render(last),
            "searched_bytes": size,
            "stored_bytes": topic.stored_bytes,
            "retention_ms": topic.retention.ms,
        }
    )


def message_document(main: Subscription | None, found: Found, cut: int) -> Document:
    """Return one message's document, with at most ``cut`` bytes of its body."""
    message, header = found.message, found.header
    value = message.value[:cut]
    document: Document = {
        "position": render(found.position),
        "batch_index": message.batch_index,
        "batch_messages": header.messages,
        "waits": main is not None and is_waiting(main, found.position),
        "published_ms": header.publish_time_ms,
        "deliver_at_ms": header.deliver_at_ms,
        "expires_at_ms": header.expires_at_ms,
        "event_ms": message.event_time_ms,
        "key": None if message.key is None else message.key.decode("utf-8", "replace"),
        "properties": dict(message.properties),
        "producer": message.producer_name,
        "origin": Origin(header.origin).name.lower(),
        "bytes": len(message.value),
        "is_cut": len(value) < len(message.value),
        "is_null": message.is_null,
    }
    return document | _body(value)


def _body(value: bytes) -> Document:
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return {"body": b64encode(value).decode(), "encoding": "base64"}
    with suppress(ValueError, RecursionError):
        if text[:1] in "{[" and isinstance(json.loads(text), dict | list):
            return {"body": text, "encoding": "json"}
    return {"body": text, "encoding": "text"}


ROUTES: Final = (
    Route("GET", "page/messages/:vhost/:queue", VHOST, _look),
    Route("GET", "page/topic/:topic/messages", ADMINISTRATOR, _look),
)
