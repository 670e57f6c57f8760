"""Members: the nodes with a directory of the shard, and how far the topic may be trimmed.

The rule: nothing is trimmed that a member lacks, alive or not, and nothing at all while fewer than
``copies_min`` members have it on disk. The list is a row that is replicated with everything else,
so a new leader has all of it once it has read the topic up to its own TAKE. Numbers only grow,
except for a member that starts over, perhaps with another directory.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Final

from arneb_cluster.protocol.entries import VERSION
from arneb_cluster.protocol.values import NOWHERE, Place

MEMBERS_MAX: Final = 64
"""Members of one shard. The row that lists them is rewritten every minute; more than a handful are
of no use, and writers to the topic of reports must not make it grow."""

REPORT_BYTES_MAX: Final = 4_096

TEXT_BYTES_MAX: Final = 255
"""Bytes of a name or an address."""


@dataclass(frozen=True, slots=True)
class Copies:
    """Requirements on copies."""

    copies_min: int = 2
    """Members that must have an entry on disk before it is trimmed."""
    gone_after_s: float = 24 * 3_600.0
    """Trimming no longer waits for a member that was not heard from for this long, if enough are
    left."""
    report_s: float = 5.0
    """The time between two reports of a member."""


@dataclass(frozen=True, slots=True)
class Report:
    """A member's report on itself."""

    node: str
    run: str
    """Random, drawn when the node started: its earlier directory may have been replaced since."""
    number: int
    """The number of the last record whose commit is synced to its disk."""
    place: Place
    reads: int = VERSION
    """The highest entry version it reads."""
    is_copying: bool = False
    """Whether it has nothing yet and is being given a copy, which has at least this number."""
    internal: str = ""
    """Its address for other nodes."""
    history: str = ""
    """The history of its directory; empty while it has nothing."""
    leads: bool = False
    """Whether it leads: others should give copies first."""


@dataclass(frozen=True, slots=True)
class Member:
    """What is known of a member."""

    report: Report
    heard_ms: int
    """When it last reported, by the leader's clock."""

    @property
    def is_copy(self) -> bool:
        """Whether it has on disk what it reported."""
        return not self.report.is_copying and self.report.place != NOWHERE


@dataclass(frozen=True, slots=True)
class Members:
    """All members, by node; replaced as a whole."""

    by_node: dict[str, Member]

    def heard(self, report: Report, now_ms: int) -> "Members":
        """Return the members after a report. A lower number of the same run is a late report,
        unless a copy was abandoned; another run starts over."""
        known = self.by_node.get(report.node)
        if known is None and len(self.by_node) >= MEMBERS_MAX:
            return self
        if (
            known is not None
            and known.report.run == report.run
            and known.report.place > report.place
            and not known.report.is_copying
        ):
            report = replace(report, number=known.report.number, place=known.report.place)
        return Members({**self.by_node, report.node: Member(report, now_ms)})

    def without_gone(self, now_ms: int, asked: Copies) -> "Members":
        """Return the members without those that have been silent for too long, the longest silent
        first, as long as enough are left."""
        left = dict(self.by_node)
        for node, member in sorted(self.by_node.items(), key=lambda each: each[1].heard_ms):
            copies = sum(each.is_copy for name, each in left.items() if name != node)
            if _is_gone(member, now_ms, asked) and copies >= asked.copies_min:
                del left[node]
        return self if len(left) == len(self.by_node) else Members(left)

    def trim_place(self, copies_min: int) -> Place | None:
        """Return the place up to which the topic may be trimmed; None: nothing may go."""
        if sum(each.is_copy for each in self.by_node.values()) < copies_min:
            return None
        # Places, not numbers: a member with a higher number may have to read on from an earlier
        # place.
        lowest = min(each.report.place for each in self.by_node.values())
        return None if lowest == NOWHERE else lowest

    def missing(self, now_ms: int, asked: Copies) -> str:
        """Return why the topic is no longer trimmed; empty if nothing is wrong."""
        copies = sorted(name for name, each in self.by_node.items() if each.is_copy)
        if len(copies) < asked.copies_min:
            those = f" ({', '.join(copies)})" if copies else ""
            return (
                f"the log topic is not trimmed: {len(copies)} of {asked.copies_min} nodes{those} "
                "have a copy"
            )
        gone = [
            f"{name} for {(now_ms - each.heard_ms) // 3_600_000} h"
            for name, each in sorted(self.by_node.items())
            if _is_gone(each, now_ms, asked)
        ]
        if gone:
            return (
                f"the log topic is not trimmed: nothing was heard of {', '.join(gone)}, and "
                f"without it fewer than {asked.copies_min} nodes would have a copy"
            )
        return ""

    @property
    def version(self) -> int:
        """The highest entry version that all members read."""
        return min((each.report.reads for each in self.by_node.values()), default=VERSION)

    @property
    def runs(self) -> dict[str, tuple[str, bool, str]]:
        """The members' identities, regardless of their progress."""
        return {
            name: (each.report.run, each.report.is_copying, each.report.internal)
            for name, each in self.by_node.items()
        }

    def pack(self) -> bytes:
        """Return the row's value."""
        return json.dumps(
            {node: asdict(each) for node, each in self.by_node.items()}, sort_keys=True
        ).encode()

    @classmethod
    def unpack(cls, value: bytes | None) -> "Members":
        """Decode the row; None: the shard has no list yet. Raises :class:`ValueError`."""
        if value is None:
            return cls({})
        found: Any = json.loads(value)
        try:
            return cls({node: _member_of(each) for node, each in found.items()})
        except (TypeError, KeyError, AttributeError) as error:
            raise ValueError(f"expected a list of members, got {value[:200]!r}") from error


def pack_report(report: Report) -> bytes:
    """Return a report as bytes."""
    return json.dumps(asdict(report), sort_keys=True).encode()


def parse_report(data: bytes) -> Report:
    """Raises :class:`ValueError`."""
    if len(data) > REPORT_BYTES_MAX:
        raise ValueError(f"expected at most {REPORT_BYTES_MAX} bytes, got {len(data)}")
    try:
        return _report_of(json.loads(data))
    except (TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ValueError(f"expected a member's report, got {data[:200]!r}") from error


FIELDS: Final[Sequence[str]] = tuple(each.name for each in fields(Report))


def _report_of(found: Any) -> Report:
    """Decode a report; fields of later versions are ignored."""
    given = {name: found[name] for name in FIELDS if name in found}
    ledger, entry = given["place"]
    given["place"] = Place(ledger, entry)
    made = Report(**given)
    texts = made.node, made.run, made.internal, made.history
    numbers = (made.number, made.reads, *made.place)
    if not all(type(each) is str and len(each.encode()) <= TEXT_BYTES_MAX for each in texts):
        raise TypeError(f"expected texts of at most {TEXT_BYTES_MAX} bytes")
    if not made.node or not all(type(each) is int for each in numbers):
        raise TypeError("expected a name, and numbers")
    if not all(type(each) is bool for each in (made.is_copying, made.leads)):
        raise TypeError("expected whether it is copying, and whether it leads")
    return made


def _member_of(found: dict[str, Any]) -> Member:
    heard_ms = found["heard_ms"]
    if type(heard_ms) is not int:
        raise TypeError("expected when it was heard of")
    return Member(_report_of(found["report"]), heard_ms)


def _is_gone(member: Member, now_ms: int, asked: Copies) -> bool:
    return now_ms - member.heard_ms > asked.gone_after_s * 1_000
