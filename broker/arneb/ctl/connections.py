"""Connections: closes them for an operator, with a reason that their clients are told.

The rule: a connection is named by its process id, as the lists show it.
"""

from typing import Any, Final

from arneb.ctl.session import Command, Session


def _close_connection(session: Session) -> None:
    pid, *words = session.arguments
    reason = " ".join(words)
    session.says(f"Closing connection {pid}, reason: {reason}...")
    for each in session.get("connections"):
        if each["pid"] == pid:
            _close(session, each, reason)


def _close(session: Session, connection: dict[str, Any], reason: str) -> int:
    headers = {"x-reason": reason.encode("ascii", "replace").decode()}
    answer = session.api("DELETE", "connections", connection["name"], headers=headers)
    return int(answer.is_done)


def _close_all(session: Session) -> None:
    reason = " ".join(session.arguments)
    vhost = None if "global" in session.options else session.vhost
    where = "" if vhost is None else f" in vhost {vhost}"
    session.says(f"Closing all connections{where}, reason: {reason}...")
    most = int(session.options.get("limit", "0") or 0)
    chosen = [each for each in session.get("connections") if vhost in (None, each["vhost"])]
    closed = sum(_close(session, each, reason) for each in chosen[: most or None])
    session.output.text(f"Closed {closed} connections")


def _close_of_user(session: Session) -> None:
    user, *words = session.arguments
    reason = " ".join(words)
    session.says(f"Closing connections of user {user}, reason: {reason}...")
    for each in session.get("connections"):
        if each["user"] == user:
            _close(session, each, reason)


COMMANDS: Final = (
    Command("close_connection", "<connection pid> <explanation>",
            "Instructs the broker to close the connection", _close_connection, 2),
    Command("close_all_connections", "[--vhost <vhost> --limit <limit>] [-n <node> --global] "
            "<explanation>", "Instructs the broker to close all connections for the vhost",
            _close_all, 1, None, frozenset({"vhost", "limit", "global", "per-connection-delay"})),
    Command("close_all_user_connections", "<username> <explanation>",
            "Instructs the broker to close all connections of the specified user", _close_of_user,
            2),
)  # fmt: skip
