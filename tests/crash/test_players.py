"""The players' judges must detect every kind of anomaly; otherwise their silence would mean
nothing."""

import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest
from conformance.wire.amqp import Delivery
from conformance.wire.pulsar import Entry, Place
from pamqp import commands
from tests.crash.history import AckBook
from tests.crash.players.applications import (
    ApplicationBook,
    headers_of,
    id_of,
    judge_applications,
)
from tests.crash.players.bodies import body_of, is_whole, number_of
from tests.crash.players.compaction import KEYS, CompactionBook, judge_compaction
from tests.crash.players.cursors import CursorBook
from tests.crash.players.dead_letters import Dead, DeathBook, judge_deaths
from tests.crash.players.deduplication import (
    SequenceBook,
    judge_sequence,
    numbers_of,
    packed,
)
from tests.crash.players.delays import DelayBook, judge_delays
from tests.crash.players.epochs import EpochBook, judge_epochs
from tests.crash.players.fan_out import CONSUMED, DISTURBED, KEPT, FanBook, judge_fan_out
from tests.crash.players.keys import KeyBook, judge_keys
from tests.crash.players.lone import LoneBook, judge_lone
from tests.crash.players.places import PlaceBook, judge_places
from tests.crash.players.priorities import PriorityBook, judge_priorities
from tests.crash.players.streams import KEPT_BYTES, StreamBook, judge_stream
from tests.crash.players.topology import TopologyBook, judge_topology
from tests.crash.players.transactions import MoveBook, judge_moves


def named(name: str, anomalies: list[str]) -> bool:
    return any(name in line for line in anomalies)


def test_bodies_say_what_they_are() -> None:
    for number, size in ((7, 0), (7, 1), (1234, 5_000)):
        body = body_of(number, size)
        assert number_of(body) == number and is_whole(body) and len(body) >= size
    assert not is_whole(body[:-1] + b"x")


# Streams

Log = list[tuple[int, int, int]]


def stream() -> tuple[StreamBook, Log]:
    """Ten offsets of which two have been removed; number 7 was lost unconfirmed."""
    numbers = [3, 4, 5, 6, 8, 9, 10, 11]
    book = StreamBook(sent=12, confirmed={1, 2, 3, 8, 11}, lowest=1)
    log = [(offset, number, KEPT_BYTES // 8) for offset, number in enumerate(numbers, 2)]
    for offset, number, _ in log[:5]:
        book.see(offset, body_of(number, 20))
    return book, log


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("gap", lambda b, log: log.pop(4)),
        ("out of order", lambda b, log: log.append((10, 11, 9))),
        ("another message", lambda b, log: b.see(2, body_of(4, 9))),
        ("damaged", lambda b, log: b.see(2, b"3:3:4:")),
        ("refused", lambda b, log: b.refused.append(3)),
        ("never published", lambda b, log: log.append((10, 13, 9))),
        ("lost", lambda b, log: log.pop()),
        ("seen and taken back", lambda b, log: b.see(10, body_of(12, 9))),
        ("came back", lambda b, log: setattr(b, "lowest", 3)),
        ("there was room", lambda b, log: log.__delitem__(slice(7))),
    ],
)
def test_streams(name: str, change: Callable[[StreamBook, Log], object]) -> None:
    book, log = stream()
    assert judge_stream(book, log) == []
    change(book, log)
    assert named(name, judge_stream(book, log))


# Fan-out

Queues = dict[str, list[int]]


def fan() -> tuple[FanBook, Queues]:
    """Five messages: 1 and 2 are acknowledged everywhere, 3 perhaps, and 4 is not there."""
    book = FanBook(sent=6, confirmed={1, 2, 3, 5}, seen={1, 2, 3})
    for acks in book.acks.values():
        acks.send([1, 2, 3])
        acks.receipt([1, 2])
    found = {KEPT: [1, 2, 3, 5, 6]} | {name: [5, 6] for name in CONSUMED}
    return book, found | {name: [5] for name in DISTURBED}


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("lost", lambda b, f: f[KEPT].remove(5)),
        ("never published", lambda b, f: f[KEPT].append(7)),
        ("out of order", lambda b, f: f[KEPT].reverse()),
        ("seen and taken back", lambda b, f: b.seen.add(4)),
        ("damaged", lambda b, f: b.damaged.append(5)),
        ("refused", lambda b, f: b.refused.append(5)),
        ("a: acked and", lambda b, f: f["a"].insert(0, 2)),
        ("b: never acked", lambda b, f: f["b"].remove(5)),
        ("c: came back twice", lambda b, f: f["c"].append(6)),
        ("purged: not in", lambda b, f: f["purged"].append(7)),
        ("deleted: out of order", lambda b, f: f["deleted"].extend([2, 1])),
    ],
)
def test_what_is_fanned_out(name: str, change: Callable[[FanBook, Queues], object]) -> None:
    book, found = fan()
    assert judge_fan_out(book, found) == []
    change(book, found)
    assert named(name, judge_fan_out(book, found))


