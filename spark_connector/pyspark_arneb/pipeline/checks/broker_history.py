"""The history that a broker keeps of a subscription: its lines as steps, and the checks on them.

The rule: :func:`read_batch` converts a batch to steps, one for each entry; :func:`check_place`
checks all steps of one entry, :func:`check_consumer` those of one consumer, each in order, and
nothing else has to be in memory. Sources: docs/internals/history.md for the lines,
docs/internals/departures.md for what may happen to an entry.
"""

import json
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pyspark_arneb.pipeline.checks.anomalies import Anomaly, Kind, anomaly

ENTRY_BITS: Final = 32

DONE: Final = frozenset({"acknowledged", "departed"})
MOVES: Final = frozenset({"acknowledged_through", "purged", "skipped", "sought"})
"""Events whose line concerns all entries up to one, or from one on."""


class UnreadableHistory(ValueError):
    """The text is not a batch of a history; the reason is one line."""


@dataclass(frozen=True, slots=True)
class Head:
    """The first line of a batch, which says whose history it is."""

    topic: str
    subscription: str
    run: int
    """When this recording began, in ms; a restart of the broker begins another one."""
    batch: int
    began: int
    """Where the log ended when the run began, as a position."""
    mark_delete: int
    """Up to here everything is acknowledged, as a position."""

    @property
    def where(self) -> str:
        """The history's subscription, in words for users."""
        return f"{self.topic}/{self.subscription}"


@dataclass(frozen=True, slots=True)
class Step:
    """What happened to one entry; a move concerns all entries up to it or from it on."""

    run: int
    number: int
    """Counts the steps of a run."""
    event: str
    place: int
    consumer: str = ""
    at_ms: int = 0
    age_ms: int = -1
    redelivered: bool = False
    reason: str = ""
    dead_lettered: bool = False
    is_part: bool = False
    """It concerns some messages of a batch, not the whole entry."""
    messages: int = 1

    @property
    def order(self) -> tuple[int, int]:
        """The key that sorts steps by time."""
        return self.run, self.number


@dataclass(frozen=True, slots=True)
class Batch:
    """One message of a history's topic."""

    head: Head
    steps: Sequence[Step]
    missed: int
    """Lines that the broker could not keep."""


def place_of(text: str) -> int:
    """Return the position that ``ledger:entry`` names. Raises :class:`ValueError`."""
    ledger, entry = text.split(":")
    return (int(ledger) << ENTRY_BITS) + int(entry)


def render(place: int) -> str:
    """Render a position for users."""
    return f"{place >> ENTRY_BITS}:{place & ((1 << ENTRY_BITS) - 1)}"


END: Final = 1 << 63
"""After every position."""

STEPS_A_BATCH: Final = 1 << 32
"""More steps than a batch can have: multiplied by the batch it numbers steps through all batches of
a run."""


def read_batch(text: bytes | str) -> Batch:
    """Parse a batch of the history's topic. Raises :class:`UnreadableHistory`."""
    try:
        first, *rest = (json.loads(line) for line in text.splitlines())
        head = Head(
            first["topic"],
            first["subscription"],
            int(first["run"]),
            int(first["batch"]),
            place_of(first["began"]),
            place_of(first["mark_delete"]),
        )
        if first["event"] != "batch":
            raise UnreadableHistory(f"expected a batch, got {first['event']!r:.80}")
        steps: list[Step] = []
        missed = 0
        for line in rest:
            if line["event"] == "missed":
                missed += int(line["lines"])
            else:
                steps += _steps(head, len(steps), line)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UnreadableHistory(f"expected a batch of a history: {error!r:.200}") from error
    return Batch(head, steps, missed)


def _steps(head: Head, before: int, line: dict[str, Any]) -> Iterator[Step]:
    again = set(line.get("redelivered", ()))
    ages = line.get("age_ms") or [-1] * len(line["entries"])
    parts = line.get("parts", {})
    count = line.get("messages", len(line["entries"]))
    a_step = count / len(line["entries"]) if line["entries"] else 1
    for index, (entry, age_ms) in enumerate(zip(line["entries"], ages, strict=True)):
        yield Step(
            run=head.run,
            number=head.batch * STEPS_A_BATCH + before + index,
            event=line["event"],
            place=(line["ledger"] << ENTRY_BITS) + entry,
            consumer=line.get("consumer", ""),
            at_ms=line["at"],
            age_ms=age_ms,
            redelivered=entry in again,
            reason=line.get("reason", ""),
            dead_lettered=line.get("dead_lettered", False),
            is_part=str(entry) in parts,
            messages=round(a_step),
        )


