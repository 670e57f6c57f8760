"""``arneb check``: verifies every structure of a data directory."""

import sys
from pathlib import Path

import click

from arneb.cli import Refused
from arneb.logs.visible import visible

FOUND_STATUS = 1


@click.command(short_help="Verify every structure of a data directory.")
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
def check(directory: Path) -> None:
    """Verify every structure of the store in DIR, and that the structures agree.

    The broker may keep running: the check reads a snapshot, the store as of one commit.
    Exit status 0: nothing found, or only the remains of an unconfirmed write that a power cut
    interrupted. 1: findings, one per line. 2: DIR cannot be read.
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
