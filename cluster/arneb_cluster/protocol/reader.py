"""The log reader: decides which entries of the topic count, and assembles their commits.

The rule: what counts is a function of the topic's content alone. A TAKE counts if its epoch is
above that of the last one that did; a record counts if it belongs to that TAKE and follows the last
record that counted. Everything else is skipped and changes nothing: the next record may still come
after it.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Final

from arneb_cluster.protocol.entries import EntryCorrupt, Kind, Record, parse_entry
from arneb_cluster.protocol.values import Applied, Leader, Place, Take

PARTS_BYTES_MAX: Final = 1 << 30
"""Bytes of the parts of an incomplete commit. The leader that made them had them in memory, too,
and refuses a larger commit."""


class Verdict(Enum):
    """The verdict on an entry."""

    TAKEN = "a TAKE that counts"
    COUNTED = "a record that counts"
    STALE_TAKE = "a TAKE whose epoch is not above the last one's"
    FOREIGN_TAKE = "a TAKE of another shard or history"
    OTHER_LEADER = "a record of another TAKE"
    DOUBLE = "a record that counted before, or one in its place"
    AHEAD = "a record whose predecessor is missing, and may still come"
    LACKING = "a record before which its leader has stored, or has written, what is not there"
    UNCHAINED = "the next record's number with another checksum before it"
    GARBAGE = "no entry of this protocol"
    SEEN = "an entry that was read before"


@dataclass(frozen=True, slots=True)
class Commit:
    """A complete commit: apply it, with :attr:`applied` in the same transaction."""

    body: bytes
    """As made by :func:`arneb_core.store.format.commit_record.pack_changes`; empty if there is
    nothing to apply: a heartbeat."""
    applied: Applied


class LogReader:
    """Reads one topic in order. A directory without a history adopts that of the first TAKE.
    :meth:`read` raises :class:`.UnknownVersion`."""

    def __init__(self, shard: str, applied: Applied) -> None:
        self._shard = shard
        self._applied = applied.link.number
        self.history = applied.history
        self.link = applied.base
        self.place = applied.place
        """The place of the last entry read, whether it counted or not."""
        self.entry: Take | Record | None = None
        """The last entry read; None: not of this protocol."""
        self.leader = _leader_of(shard, applied)
        """The last TAKE that counts; None if there was none yet, or the directory does not name its
        author."""
        self.epoch = applied.epoch
        self.take_place = applied.take_place
        self.stamp_ms = applied.stamp_ms
        self.resigned = False
        """Whether the last record that counted is a resignation."""
        self._saw_foreign = False
        """Whether a TAKE of another shard or history was seen, whose records do not count
        either."""
        self._parts: list[bytes] = []
        self._parts_bytes = 0

    def __repr__(self) -> str:
        return (
            f"<LogReader of {self._shard} at {self.place}, epoch {self.epoch}, record "
            f"{self.link.number}>"
        )

    def read(self, place: Place, data: bytes) -> tuple[Verdict, Commit | None]:
        """Take the next entry; return the verdict and the commit it completes, if any."""
        is_seen, self.entry = place <= self.place, None
        self.place = max(self.place, place)
        try:
            entry = self.entry = parse_entry(data)
        except EntryCorrupt:
            return Verdict.SEEN if is_seen else Verdict.GARBAGE, None
        if is_seen:
            return Verdict.SEEN, None
        if isinstance(entry, Take):
            return self._take(place, entry), None
        verdict = self._judge(entry)
        if verdict is not Verdict.COUNTED:
            return verdict, None
        return verdict, self._count(place, entry)

    def pass_by(self, place: Place) -> None:
        """Skip an entry that is not a TAKE while this node leads: it knows itself what counts."""
        self.place = max(self.place, place)

    def _take(self, place: Place, take: Take) -> Verdict:
        if take.shard != self._shard or take.history != (self.history or take.history):
            self._saw_foreign = True
            return Verdict.FOREIGN_TAKE
        self.history = take.history
        if take.epoch <= self.epoch:
            return Verdict.STALE_TAKE
        self.epoch, self.take_place = take.epoch, place
        self.leader = Leader(take, place)
        self.resigned = False
        self._parts, self._parts_bytes = [], 0  # it will never be complete
        return Verdict.TAKEN

    def _judge(self, record: Record) -> Verdict:
        if record.epoch > self.epoch and not self._saw_foreign:
            return Verdict.LACKING  # its TAKE preceded it
        if (record.epoch, record.take_place) != (self.epoch, self.take_place):
            return Verdict.OTHER_LEADER
        if record.number <= self.link.number:
            return Verdict.DOUBLE
        if record.stored > self.link.number:
            return Verdict.LACKING
        if record.number > self.link.number + 1:
            return Verdict.AHEAD
        return Verdict.COUNTED if record.before == self.link.checksum else Verdict.UNCHAINED

    def _count(self, place: Place, record: Record) -> Commit | None:
        self.link = record.link
        self.stamp_ms = max(self.stamp_ms, record.stamp_ms)
        self.resigned = record.kind is Kind.RESIGNATION
        if record.kind is Kind.PART:
            self._parts_bytes += len(record.body)
            if self._parts_bytes > PARTS_BYTES_MAX:
                raise EntryCorrupt(
                    f"expected a commit of at most {PARTS_BYTES_MAX} bytes, got "
                    f"{self._parts_bytes} up to record {record.number}"
                )
            self._parts.append(record.body)
            return None
        if record.kind is Kind.CHANGES:
            body = b"".join((*self._parts, record.body))
            self._parts, self._parts_bytes = [], 0
        elif self._parts:
            return None  # within a commit a directory's number stays before it
        else:
            body = b""
        if self.link.number <= self._applied:
            return None
        leader = self.leader
        applied = Applied(
            self.history,
            self.link,
            place,
            self.link,
            self.epoch,
            self.take_place,
            self.stamp_ms,
            leader.take.node if leader is not None else "",
            leader.addresses if leader is not None else (),
        )
        return Commit(body, applied)


def _leader_of(shard: str, applied: Applied) -> Leader | None:
    if not applied.leader:
        return None
    take = Take(
        shard, applied.history, applied.epoch, applied.leader, "", dict(applied.addresses)
    )  # its nonce mattered only to its author
    return Leader(take, applied.take_place)
