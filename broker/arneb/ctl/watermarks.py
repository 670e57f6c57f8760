"""Watermarks: the thresholds of the memory and disk alarms.

The rule: they change in the running broker and last until it restarts.
"""

from typing import Any, Final

from arneb.ctl.session import Command, Misused, Session
from arneb.ctl.sizes import bytes_in, part_in
from arneb.settings.watermarks import memory_available_bytes


def _set_memory_watermark(session: Session) -> None:
    first, *rest = session.arguments
    if first == "absolute":
        if len(rest) != 1:
            raise Misused("not enough arguments.")
        limit: dict[str, Any] = {"memory_high_watermark_bytes": bytes_in(rest[0])}
        session.says(f"Setting memory threshold on {session.node} to {rest[0]} bytes ...")
    else:
        if rest:
            raise Misused("too many arguments.")
        limit = {"memory_high_watermark": part_in(first)}
        session.says(f"Setting memory threshold on {session.node} to {first} ...")
    session.checked(session.ask("PUT", "/api/alarms", limit))


def _set_disk_limit(session: Session) -> None:
    first, *rest = session.arguments
    if first == "mem_relative":
        if len(rest) != 1:
            raise Misused("not enough arguments.")
        part = part_in(rest[0], most=None)
        [node] = session.get("nodes")
        wanted = int(part * memory_available_bytes())
        session.says(
            f"Setting disk free limit on {node['name']} to {rest[0]} times the total RAM ..."
        )
    else:
        wanted = bytes_in(first)
        session.says(f"Setting disk free limit on {session.node} to {first} bytes ...")
    session.checked(session.ask("PUT", "/api/alarms", {"disk_free_min_bytes": wanted}))


COMMANDS: Final = (
    Command("set_vm_memory_high_watermark", "<fraction> | absolute <value>",
            "Sets the vm_memory_high_watermark setting", _set_memory_watermark, 1, 2),
    Command("set_disk_free_limit", "<disk_limit> | mem_relative <fraction>",
            "Sets the disk_free_limit setting", _set_disk_limit, 1, 2),
)  # fmt: skip
