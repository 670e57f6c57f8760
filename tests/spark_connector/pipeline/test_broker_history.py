"""The checks of a broker's history: silent on what a simple broker does, and not on any defect."""

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.spark_connector.pipeline.histories import OPERATIONS, WHERE, ModelBroker, played

from pyspark_arneb.pipeline.checks.broker_history import (
    UnreadableHistory,
    check_history,
    read_batch,
    render,
)

Line = dict[str, Any]


@given(operations=OPERATIONS)
def test_a_broker_that_obeys_every_rule_has_a_clean_history(
    operations: list[tuple[str, int]],
) -> None:
    assert check_history(played(operations).history) == []


@given(operations=OPERATIONS, data=st.data())
def test_batches_may_come_in_any_order_and_twice(
    operations: list[tuple[str, int]], data: st.DataObject
) -> None:
    history = played(operations).history
    shuffled = data.draw(st.permutations([*history, *history[:2]]))
    assert check_history(shuffled) == []


Spoil = Callable[[list[Line]], bool]
"""Puts a defect into a history; False if it found no place for one."""

SOMETHING = [("publish", 2), ("deliver", 2), ("ack", 0), ("requeue", 0), ("deliver", 0)]
"""So that there is a place."""


def deliver_what_is_acknowledged(lines: list[Line]) -> bool:
    at = next((n for n, line in enumerate(lines) if line["event"] == "acknowledged"), None)
    if at is None:
        return False
    entries = lines[at]["entries"]
    again = {"event": "delivered", "at": 1, "consumer": "c9", "ledger": 1, "age_ms": [1]}
    lines.insert(at + 1, {**again, "entries": entries, "redelivered": entries})
    return True


def take_away_a_flag(lines: list[Line]) -> bool:
    flagged = [line for line in lines if line.get("redelivered")]
    first_time = {
        entry for line in lines if line["event"] == "delivered" for entry in line["entries"]
    }
    for line in flagged:
        earlier = lines[: lines.index(line)]
        seen = {e for each in earlier if each["event"] == "delivered" for e in each["entries"]}
        if seen & set(line["redelivered"]) & first_time:
            line["redelivered"] = []
            return True
    return False


def deliver_at_two_places(lines: list[Line]) -> bool:
    at = next((n for n, line in enumerate(lines) if line["event"] == "delivered"), None)
    if at is None:
        return False
    entries = lines[at]["entries"]
    lines.insert(at + 1, {**lines[at], "consumer": "c9", "redelivered": entries})
    return True


def turn_a_run_round(lines: list[Line]) -> bool:
    for line in lines:
        if line["event"] == "delivered" and len(line["entries"]) > 1 and "redelivered" not in line:
            line["entries"].reverse()
            return True
    return False


def acknowledge_what_nobody_had(lines: list[Line]) -> bool:
    at = next((n for n, line in enumerate(lines) if line["event"] == "delivered"), None)
    if at is None or "redelivered" in lines[at]:
        return False
    entries = lines[at]["entries"][:1]
    line = {"event": "acknowledged", "at": 1, "consumer": "c9", "ledger": 1, "entries": entries}
    lines.insert(at, line)
    return True


@pytest.mark.parametrize(
    ("spoil", "kind"),
    [
        (deliver_what_is_acknowledged, "duplicated"),
        (take_away_a_flag, "unflagged"),
        (deliver_at_two_places, "shared"),
        (turn_a_run_round, "reordered"),
        (acknowledge_what_nobody_had, "invented"),
    ],
)
@given(operations=OPERATIONS)
def test_each_defect_is_noticed(spoil: Spoil, kind: str, operations: list[tuple[str, int]]) -> None:
    broker = ModelBroker()
    for operation, number in [*SOMETHING, *operations]:
        if operation not in ("flush", "crash"):  # one batch, so that lines can be put anywhere
            broker.do(operation, number)
    broker.flush()
    assume(broker.batches)
    head, *lines = [json.loads(line) for line in broker.batches[0].splitlines()]
    assume(spoil(lines))
    found = check_history([read_batch("\n".join(map(json.dumps, [head, *lines])))])
    assert kind in {each.kind for each in found}


@given(operations=OPERATIONS, data=st.data())
def test_an_entry_that_the_cursor_passed_in_silence_is_lost(
    operations: list[tuple[str, int]], data: st.DataObject
) -> None:
    broker = played([*SOMETHING, *((a, n) for a, n in operations if a not in ("purge", "crash"))])
    head = read_batch(broker.batches[-1]).head if broker.batches else None
    assume(head is not None and head.mark_delete & 0xFFFF_FFFF != 0xFFFF_FFFF)
    assert head is not None
    entry = data.draw(st.integers(0, head.mark_delete & 0xFFFF_FFFF))
    texts = []
    for text in broker.batches:
        first, *lines = [json.loads(line) for line in text.splitlines()]
        for line in lines:
            keep = [n for n, each in enumerate(line["entries"]) if each != entry]
            for name in ("entries", "age_ms"):
                if name in line:
                    line[name] = [line[name][n] for n in keep]
        texts.append(
            "\n".join(map(json.dumps, [first, *(each for each in lines if each["entries"])]))
        )
    found = check_history(map(read_batch, texts))
    assert [(each.kind, each.what) for each in found] == [("lost", f"1:{entry}")]


def test_a_batch_that_is_not_there_is_named_and_nothing_is_concluded_from_silence() -> None:
    broker = ModelBroker()
    for operation in ("publish", "deliver", "flush", "ack", "flush", "publish", "deliver"):
        broker.do(operation, 0)
    broker.flush()
    history = broker.history
    del history[1]
    (found,) = check_history(history)
    assert str(found) == f"incomplete: {WHERE} run 1000: expected batch 1 of run 1000, got 2"


def test_lines_that_the_broker_could_not_keep_make_a_history_incomplete() -> None:
    broker = played([("publish", 0), ("deliver", 0)])
    broker.batches[0] += json.dumps({"event": "missed", "at": 1, "lines": 3}) + "\n"
    (found,) = check_history(broker.history)
    assert found.kind == "incomplete" and "3 lines" in found.detail


def test_a_dead_letter_may_come_back_when_the_broker_died_on_the_way() -> None:
    """It is done with when its new place is on disk."""
    broker = ModelBroker()
    for operation in ("publish", "deliver", "reject", "crash"):
        broker.do(operation, 0)
    broker.done.clear()
    broker.ready = [0]
    broker.do("deliver", 1)
    broker.flush()
    assert check_history(broker.history) == []


@pytest.mark.parametrize(
    "text",
    ["", "x", "[]", "{}", '{"event": "batch"}', '{"event":"delivered","topic":"t"}', "1\n2", '"a"'],
)
def test_what_is_no_batch_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(UnreadableHistory) as caught:
        read_batch(text)
    assert "\n" not in str(caught.value)


@given(text=st.text() | st.binary())
def test_nothing_that_stands_in_a_topic_breaks_the_reader(text: str | bytes) -> None:
    with suppress(UnreadableHistory):
        read_batch(text)


def test_places_are_shown_as_everywhere() -> None:
    assert render((3 << 32) + 17) == "3:17"
