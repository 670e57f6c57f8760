"""``arneb ctl``: ``rabbitmqctl`` for this broker, and a way back in when nobody can log in.

The rule: ``set-password`` reads the password from standard input or asks for it; an argument could
be seen by others on the machine.
"""

import sys
from pathlib import Path
from secrets import token_bytes
from typing import Final

import click

from arneb.cli import Refused
from arneb.logs.visible import visible

ALL: Final = ".*"

OFFLINE: Final = "set-password"
"""The subcommand for a data directory that no broker has open."""


@click.command(
    short_help="Run a rabbitmqctl command on a running broker.",
    context_settings={"ignore_unknown_options": True, "help_option_names": []},
    add_help_option=False,
)
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def ctl(context: click.Context, words: tuple[str, ...]) -> None:
    """Commands, options, output and exit codes of rabbitmqctl, by the control socket of a broker
    or over HTTP."""
    if OFFLINE in words:
        set_password.main(
            [each for each in words if each != OFFLINE], f"arneb ctl {OFFLINE}",
            standalone_mode=False,
        )  # fmt: skip
        return
    from arneb.ctl.cluster import RE_FOUND

    if "cluster" in words and RE_FOUND in words:
        from arneb.commands.re_found import re_found_command

        rest = [each for each in words if each not in ("cluster", RE_FOUND)]
        re_found_command.main(rest, f"arneb ctl cluster {RE_FOUND}", standalone_mode=False)
        return
    from arneb.ctl.program import run

    def complain(text: str) -> None:
        click.echo(text, err=True)

    context.exit(run(words, write=click.echo, complain=complain, program="arneb ctl"))


@click.command(name=OFFLINE, short_help="Set a user's password.")
@click.option("--data-dir", "directory", required=True, metavar="DIR",
              type=click.Path(path_type=Path), help="The data directory.")  # fmt: skip
@click.argument("user")
@click.option("--administrator", is_flag=True,
              help="Create USER if it does not exist, and make it an administrator.")  # fmt: skip
def set_password(directory: Path, user: str, administrator: bool) -> None:
    """Set the password of USER in a data directory that no broker has open. The password is one
    line of standard input; on a terminal you are asked for it.

    Exit status 2: DIR is in use, is not a data directory, or has no such user.
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
    from arneb_core.store.offline_metadata import OfflineMetadata

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