# Delays


def delayed() -> tuple[DelayBook, AckBook[int], list[int]]:
    """Message 1 is due and acknowledged, 2 is due, 3 is due much later."""
    book, acks = DelayBook(), AckBook[int]()
    for delay in (timedelta(), timedelta(), timedelta(hours=1)):
        book.confirmed.add(book.plan(delay))
    acks.send([1])
    acks.receipt([1])
    return book, acks, [2]


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("too early", lambda b, a, back: b.see(body_of(3, 9))),
        ("damaged", lambda b, a, back: b.see(b"2:3:")),
        ("refused", lambda b, a, back: b.answered(2, False)),
        ("never published", lambda b, a, back: back.append(4)),
        ("acked and", lambda b, a, back: back.append(1)),
        ("came twice", lambda b, a, back: back.append(2)),
    ],
)
def test_delays(name: str, change: Callable[[DelayBook, AckBook[int], list[int]], object]) -> None:
    book, acks, back = delayed()
    assert book.see(body_of(2, 9)) == 2
    assert judge_delays("q", book, acks, back) == []
    change(book, acks, back)
    assert named(name, judge_delays("q", book, acks, back))


def test_what_is_due_is_expected() -> None:
    book, acks, _ = delayed()
    now = time.time()
    assert book.expected(now + 1, acks) == {2}
    assert book.expected(now + 3_700, acks) == {2, 3}


# Dead letters

Places = dict[str, list[Dead]]
EXPIRED = (("classic", "expired", 1),)
REJECTED = (("classic", "rejected", 1),)


def dying() -> tuple[DeathBook, Places]:
    """Message 1 was acknowledged, 2 and 3 died, 4 may have been acknowledged; 5 to 7 were rejected,
    the last of them perhaps in vain."""
    book = DeathBook(sent=7, source=dict.fromkeys(range(1, 8), "classic"), confirmed={1, 2, 3, 4})
    book.acks.send([1, 4])
    book.acks.receipt([1])
    book.see("classic", [6, 5, 7])
    book.reject("classic", [6, 5, 7])
    book.rejects.reach([6], 1.0)
    book.crash(2.0)
    letters = [Dead(number, True, REJECTED) for number in (6, 5)]
    letters += [Dead(number, True, EXPIRED) for number in (7, 2, 3)]
    return book, {"one": letters, "two": list(letters)}


def both(found: Places, letter: Dead) -> None:
    for letters in found.values():
        letters[-1] = letter


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("lost", lambda b, f: f["one"].pop()),
        ("at one place of two", lambda b, f: f["one"].append(Dead(4, True, EXPIRED))),
        ("acked and dead", lambda b, f: f["one"].append(Dead(1, True, EXPIRED))),
        ("twice", lambda b, f: f["two"].append(f["two"][0])),
        ("never published", lambda b, f: f["two"].append(Dead(8, True, EXPIRED))),
        ("gone", lambda b, f: b.dead.add(4)),
        ("damaged", lambda b, f: both(f, replace(f["one"][-1], is_whole=False))),
        ("strange", lambda b, f: both(f, Dead(3, True, ()))),
        ("strange", lambda b, f: both(f, Dead(3, True, (*EXPIRED, *EXPIRED)))),
        ("strange", lambda b, f: both(f, Dead(3, True, (("classic", "expired", 2),)))),
        ("strange", lambda b, f: both(f, Dead(3, True, (("quorum", "expired", 1),)))),
        ("strange", lambda b, f: both(f, Dead(3, True, (("classic", "delivery_limit", 1),)))),
        ("refused", lambda b, f: b.answered(2, False)),
        ("delivered again", lambda b, f: b.see("classic", [1, 5])),
        ("not dead of it", lambda b, f: f["one"].__setitem__(0, Dead(6, True, EXPIRED))),
        ("not dead of it", lambda b, f: f["one"].pop(0)),
        ("passed over", lambda b, f: f["one"].__setitem__(0, Dead(6, True, EXPIRED))),
        (
            "passed over",
            lambda b, f: f["one"].__setitem__(2, Dead(7, True, REJECTED)) or f["one"].pop(1),
        ),
    ],
)
def test_dead_letters(name: str, change: Callable[[DeathBook, Places], object]) -> None:
    book, found = dying()
    assert judge_deaths(book, found) == []
    change(book, found)
    assert named(name, judge_deaths(book, found))


