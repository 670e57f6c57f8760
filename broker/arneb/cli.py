"""The command line: ``arneb serve`` and what looks after its data and its figures.

The rule: an error that the user can cause is one line on standard error and exit status 2.
Each command has a module of its own, imported when it is called, so ``arneb --help`` does
not pay for a broker.
"""

import os
import signal
import sys
from importlib import import_module
from typing import Final

import click

from arneb import __version__
from arneb.logs.visible import visible

USAGE_STATUS: Final = 2
INTERRUPTED_STATUS: Final = 128 + signal.SIGINT

COMMANDS: Final = {
    "alarms": "Show alarms of a running broker; move their watermarks.",
    "audit": "Check histories against the broker's promises.",
    "backup": "Copy a data directory, even while its broker runs.",
    "check": "Verify every structure of a data directory.",
    "client": "Send, consume and read from the command line.",
    "ctl": "Run a rabbitmqctl command on a running broker.",
    "compact": "Copy the last message of each key to a new topic or table.",
    "compact-store": "Return a data directory's free space to the file system.",
    "doctor": "Report what is wrong with a broker or its data, and what to do.",
    "erase": "Erase a key's messages from the sealed tier.",
    "init": "Write a configuration, a systemd unit and a first administrator.",
    "offload": "Write closed ledgers to Delta tables, each exactly once.",
    "replay": "Publish messages of the log again.",
    "report": "Show rates, sizes, dead letters, hot keys and latencies.",
    "salvage": "Rescue the intact parts of a damaged data directory.",
    "serve": "Run a broker.",
    "sql": "Query topics with SQL, in the log and the sealed tier.",
    "topics": "List topics with their backlog.",
}


class Refused(click.ClickException):
    """What was asked for cannot be done; the message is one line for the user."""

    exit_code = USAGE_STATUS


MODULES: Final = {"client": "arneb_pulsar.client.command_line.commands"}
"""Of commands that are of use without a broker, and stand elsewhere."""


class LazyGroup(click.Group):
    """A group whose commands are imported when they are needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        name = cmd_name.replace("-", "_")
        module = import_module(MODULES.get(name, f"arneb.commands.{name}"))
        command: click.Command = getattr(module, name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(sorted(COMMANDS.items()))


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="arneb")
def arneb() -> None:
    """One durable log for RabbitMQ clients, Apache Pulsar clients and Spark."""


def main(arguments: list[str] | None = None) -> None:
    """Run one command and leave with its exit status."""
    try:
        status = arneb.main(arguments, prog_name="arneb", standalone_mode=False)
    except click.ClickException as error:
        click.echo(f"arneb: {visible(' '.join(error.format_message().split()))}", err=True)
        sys.exit(USAGE_STATUS)
    except click.Abort:
        sys.exit(INTERRUPTED_STATUS)
    except BrokenPipeError:
        silence_output()
        status = 0
    sys.exit(status if isinstance(status, int) else 0)


def silence_output() -> None:
    """Whoever read our output has left (``arneb topics … | head -1``): write the rest, which
    the interpreter still tries to at its end, to nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
