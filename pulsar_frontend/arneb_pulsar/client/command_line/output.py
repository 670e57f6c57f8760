"""Messages on their way to standard output, and what a terminal is told meanwhile.

The rule: nothing but messages goes to standard output; whoever reads no more ends the command.
"""

import select
import sys
import time
from collections.abc import Awaitable, Callable
from typing import BinaryIO, Final

import click

from arneb_pulsar.client import Message
from arneb_pulsar.client.errors import TimedOut
from arneb_pulsar.client.formats import Format, json_of

IDLE_S: Final = 0.5
"""So long without a message, and a topic is looked at for its end."""

UNWRITTEN_MAX: Final = 100
"""Messages that are printed before they are written, and acknowledged."""

PROGRESS_S: Final = 0.5
"""How often a terminal is told how far a command is."""


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
    """Messages to standard output, until there are enough; each is ``done`` once it is written, so
    that whoever reads no more loses none."""
    written = json_of if is_json else form.of
    out = sys.stdout.buffer
    # Where messages are seen themselves, there is no need to count them.
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
    """A line on the terminal that says how far a command is; nothing where standard error is no
    terminal."""

    def __init__(self, quiet: bool) -> None:
        self._is_shown = not quiet and sys.stderr.isatty()
        self._began = time.monotonic()
        self._next = self._began + PROGRESS_S
        self._has_line = False

    def __repr__(self) -> str:
        return f"<Progress {'shown' if self._is_shown else 'not shown'}>"

    def show(self, count: int) -> None:
        """So many messages by now."""
        if not self._is_shown or (now := time.monotonic()) < self._next:
            return
        self._next, self._has_line = now + PROGRESS_S, True
        rate = count / (now - self._began)
        click.echo(f"\r{counted(count)}, {rate:,.0f}/s\x1b[K", nl=False, err=True)

    def end(self) -> None:
        """Make way for what is said at the end."""
        if self._has_line:
            click.echo("\r\x1b[K", nl=False, err=True)
            self._has_line = False


def _refuse_closed(out: BinaryIO) -> None:
    """Raise :class:`BrokenPipeError` if nobody reads any more: while no message comes, no write
    would tell."""
    watched = select.poll()
    watched.register(out.fileno(), 0)
    if any(event & (select.POLLERR | select.POLLNVAL) for _, event in watched.poll(0)):
        raise BrokenPipeError


def counted(messages: int) -> str:
    """So many, in words."""
    return f"{messages:,} message{'' if messages == 1 else 's'}"


def say(text: str) -> None:
    """To whoever runs the command, beside the messages."""
    click.echo(text, err=True)