# Sequence ids


@pytest.mark.parametrize(
    ("name", "found", "change"),
    [
        ("stored twice", [5, 6, 6], lambda b: None),
        ("stored twice", [4, 5, 6], lambda b: None),
        ("stored twice", [6, 5], lambda b: None),
        ("left out", [5, 7], lambda b: None),
        ("left out", [6], lambda b: None),
        ("lost", [5], lambda b: None),
        ("lost", [], lambda b: None),
        ("never published", [5, 6, 7, 8], lambda b: None),
        ("higher before", [5, 6], lambda b: b.begin(5)),
        ("called a duplicate", [5, 6, 7], lambda b: b.receipt(7, 7, was_there=True)),
        ("called a duplicate", [5, 6], lambda b: b.receipt(6, 6, was_there=False)),
    ],
)
def test_sequences(name: str, found: list[int], change: Callable[[SequenceBook], object]) -> None:
    book = SequenceBook(sent=7, read=4)
    book.begin(4)
    book.receipt(4, 4, was_there=True)
    book.receipt(5, 6, was_there=False)
    book.begin(6)
    assert judge_sequence(book, [5, 6]) == judge_sequence(book, [5, 6, 7]) == []
    change(book)
    assert named(name, judge_sequence(book, found))


def test_batches_are_taken_apart() -> None:
    payload = b"".join(map(packed, (99, 100, 101)))
    assert numbers_of(Entry(Place(1, 0), 0, 3, 0b111, payload)) == [99, 100, 101]


# Epochs


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("was there before", lambda b, f: b.begin(3, after=3)),
        ("was there before", lambda b, f: b.begin(2, after=3)),
        ("was over", lambda b, f: f.append((2, 9))),
        ("or twice", lambda b, f: f.append(f[-1])),
        ("lost", lambda b, f: b.receipts.add((3, 2))),
        ("nobody had", lambda b, f: f.append((4, 1))),
        ("let in", lambda b, f: b.let_in.append(1)),
        ("locked out", lambda b, f: b.locked_out.append("3")),
    ],
)
def test_epochs(name: str, change: Callable[[EpochBook, list[tuple[int, int]]], object]) -> None:
    book = EpochBook(receipts={(1, 1), (2, 1)}, read=[(1, 1)])
    book.begin(1, after=-1)
    book.begin(3, after=1)  # both claimed at the same time, and the later epoch was announced first
    book.begin(2, after=1)
    found = [(2, 1), (2, 2), (3, 1)]
    assert judge_epochs(book, found) == []
    change(book, found)
    assert named(name, judge_epochs(book, found))


# Keys


def keyed() -> KeyBook:
    """Of key 1: message 1 is acknowledged, 2 perhaps, 3 is not in the log, 4 and 5 are with
    consumer a."""
    book = KeyBook()
    book.sent[1] = 6
    book.recover([(1, 1), (1, 2), (1, 4), (1, 5), (1, 6)])
    book.acks.send([(1, 1), (1, 2)])
    book.acks.receipt([(1, 1)])
    book.receive("a", (1, 4))
    book.receive("a", (1, 5))
    assert not book.anomalies
    return book


def test_a_key_goes_on_in_order() -> None:
    book = keyed()
    book.give_back("a", [(1, 4)])
    book.receive("a", (1, 6))
    book.receive("a", (1, 4))
    book.leave("a")
    book.receive("b", (1, 4))
    book.ack("b", [(1, 4)])
    book.receive("b", (1, 5))
    book.crash()
    book.receive("c", (1, 2))
    book.receive("c", (1, 4))
    assert not book.anomalies


def _is_cut_and_ends(book: KeyBook) -> None:
    book.is_cut = True
    book.crash()


def test_key_holders_are_not_judged_while_a_broker_is_being_lost() -> None:
    book = keyed()
    book.is_cut = True
    book.receive("b", (1, 4))
    assert not book.anomalies


@pytest.mark.parametrize(
    ("name", "consumer", "item", "change"),
    [
        ("hold that key", "b", (1, 6), lambda b: None),
        ("with a receipt", "a", (1, 1), lambda b: None),
        ("after", "a", (1, 2), lambda b: None),
        ("before", "b", (1, 5), lambda b: b.leave("a")),
        ("before", "b", (1, 4), lambda b: (b.crash(), b.acks.sent.clear())),
        ("with a receipt", "a", (1, 1), lambda b: setattr(b, "is_cut", True)),
        ("hold that key", "b", (1, 5), lambda b: (_is_cut_and_ends(b), b.receive("a", (1, 4)))),
    ],
)
def test_keys(
    name: str, consumer: str, item: tuple[int, int], change: Callable[[KeyBook], object]
) -> None:
    book = keyed()
    change(book)
    book.receive(consumer, item)
    assert named(f" {name} ", [f"{line} " for line in book.anomalies]), book.anomalies


