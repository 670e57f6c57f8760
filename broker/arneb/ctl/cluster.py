"""The cluster: a node's state as a member, and handing the leadership over.

The rule: the node is asked by its control socket, whether it leads or not, and tells only what it
knows itself. Whichever node gets the command, the leader hands over; no node takes the leadership.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from arneb.ctl.exits import ExitCode, Failed
from arneb.ctl.session import Command, Misused, Session

RE_FOUND: Final = "re-found"
"""The subcommand that ``arneb ctl`` carries out without a broker."""
COPYING: Final = "copying"
"""The state of a node that fetches a copy before it takes part."""

TO: Final = "to"


def _cluster(session: Session) -> None:
    name, *arguments = session.arguments
    command = SUBCOMMANDS.get(name)
    if command is None:
        raise Misused(f"expected {' or '.join((*SUBCOMMANDS, RE_FOUND))}, got {name}")
    command(session, *arguments)


def _status(session: Session, *arguments: str) -> None:
    if arguments or TO in session.options:
        raise Misused("status takes no arguments")
    found = session.steer("GET", "about").get("cluster")
    if found is None:
        raise Failed(ExitCode.UNAVAILABLE, f"Error: {session.node} is not a member of a cluster")
    shards = [found, *found.get("others", ())]
    named = "shard" if len(shards) == 1 else "shards"
    names = ", ".join(each["shard"] for each in shards)
    session.says(f"Status of node {found['node']} in {named} {names} ...")
    session.output.value(found, "\n\n".join("\n".join(_lines(each)) for each in shards))


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
        lines.append(f"Lag: {lag}")
        if "carried" in found:  # counted for the node, not by shard
            lines.append(f"Carried clients: {found['carried']}")
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


def _hand_over(session: Session, shard: str = "") -> None:
    to = session.options.get(TO, "")
    session.says(f"Handing {shard or 'the shard'} over to {to or 'another node'} ...")
    done = session.steer("POST", "hand-over", {"shard": shard, "to": to})
    line = "{node} leads {shard} in epoch {epoch}, {took_s:.2f} s later".format_map(done)
    session.output.value(done, line)


SUBCOMMANDS: Final[Mapping[str, Callable[..., None]]] = {
    "status": _status,
    "hand-over": _hand_over,
}

COMMANDS: Final = (
    Command("cluster", f"status | hand-over [<shard>] [--to <node>] | {RE_FOUND} [--yes]",
            "Displays a node's state in a cluster, makes another lead, or begins a new history",
            _cluster, 1, 2, frozenset({TO}), runs_stopped=True),
)  # fmt: skip
