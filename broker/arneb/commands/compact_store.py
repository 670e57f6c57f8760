"""``arneb compact-store``: returns a data directory's unused space to the file system."""

from pathlib import Path

import click

from arneb.cli import Refused
from arneb.logs.visible import visible


@click.command(
    name="compact-store", short_help="Return a data directory's free space to the file system."
)
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
def compact_store(directory: Path) -> None:
    """Rewrite the store in DIR without its free pages. No broker may be using it.

    Beside the old file, the new one needs as much space as there is data. If it is interrupted,
    the store stays as it was. Exit status 2: DIR is in use, has no store, or has no space.
    """
    from arneb_core.api.errors import StoreFailed, StoreUnusable
    from arneb_core.store.directory.compacting import compact

    try:
        done = compact(directory)
    except (StoreUnusable, StoreFailed) as error:
        raise Refused(str(error)) from error
    where = visible(str(directory))
    click.echo(f"{where}: {done.before} bytes on disk before, {done.after} after")
