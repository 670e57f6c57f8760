"""``arneb compact-store``: returns a data directory's unused space to the file system."""

import sys
from pathlib import Path
from typing import Final

import click

from arneb.cli import Refused
from arneb.logs.visible import visible

DAMAGED_STATUS: Final = 1


@click.command(
    name="compact-store", short_help="Return a data directory's free space to the file system."
)
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--check/--no-check", default=True, help="Check the store first.  [default: check]")
def compact_store(directory: Path, check: bool) -> None:
    """Rewrite the store in DIR without its free pages. No broker may be using it.

    Beside the old file, the new one needs as much space as there is data. If it is interrupted,
    the store stays as it was. Exit status 1: the check found damage, one finding per line, and
    the store stays as it was, for what salvage may find in free pages. 2: DIR is in use, has no
    store, or has no space.
    """
    from arneb_core.api.errors import StoreFailed, StoreUnusable
    from arneb_core.store.directory.compacting import compact
    from arneb_core.store.directory.directory import is_held

    where = visible(str(directory))
    try:
        # Not while a broker has it, which is refused below: the check may take long.
        if check and not is_held(directory) and _is_damaged(directory):
            click.echo(f"{where}: damaged, and not compacted", err=True)
            sys.exit(DAMAGED_STATUS)
        done = compact(directory)
    except (StoreUnusable, StoreFailed) as error:
        raise Refused(str(error)) from error
    click.echo(f"{where}: {done.before} bytes on disk before, {done.after} after")


def _is_damaged(directory: Path) -> bool:
    from arneb.store.check import check_store

    found = 0
    for finding in check_store(directory):
        click.echo(visible(str(finding)))
        found += not finding.is_doubt
    return found > 0
