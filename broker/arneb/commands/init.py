"""``arneb init``: writes the files that a new installation begins with."""

import grp
import os
import pwd
import secrets
import sys
from pathlib import Path
from typing import Final

import click

from arneb.cli import Refused
from arneb.logs.visible import visible

CONFIGURATION: Final = "arneb.toml"
UNIT: Final = "arneb.service"
SYSTEM_USER: Final = "arneb"
PASSWORD_BYTES: Final = 18
"""The random bytes of a generated password: 144 bits, 24 characters."""
SECRET_MODE: Final = 0o600
GROUP_MODE: Final = 0o640
DATA_MODE: Final = 0o750
PLAIN_MODE: Final = 0o644


@click.command(short_help="Write a configuration, a systemd unit and a first administrator.")
@click.argument("directory", metavar="[DIR]", default=".", type=click.Path(path_type=Path))
@click.option("--data-dir", type=click.Path(path_type=Path), metavar="DIR",
              help="Where the broker keeps its log.  [default: DIR/data]")  # fmt: skip
@click.option("--user", default="admin", show_default=True, help="The administrator's name.")
@click.option("--password-stdin", is_flag=True,
              help="Read the administrator's password from standard input, instead of making "
              "one.")  # fmt: skip
def init(directory: Path, data_dir: Path | None, user: str, password_stdin: bool) -> None:
    """Write into DIR a configuration file arneb.toml that explains every key, and a systemd unit
    arneb.service for it. The file has one user, an administrator, with a hash of the password,
    which is printed once. There is no user guest, whose password everybody knows.

    Existing files are never overwritten.
    """
    from arneb.installing.configuration import configuration
    from arneb.installing.unit import unit
    from arneb_core.access.passwords import SALT_BYTES, hash_password

    directory = directory.absolute()
    is_root = os.geteuid() == 0
    data = (data_dir or directory / "data").absolute()
    for name in (CONFIGURATION, UNIT):
        if (directory / name).exists():
            raise Refused(f"expected no {name} in {directory}, and there is one")
    if not user:
        raise Refused("--user: expected a name, got nothing")
    password = _from_stdin() if password_stdin else secrets.token_urlsafe(PASSWORD_BYTES)
    hashed = hash_password(password, secrets.token_bytes(SALT_BYTES)).text
    command = Path(sys.executable).with_name("arneb")
    try:
        text = configuration(data, user, hashed)
    except ValueError as error:
        raise Refused(str(error)) from error
    try:
        owner = _owner()
        service = unit(command, directory / CONFIGURATION, data, owner.pw_name, _group(owner))
    except ValueError as error:
        service = None
        click.echo(visible(f"arneb: {UNIT} is not written: {error}"), err=True)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        data.mkdir(DATA_MODE, parents=True, exist_ok=True)
        _write(directory / CONFIGURATION, text, SECRET_MODE)
        if service is not None:
            _write(directory / UNIT, service, PLAIN_MODE)
            if is_root:  # the broker runs as another user
                os.chown(data, owner.pw_uid, owner.pw_gid)
                os.chown(directory / CONFIGURATION, 0, owner.pw_gid)
                (directory / CONFIGURATION).chmod(GROUP_MODE)
    except OSError as error:
        raise Refused(f"{error.filename}: {error.strerror}") from error
    click.echo(visible(f"{directory / CONFIGURATION}: the configuration, each key explained"))
    if service is not None:
        click.echo(visible(f"{directory / UNIT}: a unit for systemd"))
    if password_stdin:
        click.echo(visible(f"user {user}: an administrator"))
    else:
        click.echo(visible(f"user {user}, password {password}: an administrator; shown only once"))
    click.echo(visible(f"next: arneb serve --config {directory / CONFIGURATION}"))


def _from_stdin() -> str:
    password = sys.stdin.readline().rstrip("\r\n")
    if not password:
        raise Refused("--password-stdin: expected a password on standard input, got nothing")
    return password


def _owner() -> pwd.struct_passwd:
    """Return the user that the broker is to run as: the one who installs it, but never root. Raises
    :class:`ValueError`."""
    if uid := os.geteuid():
        return pwd.getpwuid(uid)
    try:
        return pwd.getpwnam(SYSTEM_USER)
    except KeyError:
        raise ValueError(
            f"expected a user {SYSTEM_USER} for the broker to run as, since it should not run as "
            f"root: useradd --system {SYSTEM_USER}, then remove {CONFIGURATION} and run this again"
        ) from None


def _group(owner: pwd.struct_passwd) -> str:
    return grp.getgrgid(owner.pw_gid).gr_name


def _write(file: Path, text: str, mode: int) -> None:
    """Create a file; one that has appeared meanwhile is not overwritten."""
    made = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(made, "w", encoding="utf-8") as opened:
        opened.write(text)
