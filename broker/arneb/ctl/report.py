"""The report: one text with everything that an operator sends along when asking for help.

The rule: it is the output of other commands, one after the other; none of them shows secrets.
"""

from collections.abc import Callable
from typing import Final

from arneb.ctl import lists, nodes, objects, people
from arneb.ctl.session import Command, Session

PARTS: Final = (
    "status", "cluster_status", "environment", "list_connections", "list_channels",
    "list_queues", "list_exchanges", "list_bindings", "list_consumers", "list_permissions",
    "list_policies", "list_parameters", "list_vhost_limits",
)  # fmt: skip

OF_VHOST: Final = frozenset(PARTS[5:])
"""The parts that are shown for each vhost."""


def _report(session: Session) -> None:
    run: dict[str, Callable[[Session], None]] = {
        each.name: each.run
        for module in (lists, nodes, objects, people)
        for each in module.COMMANDS
    }
    vhosts = [each["name"] for each in session.get("vhosts")]
    session.says(f"Reporting server status of node {session.node} ...")
    session.arguments = []
    for name in PARTS:
        if name == "environment" and not session.is_trusted:
            continue
        for vhost in vhosts if name in OF_VHOST else [session.vhost]:
            session.options["vhost"] = vhost
            session.output.text("")
            run[name](session)


COMMANDS: Final = (
    Command("report", "", "Generate a server status report containing all that is asked for in "
            "case of trouble", _report, 0, 0),
)  # fmt: skip