def test_the_log_of_keys() -> None:
    book = keyed()
    book.confirmed = {(1, 1), (1, 6)}
    assert judge_keys(book, [(1, 7)]) == []
    assert named("out of order", judge_keys(book, [(1, 6)]))
    book.confirmed.add((2, 1))
    assert named("lost", judge_keys(book, []))


# Transactions


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("refused", lambda b, f: b.answered(1, False)),
        ("lost", lambda b, f: f["from"].remove(5)),
        ("at both ends", lambda b, f: f["from"].append(1)),
        ("at one place of two", lambda b, f: f["also"].remove(1)),
        ("committed and not moved", lambda b, f: b.moved.add(4)),
        ("never published", lambda b, f: f["from"].append(7)),
        ("half a transaction", lambda b, f: b.units.append(frozenset({3, 4}))),
        ("to: twice", lambda b, f: f["to"].append(1)),
    ],
)
def test_transactions(name: str, change: Callable[[MoveBook, Queues], object]) -> None:
    units = [frozenset({1, 2}), frozenset({3}), frozenset({4, 5})]
    book = MoveBook(sent=6, confirmed={1, 2, 3, 5}, units=units, moved={1, 2})
    found = {"from": [4, 5], "to": [1, 2, 3], "also": [1, 2, 3]}
    assert judge_moves(book, found) == []
    change(book, found)
    assert named(name, judge_moves(book, found))


# Topology


def test_topology() -> None:
    here, away, open_ = ("queue", "here"), ("queue", "away"), ("binding", "e", "q")
    book = TopologyBook({here: True, away: False, open_: None})
    for there in (True, False):
        assert judge_topology(book, {here: True, away: False, open_: there}) == []
    assert named("gone", judge_topology(book, {here: False, away: False}))
    assert named("there again", judge_topology(book, {here: True, away: True}))


# Places


def test_places() -> None:
    here, changing = ("topic", "a"), ("ttl", "a")
    book = PlaceBook({here: [True], changing: [None]})
    book.ask(changing, 5)
    for value in (None, 5):
        assert judge_places(book, {here: True, changing: value}) == []
    assert named("something else", judge_places(book, {here: None}))
    book.answer(changing, 5)
    assert named("something else", judge_places(book, {changing: None}))


# Cursors


def test_cursors() -> None:
    """Messages 1 and 3 to 6 are stored; the cursor may be after 3 or after 5."""
    book = CursorBook(sent=6, confirmed={1, 3, 6})
    assert book.recover([1, 3, 4, 5, 6]) == []
    assert book.next_after(1) == 3
    book.answer(3)
    book.ask(5)
    for first in (4, 6):
        book.done = {3, 5}
        book.begins(first)
        assert book.done == {first - 1}
    book.goes_on(1, 3)
    assert not book.anomalies
    book.begins(3)
    book.goes_on(4, 6)
    assert [line.split()[0] for line in book.anomalies] == ["began", "6"]
    book.sent, book.confirmed = 8, {1, 3, 6, 8}
    assert named("lost", book.recover([7]))
    book.sent = 10
    assert named("out of order", book.recover([10, 9]))


# Compaction


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("lost", lambda b, whole, short: b.confirmed.add(99)),
        ("out of order, or twice", lambda b, whole, short: whole.append(whole[-1])),
        ("rewritten", lambda b, whole, short: b.log.append(99)),
        ("last of their keys", lambda b, whole, short: short.remove(1 + KEYS)),
        ("compacted: not in the log", lambda b, whole, short: short.append(99)),
        ("compacted: out of order", lambda b, whole, short: short.reverse()),
    ],
)
def test_compaction(
    name: str, change: Callable[[CompactionBook, list[int], list[int]], object]
) -> None:
    book = CompactionBook(sent=90, confirmed={1, 2}, log=[1, 2])
    whole, short = [1, 2, 3, 1 + KEYS, 2 + KEYS], [2, 3, 1 + KEYS, 2 + KEYS]
    assert judge_compaction(book, whole, short) == []
    change(book, whole, short)
    assert named(name, judge_compaction(book, whole, short))


