"""Shovels: their status, restart and deletion; and federation, which does nothing here.

The rule: a command is a call of the management API; texts and columns are those of the commands in
RabbitMQ's plugins.
"""

from typing import Any, Final

from arneb.ctl.exits import ExitCode, Failed, error
from arneb.ctl.session import TABLE_OPTIONS, Command, Session
from arneb.ctl.terms import Atom

VHOST: Final = frozenset({"vhost"})

COLUMNS: Final = (
    "name", "vhost", "type", "state", "source", "destination", "termination_reason",
    "last_changed",
)  # fmt: skip

NO_FEDERATION: Final = "No federation links: upstreams are kept, and nothing is federated"


def _row(shovel: dict[str, Any]) -> list[Any]:
    return [
        shovel["name"], shovel["vhost"], Atom(shovel["type"]), Atom(shovel["state"]),
        shovel.get("src_uri", ""), shovel.get("dest_uri", ""), shovel.get("reason", ""),
        shovel["timestamp"],
    ]  # fmt: skip


def _status(session: Session) -> None:
    session.says(f"Shovel status of node {session.node}")
    session.output.rows(COLUMNS, [_row(each) for each in session.get("shovels")])


def _missing(session: Session) -> Failed:
    return error(
        ExitCode.UNAVAILABLE,
        "Shovel with the given name was not found on the target node "
        f"'{session.node}' and / or virtual host '{session.vhost}'",
    )


def _delete(session: Session) -> None:
    name, vhost = session.arguments[0], session.vhost
    session.says(f"Deleting shovel {name} in vhost {vhost}")
    session.of(_missing(session), "DELETE", "shovels", "vhost", vhost, name)


def _restart(session: Session) -> None:
    name, vhost = session.arguments[0], session.vhost
    session.says(f"Restarting dynamic Shovel {name} in virtual host {vhost} on node {session.node}")
    session.of(_missing(session), "DELETE", "shovels", "vhost", vhost, name, "restart")


def _federation(session: Session) -> None:
    session.says(f"Listing federation links on node {session.node}...")
    session.get("federation-links")
    session.says(NO_FEDERATION)


COMMANDS: Final = (
    Command("shovel_status", "[--no-table-headers]", "Displays status of Shovel on a node",
            _status, 0, 0, TABLE_OPTIONS),
    Command("delete_shovel", "[--vhost <vhost>] <name>", "Deletes a Shovel", _delete, 1, 1, VHOST),
    Command("restart_shovel", "[--vhost <vhost>] <name>", "Restarts a dynamic Shovel", _restart,
            1, 1, VHOST),
    Command("federation_status", "[--only-down]", "Displays federation link status", _federation,
            0, 0, frozenset({"only-down"})),
)  # fmt: skip
