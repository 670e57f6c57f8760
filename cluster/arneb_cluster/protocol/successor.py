"""The successor: the node that a leader hands over to.

The rule: the successor was heard from recently, and lacks only what it can read in a moment:
clients wait while it reads, and the other nodes wait for it no longer than for a silent leader.
"""

from typing import Final

from arneb_cluster.protocol.members import Member, Members

HEARD_S: Final = 15.0
"""How recently a live member was heard from: three reports."""

LAG_RECORDS_MAX: Final = 10_000
"""Records a node may lack by its last report: more than a leader writes between two reports, and
what is read in a second or two."""


class NoSuccessor(Exception):
    """No node can take over at once; the text says why."""

    def __init__(self, text: str, *, may_pass: bool = False) -> None:
        """``may_pass``: a coming report may change that."""
        super().__init__(text)
        self.may_pass = may_pass


def successor_of(members: Members, own: str, wanted: str, number: int, now_ms: int) -> str:
    """Return the successor: the wanted node, or if empty the most up-to-date one. ``number``: of
    the leader's last record. Raises :class:`NoSuccessor`."""
    others = {name: each for name, each in members.by_node.items() if name != own}
    if wanted == own:
        raise NoSuccessor("it leads already")
    if wanted and wanted not in others:
        known = ", ".join(f"'{name}'" for name in sorted(others)) or "no other node"
        raise NoSuccessor(f"expected one of its other members, which are {known}, got '{wanted}'")
    unfit = {name: _why_not(each, number, now_ms) for name, each in others.items()}
    fit = [name for name in sorted(others) if not unfit[name]]
    if wanted:
        if unfit[wanted]:
            raise NoSuccessor(f"node '{wanted}' {unfit[wanted]}", may_pass=True)
        return wanted
    if not fit:
        reasons = "; ".join(f"node '{name}' {why}" for name, why in sorted(unfit.items()))
        raise NoSuccessor(reasons or "no other node was heard of", may_pass=True)
    return max(fit, key=lambda name: others[name].report.number)


def _why_not(member: Member, number: int, now_ms: int) -> str:
    silent_s = (now_ms - member.heard_ms) / 1_000
    if silent_s > HEARD_S:
        return f"was not heard of for {silent_s:.0f} s"
    if not member.is_copy:
        return "has no copy yet"
    lag = number - member.report.number
    if lag > LAG_RECORDS_MAX:
        return f"lacks {lag} records"
    return ""
