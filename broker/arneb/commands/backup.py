"""``arneb backup``: a copy of a data directory, made while a broker uses it."""

import sys
from pathlib import Path
from typing import Final

import click

from arneb.cli import Refused
from arneb.control.serving import FLUSH, ROOT
from arneb.ctl.calling import NoneRunning, SocketCaller, Unreachable
from arneb.logs.visible import visible
from arneb.settings.shards import node_directory_of

DAMAGED_STATUS: Final = 1

NOT_FOUND: Final = 404

FLUSH_S: Final = 30.0
"""The longest wait for a broker's flush. Without an answer by then, its disk hangs or its process
is stopped: the directory is copied as it is, and the user is told."""


@click.command(short_help="Copy a data directory, even while its broker runs.")
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@click.argument("target", metavar="OUT", type=click.Path(path_type=Path))
@click.option("--compact", is_flag=True, help="Leave out free pages; takes longer.")
@click.option("--check/--no-check", default=True, help="Check the copy.  [default: check]")
def backup(directory: Path, target: Path, compact: bool, check: bool) -> None:
    """Copy the data directory DIR to OUT, which must be new or empty. The broker may keep running.

    The copy holds everything that was confirmed before the command began. It appears as OUT only
    when it is complete, checked and on disk. Exit status 0: the copy was made. 1: the check found
    damage, one finding per line, and there is no copy. 2: there is no copy for another reason.
    """
    from arneb_core.api.errors import StoreUnusable
    from arneb_core.store.backup import CopyDamaged, back_up

    _have_flushed(directory)
    try:
        made = back_up(directory, target, compact=compact, check=check)
    except CopyDamaged as error:
        for finding in error.findings:
            click.echo(visible(str(finding)))
        click.echo(visible(f"{directory}: damaged, and not copied"), err=True)
        sys.exit(DAMAGED_STATUS)
    except StoreUnusable as error:
        raise Refused(str(error)) from error
    result = "no findings" if made.is_checked else "not checked"
    click.echo(visible(f"{target}: {made.bytes:,} bytes, {result}"))


def _have_flushed(directory: Path) -> None:
    """Have a broker write everything confirmed to the directory: a cluster's member confirms a
    moment before its own disk has it. Without a broker, or with an older one that does not know the
    request, everything is there already."""
    try:
        answer = SocketCaller(node_directory_of(directory), FLUSH_S).call("POST", ROOT + FLUSH)
    except NoneRunning:
        return
    except Unreachable as error:
        why = str(error)
    except TimeoutError:
        why = f"the broker has not answered for {FLUSH_S:.0f} s"
    else:
        if answer.is_done or answer.status == NOT_FOUND:
            return
        why = answer.reason
    risk = "if this is a member of a cluster, what was confirmed in the last moment may be missing"
    click.echo(visible(f"{risk}: {why}"), err=True)
