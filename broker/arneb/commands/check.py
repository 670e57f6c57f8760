"""``arneb check``: verify every structure of a data directory."""

import sys
from pathlib import Path

import click

from arneb.cli import Refused
from arneb.logs.visible import visible

FOUND_STATUS = 1


@click.command(short_help="Verify every structure of a data directory.")
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
def check(directory: Path) -> None:
    """Walk the whole store in DIR, verify each structure and cross-check them.

    A running broker is not disturbed: what is checked is the store as of one commit.
    Exit status 0: nothing found, or only what a power cut leaves of a write that nobody was
    told of. 1: findings, one a line. 2: DIR cannot be read.
    """
    from arneb.store.check import check_store
    from arneb_core.api.errors import StoreUnusable

    found = 0
    try:
        for finding in check_store(directory):
            click.echo(visible(str(finding)))
            found += not finding.is_doubt
    except StoreUnusable as error:
        raise Refused(str(error)) from error
    if found:
        click.echo(f"{visible(str(directory))}: {found} findings", err=True)
        sys.exit(FOUND_STATUS)
    click.echo(f"{visible(str(directory))}: no findings")
