"""The judge of the crash test must detect every kind of anomaly; otherwise its silence would mean
nothing."""

from collections.abc import Callable

import pytest
from tests.crash.history import History, Item, Recovery, Seen
from tests.crash.verdict import accept, judge


def place(number: int) -> Item:
    return (1, number, 0)


def story() -> tuple[History, Recovery]:
    """Ten confirmed messages: 1-3 durably acked on both sides, 4 perhaps, 5-10 not."""
    history = History(published={"a": 10, "fan": 2})
    for number in range(1, 11):
        history.confirmed["a", number] = place(number)
    history.confirmed["fan", 1] = None
    history.seen = [Seen("c", ("a", number), False) for number in range(1, 7)]
    history.entries_seen = {place(number) for number in range(1, 5)}
    history.amqp.send(("a", number) for number in range(1, 5))
    history.amqp.receipt(("a", number) for number in range(1, 4))
    history.pulsar.send(place(number) for number in range(1, 5))
    history.pulsar.receipt(place(number) for number in range(1, 4))
    log = [(place(number), ("a", number)) for number in range(1, 11)]
    log.append((place(11), ("fan", 1)))
    recovery = Recovery(
        log=log,
        copied=[("fan", 1)],
        amqp=[Seen("r", identity, True) for _, identity in log[4:]],
        pulsar=[item for item, _ in log[3:]],
    )
    return history, recovery


def test_a_kept_promise_is_no_anomaly() -> None:
    assert judge(*story()) == []


def test_an_unconfirmed_message_may_be_there_or_not() -> None:
    history, recovery = story()
    history.published["a"] = 12
    assert judge(history, recovery) == []
    recovery.log.append((place(12), ("a", 11)))
    recovery.amqp.append(Seen("r", ("a", 11), True))
    recovery.pulsar.append(place(12))
    assert judge(history, recovery) == []


def test_what_did_not_come_back_stays_gone() -> None:
    history, recovery = story()
    accept(history, recovery)
    assert judge(history, recovery) == []
    recovery.amqp.insert(0, Seen("r", ("a", 4), True))
    assert any("acked and came back" in line for line in judge(history, recovery))


def test_acks_without_receipt_count_when_the_promised_time_has_passed() -> None:
    history, recovery = story()
    history.amqp.reach([("a", 4)], now=1.0)
    recovery.amqp.insert(0, Seen("r", ("a", 4), True))
    history.crash(now=1.1)
    assert judge(history, recovery) == []
    history.amqp.reach([("a", 4)], now=1.0)
    history.crash(now=1.5)
    assert any("acked and came back" in line for line in judge(history, recovery))


Change = Callable[[History, Recovery], object]


def swap(values: list[tuple[Item, tuple[str, int]]], first: int, second: int) -> None:
    (at, a), (bt, b) = values[first], values[second]
    values[first], values[second] = (at, b), (bt, a)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("lost", lambda h, r: r.log.pop(5)),
        ("moved", lambda h, r: swap(r.log, 5, 6)),
        ("duplicated", lambda h, r: r.log.append((place(12), ("a", 10)))),
        ("invented", lambda h, r: r.log.append((place(12), ("a", 11)))),
        ("invented", lambda h, r: r.log.append((place(12), ("b", 1)))),
        ("disorder", lambda h, r: swap(r.log, 5, 6)),
        ("places not rising", lambda h, r: r.log.append(((1, 3, 0), ("a", 10)))),
        ("gaps in a ledger", lambda h, r: r.log.append(((1, 20, 0), ("a", 10)))),
        ("rewritten", lambda h, r: h.log.extend([*r.log[:4], (place(5), ("a", 9))])),
        ("rewritten", lambda h, r: h.log.extend([*r.log, (place(12), ("a", 12))])),
        ("torn publish", lambda h, r: r.copied.clear()),
        ("torn publish", lambda h, r: r.copied.append(("fan", 2))),
        ("amqp: acked and", lambda h, r: r.amqp.insert(0, Seen("r", ("a", 3), True))),
        ("pulsar: acked and", lambda h, r: r.pulsar.insert(0, place(3))),
        ("amqp: never acked", lambda h, r: r.amqp.pop(2)),
        ("pulsar: never acked", lambda h, r: r.pulsar.pop(2)),
        ("amqp: came back and is not", lambda h, r: r.amqp.append(Seen("r", ("z", 1), True))),
        ("pulsar: came back twice", lambda h, r: r.pulsar.append(place(11))),
        ("amqp: came back out of order", lambda h, r: r.amqp.append(r.amqp.pop(0))),
        ("delivered again", lambda h, r: h.seen.append(Seen("d", ("a", 6), False))),
        ("delivered out of order", lambda h, r: h.seen.append(Seen("c", ("a", 2), False))),
        ("over AMQP and taken", lambda h, r: h.seen.append(Seen("c", ("a", 12), False))),
        ("over Pulsar and taken", lambda h, r: h.entries_seen.add(place(50))),
        ("without the redelivered", lambda h, r: r.amqp.insert(0, Seen("r", ("a", 4), False))),
        ("refused", lambda h, r: h.refused.append(("a", 3))),
    ],
)
def test_each_broken_promise_is_named(name: str, change: Change) -> None:
    history, recovery = story()
    change(history, recovery)
    assert any(name in line for line in judge(history, recovery)), judge(history, recovery)
