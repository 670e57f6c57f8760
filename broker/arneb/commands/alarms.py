"""``arneb alarms``: shows a running broker's resource alarms, and shows or sets its watermarks."""

from typing import Any, Final

import click

from arneb.commands.asking import ask, unlike
from arneb.logs.visible import visible

PATH: Final = "/api/alarms"


@click.command(short_help="Show alarms; move their watermarks.")
@click.argument("url", metavar="URL")
@click.option("--memory-high-watermark", type=float, metavar="PART",
              help="Fraction of the machine's memory; 0 raises the alarm at once.")  # fmt: skip
@click.option("--memory-high-watermark-bytes", type=int, metavar="BYTES",
              help="The same in bytes.")  # fmt: skip
@click.option("--disk-free-min-bytes", type=int, metavar="BYTES",
              help="Free space that the data's disk must have; 0 = no alarm.")  # fmt: skip
def alarms(url: str, **watermarks: float | None) -> None:
    """Show the alarms of the broker whose HTTP port is at URL.

    New watermarks take effect at once and last until the broker restarts. While an alarm is
    raised, AMQP connections that publish are blocked; consumers are not.
    """
    given = {name: value for name, value in watermarks.items() if value is not None}
    found = ask(url, PATH, given or None)
    try:
        show({key: found[key] for key in _KEYS})
    except (KeyError, TypeError) as error:
        raise unlike(url) from error
    if reason := found.get("log_trim_alarm"):
        click.echo(visible(f"log: ALARM, {reason}"))


def show(found: dict[str, Any]) -> None:
    """Print one line for each resource."""
    for resource, level, mark in (
        ("memory", "memory_used_bytes", "memory_high_watermark_bytes"),
        ("disk", "disk_free_bytes", "disk_free_min_bytes"),
    ):
        state = "ALARM" if found[f"{resource}_alarm"] else "ok"
        click.echo(f"{resource}: {state}, {level} {found[level]:,}, {mark} {found[mark]:,}")


_KEYS: Final = (
    "memory_alarm", "memory_used_bytes", "memory_high_watermark_bytes",
    "disk_alarm", "disk_free_bytes", "disk_free_min_bytes",
)  # fmt: skip