@dataclass(frozen=True, slots=True)
class Moves:
    """The moves of one subscription, searchable by the entry that they concern."""

    _reach: tuple[int, ...]
    """The furthest that the cursor was moved up to, since the last seek."""
    _steps: tuple[Step, ...]
    _eras: tuple[int, ...]
    """Where seeks begin a new count."""

    def __repr__(self) -> str:
        return f"<Moves {len(self._steps)}, {len(self._eras) - 1} seeks>"

    @classmethod
    def of(cls, steps: Iterable[Step]) -> "Moves":
        """``steps`` that are moves, in any order."""
        kept: list[Step] = []
        reached: list[int] = []
        eras = [0]
        for step in sorted(steps, key=lambda each: each.order):
            is_seek = step.event == "sought"
            if is_seek and kept:
                eras.append(len(kept))
            fresh = len(kept) == eras[-1]
            reach = -1 if is_seek else step.place
            before = -1 if fresh or not reached else reached[-1]
            if not is_seek and reach <= before and step.event == "acknowledged_through":
                continue  # those before it reached as far
            reached.append(max(before, reach))
            kept.append(step)
        return cls(tuple(reached), tuple(kept), tuple(eras))

    @property
    def reach(self) -> int:
        """Up to here the cursor was moved by one of them; a seek may have put it anywhere."""
        places = [END if step.event == "sought" else step.place for step in self._steps]
        return max(places, default=-1)

    def concerning(self, place: int) -> Iterator[Step]:
        """Yield the moves that reach ``place``, in order."""
        ends = [*self._eras[1:], len(self._steps)]
        for start, end in zip(self._eras, ends, strict=True):
            index = start
            if start < end and self._steps[start].event == "sought":
                yield self._steps[start]
                index = start + 1
            index = bisect_left(self._reach, place, index, end)
            for step in self._steps[index:end]:
                if step.place >= place:
                    yield step


class _Entry:
    """The state of one entry after its steps."""

    def __init__(self, *, is_divided: bool) -> None:
        self.is_divided = is_divided
        self.done: Step | None = None
        self.holder: Step | None = None
        """Its delivery, while it is in flight."""
        self.was_seen = False

    def __repr__(self) -> str:
        return f"<_Entry done by {self.done}, held by {self.holder}>"


def check_place(where: str, steps: Sequence[Step], moves: Moves) -> tuple[bool, list[Anomaly]]:
    """Check all ``steps`` of one entry, in order, among the moves of its subscription; return
    whether it is done, and its anomalies. A history does not say how many messages a batch has, so
    a divided batch counts as done from its first message on."""
    place = steps[0].place
    found: list[Anomaly] = []
    entry = _Entry(is_divided=any(step.is_part for step in steps))
    everything = sorted([*steps, *moves.concerning(place)], key=lambda each: each.order)
    for step in everything:
        if step.event == "delivered":
            found += _delivered(where, entry, step)
        elif step.event in DONE:
            if step.event == "acknowledged" and not entry.was_seen and entry.done is None:
                detail = f"acknowledged by {step.consumer}, and delivered to nobody before"
                found.append(anomaly(Kind.INVENTED, where, render(place), detail))
            entry.done, entry.holder = step, None
        elif step.event == "returned":
            entry.holder = None
        elif step.event == "restored":
            entry.done, entry.holder = None, step
        elif step.event == "sought":
            is_passed = place < step.place
            entry.done, entry.holder, entry.was_seen = step if is_passed else None, None, False
        elif step.event != "purged" or entry.holder is None or entry.holder.run != step.run:
            entry.done, entry.holder = entry.done or step, None
    return entry.done is not None, found


def _delivered(where: str, entry: _Entry, step: Step) -> Iterator[Anomaly]:
    what, done, holder = render(step.place), entry.done, entry.holder
    if not entry.is_divided:
        # A dead letter is done with when its new place is on disk, which a crash may prevent.
        may_return = done is not None and done.dead_lettered and done.run != step.run
        if done is not None and not may_return:
            detail = f"delivered to {step.consumer} after it was {done.event}"
            yield anomaly(Kind.DUPLICATED, where, what, detail)
        elif holder is not None and holder.run == step.run:
            detail = f"delivered to {step.consumer} while in flight at {holder.consumer}"
            yield anomaly(Kind.SHARED, where, what, detail)
        if entry.was_seen and not step.redelivered:
            detail = f"delivered again, to {step.consumer}, without the flag"
            yield anomaly(Kind.UNFLAGGED, where, what, detail)
    entry.done, entry.holder, entry.was_seen = None, step, True