# Priorities


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("refused", lambda b, back: b.answered(1, False)),
        ("lost", lambda b, back: back.remove(3)),
        ("acked and came back", lambda b, back: back.append(1)),
        ("never published", lambda b, back: back.append(9)),
        ("twice", lambda b, back: back.append(5)),
        ("out of order", lambda b, back: back.sort()),
        ("out of order", lambda b, back: back.reverse()),
    ],
)
def test_priorities(name: str, change: Callable[[PriorityBook, list[int]], object]) -> None:
    book = PriorityBook(urgency={1: 0, 2: 5, 3: 0, 4: 5, 5: 0}, confirmed={1, 3, 4})
    book.acks.send([1, 2])
    book.acks.receipt([1])
    back = [4, 3, 5]
    assert judge_priorities(book, back) == []
    change(book, back)
    assert named(name, judge_priorities(book, back))


# A publisher with a small window


@pytest.mark.parametrize(
    ("name", "found", "twin"),
    [
        ("lost", [1, 3, 5], [3]),
        ("gone again", [1, 4, 5], []),
        ("never published", [1, 3, 4, 7], [3]),
        ("out of order", [1, 4, 3], [3]),
        ("twice", [1, 3, 4, 4], [3]),
        ("in one queue only", [1, 3, 4], []),
        ("in one queue only", [1, 3, 4], [3, 6]),
        ("in one queue only", [1, 3, 4], [3, 4]),
        ("twice, in the other", [1, 3, 4, 6], [3, 3, 6]),
        ("out of order", [1, 3, 4, 6], [6, 3]),
    ],
)
def test_a_small_window(name: str, found: list[int], twin: list[int]) -> None:
    book = LoneBook(sent=6, confirmed={1, 4}, found=[1, 3], both={3, 6})
    assert judge_lone(book, [1, 3, 4], [3]) == judge_lone(book, [1, 3, 4, 6], [3, 6]) == []
    assert named(name, judge_lone(book, found, twin))


# What applications send


def applications() -> tuple[ApplicationBook, Queues]:
    """Six messages, of which 2 has no queue and 5 is in both; the first was answered."""
    book = ApplicationBook()
    for number, word in enumerate(("east", "none", "west", "east", "both", "east"), 1):
        book.send(number, f"{word}.7", mandatory=number < 5)
    book.give_back("none.7")
    for number in range(1, 6):
        book.answered(number, True)
    book.seen["east"] = {1, 4}
    book.acks["east"].send([1])
    book.acks["east"].receipt([1])
    return book, {"east": [4, 5], "west": [3, 5]}


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("refused", lambda b, f: b.answered(6, False)),
        ("returned though not due", lambda b, f: b.give_back("none.7")),
        ("damaged", lambda b, f: b.damaged.append(4)),
        ("east: lost", lambda b, f: f["east"].remove(4)),
        ("east: answered and came back", lambda b, f: f["east"].insert(0, 1)),
        ("east: seen and taken back", lambda b, f: b.seen["east"].add(6)),
        ("west: strange", lambda b, f: f["west"].append(6)),
        ("west: strange", lambda b, f: f["west"].insert(0, 2)),
        ("west: out of order", lambda b, f: f["west"].reverse()),
        ("east: out of order, or twice", lambda b, f: f["east"].append(5)),
        ("only in east", lambda b, f: f["west"].remove(5)),
    ],
)
def test_applications(name: str, change: Callable[[ApplicationBook, Queues], object]) -> None:
    book, found = applications()
    assert judge_applications(book, found) == []
    change(book, found)
    assert named(name, judge_applications(book, found))


def test_a_message_without_a_queue_is_due_back_before_its_confirm() -> None:
    book, found = applications()
    book.send(7, "none.3", mandatory=True)
    book.give_back("none.4")
    assert named("returned though not due", judge_applications(book, found))
    book.answered(7, True)
    assert named("confirmed before it was returned", judge_applications(book, found))


def test_what_did_not_come_back_must_stay_away() -> None:
    book, found = applications()
    for numbers in found.values():
        numbers.remove(5)
    book.recovered(found)
    assert judge_applications(book, found) == []
    found["east"].append(6)
    assert named("east: answered and came back", judge_applications(book, found))


def test_properties_are_part_of_a_message() -> None:
    book, _ = applications()
    mine = commands.Basic.Properties(message_id=id_of(4), headers=headers_of(4))
    book.see(Delivery(1, False, "", "", mine, body_of(4, 50)))
    assert not book.damaged
    theirs = commands.Basic.Properties(message_id=id_of(4), headers=headers_of(5))
    book.see(Delivery(1, False, "", "", theirs, body_of(4, 50)))
    assert book.damaged == [4]
