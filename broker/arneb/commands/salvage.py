"""``arneb salvage``: saves what is intact in a damaged data directory to a new one."""

import sys
from pathlib import Path

import click

from arneb.cli import Refused
from arneb.logs.visible import visible

MISSING_STATUS = 1


@click.command(short_help="Rescue the intact parts of a damaged data directory.")
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@click.argument("target", metavar="OUT", type=click.Path(path_type=Path))
def salvage(directory: Path, target: Path) -> None:
    """Search the damaged store in DIR page by page, and write every intact block, with whatever
    else is intact, to a new store in OUT. DIR is only read. No broker may be using it.

    Exit status 0: nothing is missing. 1: something is, one line for each. 2: nothing was written.
    """
    from arneb_core.api.errors import StoreUnusable
    from arneb_core.store.salvage.salvaging import salvage as salvage_store

    try:
        report = salvage_store(directory, target)
    except StoreUnusable as error:
        raise Refused(str(error)) from error
    for line in report.missing:
        click.echo(visible(f"missing: {line}"))
    done = f"{target}: {report.topics:,} topics with {report.entries:,} entries"
    if report.missing:
        click.echo(visible(f"{done}; {report.lost_entries:,} entries are known to be missing"))
        sys.exit(MISSING_STATUS)
    click.echo(visible(f"{done}; nothing is missing"))