def check_consumer(where: str, steps: Iterable[Step]) -> Iterator[Anomaly]:
    """Check the ``steps`` of one consumer in one run, in order: new entries are delivered in the
    log's order."""
    last = -1
    for step in steps:
        if step.event == "delivered" and not step.redelivered:
            if step.place < last:
                detail = f"{render(step.place)} was delivered behind {render(last)}"
                yield anomaly(Kind.REORDERED, where, step.consumer, detail)
            last = max(last, step.place)


def check_passed(
    where: str,
    ledger: int,
    first: int,
    mark_delete: int,
    known: Iterable[tuple[int, bool]],
    moves: Moves,
) -> Iterator[Anomaly]:
    """Check that everything in one ledger from ``first`` up to ``mark_delete`` is done. ``known``:
    the history's entries there, sorted, and whether they are done. A history does not say where a
    ledger ends that the cursor has left, so entries missing at its end are not noticed."""
    low, high = ledger << ENTRY_BITS, (ledger + 1) << ENTRY_BITS
    expected, end = max(first, low), min(mark_delete + 1, high)
    for place, is_done in known:
        if place >= end:
            break
        if place < expected:
            continue
        yield from _never_recorded(where, expected, place, moves)
        if not is_done:
            detail = "the cursor has passed it, and nothing was done with it"
            yield anomaly(Kind.LOST, where, render(place), detail)
        expected = place + 1
    if end < high:
        yield from _never_recorded(where, expected, end, moves)


def _never_recorded(where: str, first: int, end: int, moves: Moves) -> Iterator[Anomaly]:
    """Report entries that the cursor has passed, from ``first`` to before ``end``, and that no line
    mentions."""
    first = max(first, moves.reach + 1)
    if first < end:
        what = render(first) if end == first + 1 else f"{render(first)} to {render(end - 1)}"
        detail = "the cursor has passed it, and it was never delivered"
        yield anomaly(Kind.LOST, where, what, detail)


def check_batches(where: str, heads: Iterable[tuple[int, int, int]]) -> Iterator[Anomaly]:
    """Check that no batch of one history is missing, given as (run, batch, missed lines),
    sorted."""
    run, expected = -1, 0
    for this_run, batch, missed in heads:
        if this_run != run:
            run, expected = this_run, 0
        if batch != expected:
            detail = f"expected batch {expected} of run {run}, got {batch}"
            yield anomaly(Kind.INCOMPLETE, where, f"run {run}", detail)
        if missed:
            detail = f"the broker could not keep {missed} lines in batch {batch}"
            yield anomaly(Kind.INCOMPLETE, where, f"run {run}", detail)
        expected = batch + 1


def check_history(batches: Iterable[Batch]) -> list[Anomaly]:
    """Return every anomaly of one subscription's history in memory, which the job does in pieces.
    Batches may come in any order, and more than once, as a reader may have read them twice."""
    by_batch = {(each.head.run, each.head.batch): each for each in batches}
    if not by_batch:
        return []
    ordered = [by_batch[key] for key in sorted(by_batch)]
    where, steps = ordered[0].head.where, [step for each in ordered for step in each.steps]
    moves = Moves.of(step for step in steps if step.event in MOVES)
    found = list(check_batches(where, [(*key, by_batch[key].missed) for key in sorted(by_batch)]))
    is_whole = not found
    places: dict[int, list[Step]] = {}
    consumers: dict[tuple[int, str], list[Step]] = {}
    for step in steps:
        if step.event not in MOVES:
            places.setdefault(step.place, []).append(step)
        if step.event == "delivered":
            consumers.setdefault((step.run, step.consumer), []).append(step)
    known: list[tuple[int, bool]] = []
    for place in sorted(places):
        is_done, anomalies = check_place(where, places[place], moves)
        known.append((place, is_done))
        found += anomalies if is_whole else ()
    for theirs in consumers.values():
        found += check_consumer(where, theirs)
    if is_whole:
        first, last = ordered[0].head.began, ordered[-1].head.mark_delete
        for ledger in sorted({*(place >> ENTRY_BITS for place, _ in known), last >> ENTRY_BITS}):
            mine = [each for each in known if each[0] >> ENTRY_BITS == ledger]
            found += check_passed(where, ledger, first, last, mine, moves)
    return found
