"""``arneb check``: verify every structure of a data directory."""

import sys
from pathlib import Path

import click

from arneb.cli import Refused

FOUND_STATUS = 1


@click.command(short_help="Verify every structure of a data directory.")
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
def check(directory: Path) -> None:
    """Walk the whole store in DIR, verify each structure and cross-check them.

    A running broker is not disturbed: what is checked is the store as of one commit.
    Exit status 0: nothing found. 1: findings, one a line. 2: DIR cannot be read.
    """
    from arneb_core.errors import StoreUnusable
    from arneb_core.store.check import check as check_store

    try:
        findings = check_store(directory)
    except StoreUnusable as error:
        raise Refused(str(error)) from error
    for finding in findings:
        click.echo(str(finding))
    if findings:
        click.echo(f"{directory}: {len(findings)} findings", err=True)
        sys.exit(FOUND_STATUS)
    click.echo(f"{directory}: no findings")
