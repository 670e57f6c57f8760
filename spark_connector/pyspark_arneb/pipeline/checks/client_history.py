"""The history that clients keep of their actions and the broker's replies, as JSON lines, one file
a client.

The rule: :func:`read_line` converts a line to an event; :func:`check_message` checks all events of
one message, :func:`check_receiver` what one client received from one sender, and nothing else has
to be in memory. docs/guide/recipes.md lists the fields.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from pyspark_arneb.pipeline.checks.anomalies import Anomaly, Kind, anomaly

EVENTS: Final = frozenset({"sent", "confirmed", "refused", "received", "acknowledged", "returned"})


class UnreadableLine(ValueError):
    """The line is not valid in a client's history; the reason is one line."""


@dataclass(frozen=True, slots=True)
class Event:
    """One action of a client, or one reply to it."""

    event: str
    client: str
    step: int
    """Numbers the client's events, in order."""
    message: str
    queue: str = ""
    at_ms: int = 0
    sender: str = ""
    """The message's sender, if its place among that sender's messages is to be checked."""
    number: int = -1
    redelivered: bool = False
    durable: bool = False
    """For an acknowledgement: the broker confirmed that it is on disk."""


def read_line(line: str) -> Event:
    """Parse an event. Raises :class:`UnreadableLine`."""
    try:
        given = json.loads(line)
        event = Event(
            event=given["event"],
            client=str(given["client"]),
            step=int(given["step"]),
            message=str(given["message"]),
            queue=str(given.get("queue", "")),
            at_ms=int(given.get("at", 0)),
            sender=str(given.get("sender", "")),
            number=int(given.get("number", -1)),
            redelivered=_flag(given, "redelivered"),
            durable=_flag(given, "durable"),
        )
    except KeyError as error:
        raise UnreadableLine(f"expected the field {error}: {line:.120}") from None
    except (ValueError, TypeError, AttributeError) as error:
        raise UnreadableLine(
            f"expected a JSON object of a history ({error}): {line:.120}"
        ) from None
    if event.event not in EVENTS:
        expected = ", ".join(sorted(EVENTS))
        raise UnreadableLine(f"expected an event of {expected}, got {event.event!r:.60}")
    return event


def _flag(given: dict[str, object], name: str) -> bool:
    value = given.get(name, False)
    if not isinstance(value, bool):
        raise ValueError(f"expected true or false for {name}, got {value!r:.40}")
    return value


def check_message(
    events: Sequence[Event], *, drained: bool, exactly_once: bool
) -> Iterator[Anomaly]:
    """Check all events of one message, queue by queue; events without a queue count in each.
    ``drained``: the queues were read until they were empty. ``exactly_once``: it may be received
    only once, despite any interruption."""
    for queue in sorted({each.queue for each in events if each.queue}) or [""]:
        here = [each for each in events if each.queue in ("", queue)]
        yield from _check_in_queue(here, drained=drained, exactly_once=exactly_once)


def _check_in_queue(
    events: Sequence[Event], *, drained: bool, exactly_once: bool
) -> Iterator[Anomaly]:
    by_kind: dict[str, list[Event]] = {}
    for event in events:
        by_kind.setdefault(event.event, []).append(event)
    received = by_kind.get("received", [])
    where = next((each.queue for each in events if each.queue), "")
    what = events[0].message
    if drained and "confirmed" in by_kind and not received:
        by = by_kind["confirmed"][0].client
        yield anomaly(Kind.LOST, where, what, f"confirmed to {by}, and nobody received it")
    if received and "sent" not in by_kind:
        detail = f"{received[0].client} received it, and nobody sent it"
        yield anomaly(Kind.INVENTED, where, what, detail)
    if received and "refused" in by_kind and "confirmed" not in by_kind:
        detail = f"refused to {by_kind['refused'][0].client}, and {received[0].client} received it"
        yield anomaly(Kind.REFUSED, where, what, detail)
    if len(by_kind.get("sent", ())) > 1:
        return  # its publisher sent it again, so it may be there twice
    yield from _repeated(where, what, received, by_kind.get("acknowledged", []), exactly_once)


def _repeated(
    where: str, what: str, received: list[Event], done: list[Event], exactly_once: bool
) -> Iterator[Anomaly]:
    if len(received) < 2:
        return
    inn = sorted(received, key=lambda each: (each.at_ms, each.client, each.step))
    if exactly_once:
        detail = f"received {len(inn)} times, last by {inn[-1].client}"
        yield anomaly(Kind.DUPLICATED, where, what, detail)
    else:
        for end in done:
            after = [each for each in inn if _is_after(each, end)]
            if end.durable and after:
                detail = f"{after[0].client} received it after {end.client}'s acknowledgement"
                yield anomaly(Kind.DUPLICATED, where, what, detail)
                break
    # One of them was the first; all others should have had the flag.
    unflagged = [each for each in inn if not each.redelivered]
    if len(unflagged) > 1:
        detail = f"{unflagged[1].client} received it again without the flag"
        yield anomaly(Kind.UNFLAGGED, where, what, detail)


def _is_after(event: Event, other: Event) -> bool:
    if event.client == other.client:
        return event.step > other.step
    return event.at_ms > other.at_ms > 0


def check_receiver(events: Iterable[Event]) -> Iterator[Anomaly]:
    """Check what one client received from one sender through one queue, in order of its steps: new
    messages arrive in the sender's order."""
    last: Event | None = None
    for event in events:
        if event.event != "received" or event.redelivered or event.number < 0:
            continue
        if last is not None and event.number < last.number:
            detail = f"{event.sender}'s {event.number} came behind its {last.number}"
            yield anomaly(Kind.REORDERED, event.queue, event.client, detail)
        if last is None or event.number > last.number:
            last = event


def check_events(
    events: Iterable[Event], *, drained: bool = True, exactly_once: bool = False
) -> list[Anomaly]:
    """Return every anomaly of clients' histories in memory, which the job does in pieces."""
    found: list[Anomaly] = []
    messages: dict[str, list[Event]] = {}
    receivers: dict[tuple[str, str, str], list[Event]] = {}
    for event in events:
        messages.setdefault(event.message, []).append(event)
        if event.event == "received":
            receivers.setdefault((event.queue, event.client, event.sender), []).append(event)
    for own in messages.values():
        found += check_message(own, drained=drained, exactly_once=exactly_once)
    for inn in receivers.values():
        found += check_receiver(sorted(inn, key=lambda each: each.step))
    return found
