"""Members: who has a directory of the shard, and up to where the topic may be trimmed.

The rule: nothing is trimmed that a member lacks, alive or not, and nothing at all while fewer than
``copies_min`` have it on disk. The list is a row that is replicated with everything else, so a new
leader knows all of it when it has read the topic up to its own TAKE. Numbers only grow, but for a
member that begins anew with another directory.
"""

import json
from dataclasses import asdict, dataclass, replace
from typing import Any

from arneb_cluster.protocol.entries import VERSION
from arneb_cluster.protocol.values import NOWHERE, Place


@dataclass(frozen=True, slots=True)
class Report:
    """What a member tells of itself."""

    node: str
    directory: str
    """Random, made with the directory."""
    number: int
    """Of the last record whose commit is on its disk, and synced."""
    place: Place
    reads: int = VERSION
    """The highest version of entries that it reads."""


@dataclass(frozen=True, slots=True)
class Member:
    """What is known of one."""

    report: Report
    heard_ms: int
    """When, by the leader's clock."""


@dataclass(frozen=True, slots=True)
class Members:
    """All of them, by node; replaced as a whole."""

    by_node: dict[str, Member]

    def heard(self, report: Report, now_ms: int) -> "Members":
        """One has told of itself. A number that is lower than before, of the same directory, is a
        report that came late; of another, it begins anew."""
        known = self.by_node.get(report.node)
        if (
            known is not None
            and known.report.directory == report.directory
            and report.number < known.report.number
        ):
            report = replace(report, number=known.report.number, place=known.report.place)
        return Members({**self.by_node, report.node: Member(report, now_ms)})

    def without_gone(self, now_ms: int, copies_min: int, gone_after_s: float) -> "Members":
        """Those who were not heard of for long are dropped, the longest first, as long as enough
        are left."""
        left = dict(self.by_node)
        for node, member in sorted(self.by_node.items(), key=lambda each: each[1].heard_ms):
            is_gone = now_ms - member.heard_ms > gone_after_s * 1_000
            if is_gone and len(left) > copies_min:
                del left[node]
        return self if len(left) == len(self.by_node) else Members(left)

    def trim_place(self, copies_min: int) -> Place | None:
        """Everything up to there may go; None: nothing may."""
        if len(self.by_node) < copies_min:
            return None
        # Places, not numbers: whoever has more may have to read on from before.
        lowest = min(each.report.place for each in self.by_node.values())
        return None if lowest == NOWHERE else lowest

    @property
    def version(self) -> int:
        """The highest version of entries that all of them read."""
        return min((each.report.reads for each in self.by_node.values()), default=VERSION)

    def pack(self) -> bytes:
        """For the row."""
        return json.dumps(
            {node: asdict(each) for node, each in self.by_node.items()}, sort_keys=True
        ).encode()

    @classmethod
    def unpack(cls, value: bytes | None) -> "Members":
        """None: a shard that has no list yet. Raises :class:`ValueError`."""
        if value is None:
            return cls({})
        found: Any = json.loads(value)
        try:
            return cls({node: _member_of(each) for node, each in found.items()})
        except (TypeError, KeyError, AttributeError) as error:
            raise ValueError(f"expected a list of members, got {value[:200]!r}") from error


def _member_of(fields: dict[str, Any]) -> Member:
    report = dict(fields["report"])
    report["place"] = Place(*report["place"])
    return Member(Report(**report), fields["heard_ms"])
