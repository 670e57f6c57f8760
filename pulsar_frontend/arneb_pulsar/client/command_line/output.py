"""Printing messages to standard output, and progress to the terminal.

The rule: only messages go to standard output; when its reader closes it, the command ends.
"""

import select
import sys
import time
from collections.abc import Awaitable, Callable
from typing import BinaryIO, Final

import click

from arneb_pulsar.client import Message
from arneb_pulsar.client.command_line.formats import Format, json_of
from arneb_pulsar.client.errors import TimedOut

IDLE_S: Final = 0.5
"""The time without a message after which to check for the end of the topic."""

UNWRITTEN_MAX: Final = 100
"""Messages printed into the buffer before it is flushed and they are acknowledged."""

PROGRESS_S: Final = 0.5
"""How often the progress line is updated."""


async def print_messages(
    receive: Callable[[float | None], Awaitable[Message[bytes]]],
    available: Callable[[], Awaitable[bool]],
    done: Callable[[Message[bytes]], None] | None,
    *,
    start: str | None,
    count: int | None,
    ends: bool,
    form: Format,
    is_json: bool,
    quiet: bool,
) -> None:
    """Print messages until there are ``count``, or with ``ends`` until the topic has no more. Each
    is passed to ``done`` only once it is written, so that none is lost if the output is closed."""
    written = json_of if is_json else form.of
    out = sys.stdout.buffer
    # If the messages themselves go to a terminal, no progress is needed.
    printed, progress = 0, Progress(quiet or sys.stdout.isatty())
    unwritten: list[Message[bytes]] = []

    def write() -> None:
        out.flush()
        for each in unwritten:
            if done is not None:
                done(each)
        unwritten.clear()

    try:
        while count is None or printed < count:
            try:
                message = await receive(IDLE_S)
            except TimedOut:
                write()
                _refuse_closed(out)
                progress.show(printed)
                if ends and not await available():
                    break
                continue
            out.write(written(message))
            printed += 1
            progress.show(printed)
            unwritten.append(message)
            if len(unwritten) >= UNWRITTEN_MAX or sys.stdout.isatty():
                write()
    finally:
        progress.end()
        write()
        if not quiet:
            say(counted(printed))


class Progress:
    """A line on the terminal with the count and rate of messages; nothing if standard error is not
    a terminal."""

    def __init__(self, quiet: bool) -> None:
        self._is_shown = not quiet and sys.stderr.isatty()
        self._began = time.monotonic()
        self._next = self._began + PROGRESS_S
        self._has_line = False

    def __repr__(self) -> str:
        return f"<Progress {'shown' if self._is_shown else 'not shown'}>"

    def show(self, count: int) -> None:
        """Show the count so far, if an update is due."""
        if not self._is_shown or (now := time.monotonic()) < self._next:
            return
        self._next, self._has_line = now + PROGRESS_S, True
        rate = count / (now - self._began)
        click.echo(f"\r{counted(count)}, {rate:,.0f}/s\x1b[K", nl=False, err=True)

    def end(self) -> None:
        """Clear the line."""
        if self._has_line:
            click.echo("\r\x1b[K", nl=False, err=True)
            self._has_line = False


def _refuse_closed(out: BinaryIO) -> None:
    """Raise :class:`BrokenPipeError` if the reader has closed ``out``: while no message comes, no
    write would show it."""
    watched = select.poll()
    watched.register(out.fileno(), 0)
    if any(event & (select.POLLERR | select.POLLNVAL) for _, event in watched.poll(0)):
        raise BrokenPipeError


def counted(messages: int) -> str:
    """Return the count of messages as text."""
    return f"{messages:,} message{'' if messages == 1 else 's'}"


def say(text: str) -> None:
    """Print to standard error, apart from the messages."""
    click.echo(text, err=True)
