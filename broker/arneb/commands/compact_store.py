"""``arneb compact-store``: give what a data directory does not use back to the file system."""

from pathlib import Path

import click

from arneb.cli import Refused
from arneb.logs.visible import visible


@click.command(name="compact-store", short_help="Give free room in a data directory back.")
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
def compact_store(directory: Path) -> None:
    """Write the store in DIR anew without its free pages, while no broker uses it.

    Takes as much room beside the old file as there is data in it. A broken-off attempt leaves
    the store as it was. Exit status 2: DIR is in use, holds no store, or has no room.
    """
    from arneb_core.api.errors import StoreFailed, StoreUnusable
    from arneb_core.store.directory.compacting import compact

    try:
        done = compact(directory)
    except (StoreUnusable, StoreFailed) as error:
        raise Refused(str(error)) from error
    where = visible(str(directory))
    click.echo(f"{where}: {done.before} bytes on disk before, {done.after} after")
