"""``arneb ctl``: change who may do what, also where nobody can log in any more.

The rule: a password is never an argument, which others on the machine can see: it is read from
standard input, or asked for.
"""

import sys
from pathlib import Path
from secrets import token_bytes
from typing import Final

import click

from arneb.cli import Refused
from arneb.visible import visible

ALL: Final = ".*"


@click.group(short_help="Change users in a data directory that no broker uses.")
@click.option("--data-dir", "directory", required=True, metavar="DIR",
              type=click.Path(path_type=Path), help="The data directory.")  # fmt: skip
@click.pass_context
def ctl(context: click.Context, directory: Path) -> None:
    """Change who may do what in the data directory DIR, which no broker has open."""
    context.obj = directory


@ctl.command(name="set-password", short_help="Let a user in by another password.")
@click.argument("user")
@click.option("--administrator", is_flag=True,
              help="Make USER, if there is none, and an administrator.")  # fmt: skip
@click.pass_obj
def set_password(directory: Path, user: str, administrator: bool) -> None:
    """Set the password of USER, which is read from standard input: one line, or asked for.

    Exit status 2: DIR is in use or no data directory, or there is no such user.
    """
    from arneb_core.access.errors import AccessError
    from arneb_core.api.errors import CommitFailed, StoreUnusable

    try:
        _change_password(directory, user, _password(user), administrator=administrator)
    except (AccessError, CommitFailed, StoreUnusable, ValueError) as error:
        raise Refused(str(error)) from error
    click.echo(f"{visible(str(directory))}: the password of user {visible(repr(user))} is set")


def _change_password(directory: Path, user: str, password: str, *, administrator: bool) -> None:
    from arneb_core.access.edits import Edit
    from arneb_core.access.passwords import SALT_BYTES, hash_password
    from arneb_core.access.records import PREFIX, Vhost, decode
    from arneb_core.access.tables import Tables
    from arneb_core.store.offline import OfflineMetadata

    made = hash_password(password, token_bytes(SALT_BYTES))
    with OfflineMetadata(directory) as metadata:
        rows = metadata.rows(PREFIX)
        edit = Edit(Tables(decode(row, value) for row, value in rows.items()))
        if administrator:
            edit.put_user(user, made, ["administrator"])
            for vhost in edit.rows_of(Vhost):
                if not vhost.leaving:
                    edit.set_permissions(user, vhost.name, ALL, ALL, ALL)
        else:
            edit.set_password(user, made)
        metadata.change(edit.rows)


def _password(user: str) -> str:
    if sys.stdin.isatty():
        prompt = f"New password of {visible(repr(user))}"
        password: str = click.prompt(prompt, hide_input=True, confirmation_prompt=True)
        return password
    return sys.stdin.readline().rstrip("\n")
