"""The checks of clients' histories: silent on what a queue may do, and not on what it may not."""

import json
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_arneb.pipeline.checks.client_history import (
    Event,
    UnreadableLine,
    check_events,
    read_line,
)

OPERATIONS = st.lists(
    st.tuples(st.sampled_from(["send", "receive", "ack", "return"]), st.integers(0, 2)), max_size=60
)


@dataclass
class ModelClients:
    """Clients of one queue that obeys every rule, and what they write down."""

    events: list[Event] = field(default_factory=list)
    steps: dict[str, int] = field(default_factory=dict)
    sent: dict[str, int] = field(default_factory=dict)
    ready: list[tuple[int, str, int, bool]] = field(default_factory=list)
    out: list[tuple[str, tuple[int, str, int, bool]]] = field(default_factory=list)
    places: int = 0

    def tell(self, event: str, client: str, message: str, **more: object) -> None:
        step = self.steps[client] = self.steps.get(client, 0) + 1
        made = Event(event, client, step, message, at_ms=1 + len(self.events))
        self.events.append(replace(made, **more))  # type: ignore[arg-type]

    def do(self, operation: str, number: int) -> None:
        match operation:
            case "send":
                sender = f"p{number}"
                count = self.sent[sender] = self.sent.get(sender, 0) + 1
                message = f"{sender}-{count}"
                self.tell("sent", sender, message)
                self.tell("confirmed", sender, message)
                self.ready.append((self.places, sender, count, False))
                self.places += 1
            case "receive" if self.ready:
                place, sender, count, was_seen = self.ready.pop(0)
                self.tell(
                    "received", f"c{number}", f"{sender}-{count}", queue="q", sender=sender,
                    number=count, redelivered=was_seen,
                )  # fmt: skip
                self.out.append((f"c{number}", (place, sender, count, True)))
            case "ack" | "return" if self.out:
                client, item = self.out.pop(number % len(self.out))
                message = f"{item[1]}-{item[2]}"
                if operation == "ack":
                    self.tell("acknowledged", client, message, queue="q", durable=bool(number))
                else:
                    self.tell("returned", client, message, queue="q")
                    self.ready = sorted([*self.ready, item])


def played(operations: list[tuple[str, int]], *, drain: bool = True) -> list[Event]:
    clients = ModelClients()
    for operation, number in operations:
        clients.do(operation, number)
    while drain and clients.ready:
        clients.do("receive", 0)
    return clients.events


@given(operations=OPERATIONS)
def test_a_queue_that_obeys_every_rule_is_clean(operations: list[tuple[str, int]]) -> None:
    assert check_events(played(operations)) == []


@given(operations=OPERATIONS, data=st.data())
def test_what_no_consumer_received_is_lost(
    operations: list[tuple[str, int]], data: st.DataObject
) -> None:
    events = played([("send", 0), *operations])
    message = data.draw(st.sampled_from([each.message for each in events]))
    left = [
        each for each in events if each.message != message or each.event in ("sent", "confirmed")
    ]
    found = check_events(left)
    assert [(each.kind, each.what) for each in found] == [("lost", message)]
    assert check_events(left, drained=False) == []


@given(operations=OPERATIONS, data=st.data())
def test_a_message_that_comes_after_a_later_one_is_reordered(
    operations: list[tuple[str, int]], data: st.DataObject
) -> None:
    events = played([("send", 1), ("send", 1), ("receive", 0), ("receive", 0), *operations])
    first, second = (each for each in events[:6] if each.event == "received")
    swapped = {
        first.step: replace(second, step=first.step),
        second.step: replace(first, step=second.step),
    }
    spoiled = [swapped[each.step] if each in (first, second) else each for each in events]
    assert "reordered" in {each.kind for each in check_events(spoiled)}


def received(client: str, step: int, message: str = "m", **more: object) -> Event:
    event = Event("received", client, step, message, queue="q", at_ms=10 * step)
    return replace(event, **more)  # type: ignore[arg-type]


SENT = Event("sent", "p", 1, "m", at_ms=1)
CONFIRMED = Event("confirmed", "p", 2, "m", at_ms=2)
DONE = Event("acknowledged", "c", 4, "m", queue="q", at_ms=40)


@pytest.mark.parametrize(
    ("events", "kinds"),
    [
        ([SENT, received("c", 3)], []),
        ([received("c", 3)], ["invented"]),
        ([SENT, replace(CONFIRMED, event="refused"), received("c", 3)], ["refused"]),
        ([SENT, received("c", 3), received("d", 5)], ["unflagged"]),
        ([SENT, received("c", 3), received("d", 5, redelivered=True)], []),
        ([SENT, received("c", 3), DONE, received("c", 5, redelivered=True)], []),
        (
            [
                SENT,
                received("c", 3),
                replace(DONE, durable=True),
                received("d", 5, redelivered=True),
            ],
            ["duplicated"],
        ),
        ([SENT, SENT, received("c", 3), received("c", 5)], []),
        ([SENT, CONFIRMED, received("c", 3), received("c", 3, queue="other")], []),
    ],
)  # fmt: skip
def test_what_is_an_anomaly_and_what_is_not(events: list[Event], kinds: list[str]) -> None:
    assert [each.kind for each in check_events(events)] == kinds


def test_with_exactly_once_any_second_time_is_a_duplicate() -> None:
    events = [SENT, received("c", 3), received("d", 5, redelivered=True)]
    assert [each.kind for each in check_events(events, exactly_once=True)] == ["duplicated"]


def test_a_line_is_read_with_its_defaults() -> None:
    line = json.dumps({"event": "received", "client": "c", "step": 3, "message": 7, "at": 5})
    assert read_line(line) == Event("received", "c", 3, "7", at_ms=5)


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("x", "JSON object"),
        ("[]", "JSON object"),
        ("{}", "the field 'event'"),
        ('{"event": "sent", "client": "c", "step": "x", "message": "m"}', "invalid literal"),
        ('{"event": "eaten", "client": "c", "step": 1, "message": "m"}', "got 'eaten'"),
        (
            '{"event": "sent", "client": "c", "step": 1, "message": "m", "durable": 1}',
            "true or false for durable",
        ),
    ],
)
def test_a_line_that_is_none_is_refused_in_one_line(line: str, complaint: str) -> None:
    with pytest.raises(UnreadableLine, match=complaint) as caught:
        read_line(line)
    assert "\n" not in str(caught.value)
