"""The history of one subscription: the lines that are not on disk yet.

The rule: each run makes one line, at once, and the lines that wait are bounded: when the disk does
not keep up, lines are dropped and counted, and no client waits. A subscription whose history is off
has none of this.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from arneb_core.api.entries.position import (
    ENTRY_BITS,
    ENTRY_MASK,
    Position,
    entry_of,
    ledger_of,
    render,
)
from arneb_core.api.subscriptions.deliveries import Deliveries
from arneb_core.api.subscriptions.limits import Departure
from arneb_core.api.topics.history import Happened
from arneb_core.log.stamps import stamp_of

WAITING_BYTES_MAX: Final = 4 * 1024 * 1024
"""Bytes of lines that wait for a commit: about one second of a busy queue."""

BATCH_BYTES_MAX: Final = 1024 * 1024
"""Bytes of one entry of the history's topic; clients must be able to take it."""

PLACES_MAX: Final = 8_192
"""Entries named in one line, which takes some 2 ms to make."""

Line = dict[str, object]

_encode: Final = json.JSONEncoder(separators=(",", ":")).encode


class History:
    """The unwritten history of a subscription's entries."""

    def __init__(
        self,
        topic: str,
        subscription: str,
        run: str,
        began: Position,
        now_ms: Callable[[], int],
        due: Callable[[], None],
    ) -> None:
        """``run`` names this period of recording, ``began`` is where the log ended when it began;
        ``due`` is called when there is something to write."""
        whose = {"topic": topic, "subscription": subscription, "run": run, "began": render(began)}
        self._whose = whose
        self._now_ms = now_ms
        self._due = due
        self._lines: list[str] = []
        self._bytes = 0
        self._missed = 0
        self._batches = 0
        self._consumers = 0

    def __repr__(self) -> str:
        return f"<History of {self._whose['topic']}/{self._whose['subscription']}, {self._bytes} B>"

    def __bool__(self) -> bool:
        """There is something to write."""
        return bool(self._lines or self._missed)

    # What happens

    def new_consumer(self, name: str) -> str:
        """Return a name that no other consumer has in this run."""
        self._consumers += 1
        return f"{name}#{self._consumers}"

    def delivered(self, consumer: str, run: Deliveries, messages: int) -> None:
        """Record that ``run`` is in flight at ``consumer``."""
        now_ms, positions = self._now_ms(), run.positions
        ages = [now_ms - stamp_of(entry) for entry in run.entries]
        more: Line = {} if messages == len(positions) else {"messages": messages}
        for ledger, part in _by_ledger(positions):
            line: Line = {"consumer": consumer, "ledger": ledger, "entries": _entries(part), **more}
            more = {}
            line["age_ms"] = ages if len(part) == len(positions) else _of(part, positions, ages)
            if run.redelivered:
                again = [each for each in part if each in run.redelivered]
                line["redelivered"] = _entries(again)
                if counts := run.redelivery_counts:
                    line["redeliveries"] = [counts.get(each, 0) for each in again]
            if run.masks:
                line["parts"] = _parts(
                    {each: run.masks[each] for each in part if each in run.masks}
                )
            self._add(Happened.DELIVERED, line)

    def acknowledged(
        self, consumer: str, positions: Sequence[Position], *, is_auto: bool = False
    ) -> None:
        """Record that ``consumer`` acknowledged whole entries. ``is_auto``: by their delivery."""
        more: Line = {"consumer": consumer}
        if is_auto:
            more["auto"] = True
        self._happened(Happened.ACKNOWLEDGED, positions, more)

    def acknowledged_messages(self, consumer: str, position: Position, mask: int) -> None:
        """Record that ``consumer`` acknowledged messages of a batch."""
        more: Line = {"consumer": consumer, "parts": _parts({position: mask})}
        self._happened(Happened.ACKNOWLEDGED, [position], more)

    def acknowledged_through(self, consumer: str, position: Position) -> None:
        """Record that ``consumer`` acknowledged everything up to ``position``."""
        self._happened(Happened.ACKNOWLEDGED_THROUGH, [position], {"consumer": consumer})

    def returned(self, consumer: str, positions: Sequence[Position], *, counted: bool) -> None:
        """Record that ``consumer`` gave these back, or left."""
        more: Line = {"consumer": consumer, "counted": counted}
        self._happened(Happened.RETURNED, positions, more)

    def restored(self, consumer: str, positions: Sequence[Position]) -> None:
        """Record that the commit that was to acknowledge these failed."""
        self._happened(Happened.RESTORED, positions, {"consumer": consumer})

    def departed(
        self, reason: Departure, positions: Sequence[Position], *, is_dead_lettered: bool
    ) -> None:
        """Record that these leave without an acknowledgement."""
        more: Line = {"reason": reason.value, "dead_lettered": is_dead_lettered}
        self._happened(Happened.DEPARTED, positions, more)

    def moved(self, how: Happened, position: Position) -> None:
        """Record that something else moved the cursor through or to ``position``."""
        self._happened(how, [position], {})

    # Writing

    def take(self, mark_delete: Position) -> list[bytes]:
        """Return what is to be written, in batches; ``mark_delete`` is the cursor's."""
        missed, self._missed = self._missed, 0
        if missed:
            self._lines.append(_encode(self._line(Happened.MISSED, {"lines": missed})))
        lines, self._lines, self._bytes = self._lines, [], 0
        batches: list[bytes] = []
        first = 0
        while first < len(lines):
            last, size = first, 0
            while last < len(lines) and (size := size + len(lines[last])) <= BATCH_BYTES_MAX:
                last += 1
            last = max(last, first + 1)
            whose = {**self._whose, "batch": self._batches, "mark_delete": render(mark_delete)}
            head = _encode(self._line(Happened.BATCH, whose))
            batches.append("\n".join([head, *lines[first:last], ""]).encode())
            self._batches += 1
            first = last
        return batches

    def untake(self, batches: Sequence[bytes]) -> None:
        """Put back ``batches``, which did not reach the disk."""
        self._batches -= len(batches)
        lines = [line for each in batches for line in each.decode().splitlines()[1:]]
        self._lines[:0] = lines
        self._bytes += sum(map(len, lines))

    def _happened(self, what: Happened, positions: Sequence[Position], more: Line) -> None:
        for start in range(0, len(positions), PLACES_MAX):
            for ledger, part in _by_ledger(positions[start : start + PLACES_MAX]):
                self._add(what, {**more, "ledger": ledger, "entries": _entries(part)})

    def _line(self, what: Happened, more: Mapping[str, object]) -> Line:
        return {"event": what.value, "at": self._now_ms(), **more}

    def _add(self, what: Happened, more: Line) -> None:
        if self._bytes > WAITING_BYTES_MAX:
            self._missed += 1
            return
        line = _encode(self._line(what, more))
        self._lines.append(line)
        self._bytes += len(line)
        self._due()


def _by_ledger(positions: Sequence[Position]) -> list[tuple[int, Sequence[Position]]]:
    ledgers = {position >> ENTRY_BITS for position in positions}
    if len(ledgers) == 1:  # as it nearly always is
        return [(ledgers.pop(), positions)]
    return [
        (ledger, [position for position in positions if ledger_of(position) == ledger])
        for ledger in sorted(ledgers)
    ]


def _entries(positions: Sequence[Position]) -> list[int]:
    return [position & ENTRY_MASK for position in positions]


def _of(
    part: Sequence[Position], positions: Sequence[Position], values: Sequence[int]
) -> list[int]:
    """Return the values of ``part``, given ``values`` for all ``positions``."""
    known = dict(zip(positions, values, strict=True))
    return [known[position] for position in part]


def _parts(masks: Mapping[Position, int]) -> dict[str, list[int]]:
    """Return, by entry, the message indexes of batches that are not whole."""
    return {
        str(entry_of(position)): [bit for bit in range(mask.bit_length()) if mask >> bit & 1]
        for position, mask in masks.items()
    }
