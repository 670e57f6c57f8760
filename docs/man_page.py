"""The manual page: docs/man/arneb.1, written from the commands themselves.

The rule: what ``--help`` says is what the page says. ``python docs/man_page.py`` writes it;
``--check`` fails if it is not what would be written, and so does a test.
"""

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

from arneb.cli import arneb

PAGE: Final = Path(__file__).parent / "man" / "arneb.1"

HEAD: Final = r""".\" Written by docs/man_page.py from the commands; do not edit.
.TH ARNEB 1 "" "" "User commands"
.SH NAME
arneb \- one durable log for RabbitMQ clients, Apache Pulsar clients and Spark
.SH SYNOPSIS
.B arneb
.RI [ options ]
.I command
.RI [ arguments ]"""

STATUS: Final = r""".SH EXIT STATUS
0 when it is done, 1 when a command that looks for faults found some, 2 when it was refused: one
line on standard error says why. Of
.B arneb ctl
those of
.BR rabbitmqctl ."""

FILES: Final = r""".SH FILES
.TP
.I arneb.toml
The configuration that
.B arneb init
writes and
.B arneb serve --config
reads.
.TP
.I arneb-data
The data directory, where no other is named."""


def page() -> str:
    """The whole page, in roff's man macros."""
    lines = [HEAD, ".SH DESCRIPTION", *_text(arneb.help or "")]
    lines += [".SH COMMANDS", *_commands(arneb, "arneb")]
    lines += [STATUS, FILES]
    return "\n".join(lines) + "\n"


def _commands(group: click.Group, path: str) -> Iterator[str]:
    context = click.Context(group, info_name=path)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        below = click.Context(command, info_name=name, parent=context)
        yield f".SS {_plain(f'{path} {name}')}"
        yield ".B " + _plain(f"{path} {name} {' '.join(command.collect_usage_pieces(below))}")
        yield ".PP"
        yield from _text(command.help or command.short_help or "")
        for parameter in command.get_params(below):
            record = parameter.get_help_record(below)
            if record is not None and record[1] and "--help" not in parameter.opts:
                yield ".TP"
                yield f".B {_plain(record[0])}"
                yield from _text(record[1])
        if isinstance(command, click.Group):
            yield from _commands(command, f"{path} {name}")


def _text(text: str) -> Iterator[str]:
    """A help text: its paragraphs, those kept as they are that click is told to keep."""
    # Python 3.13 takes the indentation off a docstring, earlier versions do not.
    text = inspect.cleandoc(text.replace("\r", ""))
    for number, paragraph in enumerate(text.split("\n\n")):
        if number:
            yield ".PP"
        kept = paragraph.startswith("\b")
        if kept:
            yield ".nf"
        for line in paragraph.removeprefix("\b").strip("\n").splitlines():
            yield _plain(line if kept else line.strip())
        if kept:
            yield ".fi"


def _plain(text: str) -> str:
    """Text that roff prints as it is."""
    escaped = text.replace("\\", r"\e").replace("-", r"\-")
    return rf"\&{escaped}" if escaped.startswith((".", "'")) else escaped


def main() -> None:
    """Write the page, or compare it."""
    if sys.argv[1:] == ["--check"]:
        if not PAGE.exists() or PAGE.read_text(encoding="utf-8") != page():
            sys.exit(f"{PAGE} is not what the commands say: run python docs/man_page.py")
        return
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
