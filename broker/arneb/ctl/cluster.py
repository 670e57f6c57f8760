"""The cluster: how a node does as a member, and who leads.

The rule: it is the node that is asked, by its control socket, whether it leads or not; what it says
is what it knows itself.
"""

from collections.abc import Mapping
from typing import Any, Final

from arneb.ctl.exits import ExitCode, Failed
from arneb.ctl.session import Command, Misused, Session

STATUS: Final = "status"
COPYING: Final = "copying"
"""The state of a node that takes a copy before it takes part."""


def _cluster(session: Session) -> None:
    if session.arguments[0] != STATUS:
        raise Misused(f"expected {STATUS}, got {session.arguments[0]}")
    found = session.steer("GET", "about").get("cluster")
    if found is None:
        raise Failed(ExitCode.UNAVAILABLE, f"Error: {session.node} is not a member of a cluster")
    session.says(f"Status of node {found['node']} in shard {found['shard']} ...")
    session.output.value(found, "\n".join(_lines(found)))


def _lines(found: Mapping[str, Any]) -> list[str]:
    if found["state"] == COPYING:
        return [
            f"Node: {found['node']}",
            f"Shard: {found['shard']}",
            f"State: {COPYING}, {found['step']}",
            f"From: {found['source'] or '(nobody yet)'}",
            f"Copied: {found['bytes_done']} of {found['bytes_total']} bytes",
        ]
    leader = found["leader"] or "(nobody yet)"
    lines = [
        f"Node: {found['node']}",
        f"Shard: {found['shard']}",
        f"State: {found['state']}",
        f"Leader: {leader}, epoch {found['epoch']}",
        f"Record: {found['number']}",
    ]
    if found["leads"]:
        answers = "holds" if found["serves"] else "does not hold: the log does not answer"
        lines += [f"Under way: {found['under_way']} records", f"Lease: {answers}"]
    else:
        lag = f"{found['lag_records']} records, {found['lag_bytes']} bytes, {found['lag_s']:.1f} s"
        lines += [f"Lag: {lag}", f"Carried clients: {found['carried']}"]
    alarm = ", which is too much" if found["skew_alarm"] else ""
    lines.append(f"Clock: {found['skew_ms']} ms ahead of the leader's{alarm}")
    lines += [_member(each) for each in found["members"]]
    if found["trim_alarm"]:
        lines.append(f"Alarm: {found['trim_alarm']}")
    if found["why"]:
        lines.append(f"Last ended: {found['why']}")
    return lines


def _member(found: Mapping[str, Any]) -> str:
    has = "is given a copy from" if found["is_copying"] else "has on disk up to"
    ago = f"heard of {found['heard_s']:.0f} s ago"
    return f"Member: {found['node']}, {has} record {found['number']}, {ago}"


COMMANDS: Final = (
    Command("cluster", "status", "Displays how the node does as a member of a cluster", _cluster,
            1, 1, runs_stopped=True),
)  # fmt: skip
