"""The program: carries out a command line and returns its exit code.

The rule: options may stand anywhere, and a wrong command line is refused before the broker is
asked.
"""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from getopt import GetoptError, gnu_getopt
from pathlib import Path
from typing import Final

from arneb.ctl import (
    checks,
    cluster,
    connections,
    definitions,
    evaluation,
    lists,
    nodes,
    objects,
    people,
    plugins,
    refusals,
    report,
    shovels,
    watermarks,
)
from arneb.ctl.calling import Answer, Body, Caller, HttpCaller, SocketCaller, Unreachable
from arneb.ctl.exits import ExitCode, Failed
from arneb.ctl.output import FORMATTERS, Manner, Output, Write
from arneb.ctl.session import Command, Misused, Session

DATA_DIR: Final = "ARNEB_DATA_DIR"
URL: Final = "ARNEB_URL"

PLACES: Final = (Path("arneb-data"), Path("/var/lib/arneb"))
"""Where to look for a broker's data by default: the directory of ``arneb serve`` without settings,
and that of the systemd unit and the image."""

MODULES: Final = (
    lists, people, objects, nodes, connections, watermarks, definitions, checks, evaluation, report,
    plugins, refusals, shovels, cluster,
)  # fmt: skip

COMMANDS: Final[Mapping[str, Command]] = {
    command.name: command for module in MODULES for command in module.COMMANDS
}

SHORT: Final[Mapping[str, str]] = {
    "-n": "node", "-l": "longnames", "-q": "quiet", "-s": "silent", "-t": "timeout",
    "-p": "vhost", "-h": "help", "-?": "help", "-e": "if-empty", "-u": "if-unused",
}  # fmt: skip
VALUED: Final = frozenset(
    {
        "node", "timeout", "formatter", "vhost", "data-dir", "url", "ca-file", "priority",
        "apply-to", "description", "tags", "default-queue-type", "user", "limit", "within", "unit",
        "queue-timeout", "format", "address", "per-connection-delay", "printer", "erlang-cookie",
        "to",
    }
)  # fmt: skip
"""Options that take a value; all others are flags."""

GENERAL: Final = frozenset(
    {
        "node", "longnames", "quiet", "silent", "timeout", "formatter", "help", "dry-run",
        "data-dir", "url", "ca-file", "printer", "erlang-cookie", "vhost", "no-table-headers",
    }
)  # fmt: skip
"""Options of every command. Those that mean nothing for a command are ignored, as in RabbitMQ."""


@dataclass(frozen=True, slots=True)
class CommandLine:
    """A parsed command line."""

    name: str
    arguments: Sequence[str] = ()
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def manner(self) -> Manner:
        """The requested form of the output."""
        return Manner(
            self.options.get("formatter", ""),
            "quiet" in self.options,
            "silent" in self.options,
            "no-table-headers" not in self.options,
        )


def parse(words: Sequence[str]) -> CommandLine:
    """Parse a command line. Raises :class:`.Misused`."""
    known = sorted(GENERAL.union(*(each.options for each in COMMANDS.values())))
    long = [f"{each}=" if each in VALUED else each for each in known]
    short = "".join(
        f"{key[1]}{':' if name in VALUED else ''}" for key, name in SHORT.items() if key != "-?"
    )
    try:
        found, rest = gnu_getopt([_spelled(each) for each in words], short, long)
    except GetoptError as error:
        option = f"{'--' if len(error.opt) > 1 else '-'}{error.opt}"
        raise Misused(f"Invalid options for this command:\n{option} : ") from error
    options = {SHORT.get(name) or name.removeprefix("--"): value for name, value in found}
    if rest[:1] == ["help"] and rest[1:]:
        return CommandLine(rest[1], (), options | {"help": ""})
    return CommandLine(rest[0] if rest else "", rest[1:], options)


def _spelled(word: str) -> str:
    return "--help" if word == "-?" else word


def run(
    words: Sequence[str],
    *,
    write: Write,
    complain: Write,
    environment: Mapping[str, str] = os.environ,
    program: str = "rabbitmqctl",
    connect: Callable[[CommandLine, Mapping[str, str]], Caller] | None = None,
) -> ExitCode:
    """Carry out a command line; output goes to ``write``, errors to ``complain``."""
    usage = ""
    try:
        line = parse(words)
        command = COMMANDS.get(line.name)
        if command is None:
            help_text = _help(line, program)
            (write if "help" in line.options or line.name == "help" else complain)(help_text)
            is_asked = "help" in line.options or line.name == "help"
            return ExitCode.OK if is_asked else ExitCode.USAGE
        usage = f"{program} [--node <node>] [--longnames] [--quiet] {command.name} {command.usage}"
        if "help" in line.options:
            write(f"Usage\n\n{usage.rstrip()}\n\n{command.summary}\n")
            return ExitCode.OK
        _check(command, line)
        if "dry-run" in line.options:
            return ExitCode.OK
        caller = _NOBODY if not command.asks else (connect or way_in)(line, environment)
        output = Output(write, line.manner)
        session = Session(
            caller, output, line.arguments, line.options, _timeout_s(line.options), program
        )
        if command.asks and not command.runs_stopped:
            session.expect_running()
        command.run(session)
    except Misused as error:
        given = " ".join(words)
        text = f"{error.heading}: {error.text}\nArguments given:\n\t{given}"
        complain(f"{text}\n\nUsage\n\n{usage.rstrip()}" if usage else text)
        return error.code
    except Failed as failed:
        if failed.text:
            complain(failed.text)
        return failed.code
    except TimeoutError:
        complain("Error: operation timed out")
        return ExitCode.TIMED_OUT
    except Unreachable as error:
        complain(f"Error: {error}")
        return ExitCode.UNAVAILABLE
    return ExitCode.OK


def _check(command: Command, line: CommandLine) -> None:
    unknown = line.options.keys() - GENERAL - command.options
    if unknown:
        raise Misused(f"Invalid options for this command:\n--{min(unknown)} : ")
    if len(line.arguments) < command.least:
        raise Misused("not enough arguments.")
    if command.most is not None and len(line.arguments) > command.most:
        raise Misused("too many arguments.")
    if line.options.get("formatter", "table") not in FORMATTERS:
        raise Misused(f"formatter {line.options['formatter']} is not known")
    _timeout_s(line.options)


def _timeout_s(options: Mapping[str, str]) -> float | None:
    text = options.get("timeout", "infinity")
    if text == "infinity":
        return None
    if not (text.isascii() and text.isdecimal()):
        raise Misused(f"Bad argument: expected seconds as --timeout, got {text}")
    return float(text)


def way_in(line: CommandLine, environment: Mapping[str, str]) -> Caller:
    """Return a caller for the broker that the command line names. Raises :class:`.Failed`."""
    options = line.options
    if url := options.get("url", "" if "data-dir" in options else environment.get(URL, "")):
        if not url.startswith(("http://", "https://")):
            raise Failed(ExitCode.CONFIG, f"Error: expected http://HOST:PORT, got {url}")
        ca_file = Path(options["ca-file"]) if "ca-file" in options else None
        return HttpCaller(url.rstrip("/"), ca_file=ca_file)
    named = options.get("data-dir") or environment.get(DATA_DIR)
    if named:
        return SocketCaller(Path(named))
    for directory in PLACES:
        if directory.is_dir():
            return SocketCaller(directory)
    raise Failed(
        ExitCode.CONFIG,
        f"Error: where is the broker? Say so by --data-dir DIR or {DATA_DIR}, or from elsewhere "
        f"by --url http://USER:PASSWORD@HOST:PORT or {URL}",
    )


class _Nobody:
    """The caller of commands that need no broker."""

    is_trusted = False

    def call(
        self, method: str, path: str, body: Body = None, headers: dict[str, str] | None = None
    ) -> Answer:
        raise AssertionError("this command asks no broker")


_NOBODY: Final = _Nobody()


def _help(line: CommandLine, program: str) -> str:
    lines = []
    if line.name not in ("", "help"):
        lines.append(f"\nCommand '{line.name}' not found. ")
        near = get_close_matches(line.name, COMMANDS, n=1, cutoff=0.7)
        if near:
            return "\n".join([*lines, f"Did you mean '{near[0]}'? "])
    form = "[--node <node>] [--timeout <timeout>] [--longnames] [--quiet] <command> [<options>]"
    lines += ["\nUsage\n", f"{program} {form}", "\nAvailable commands:\n"]
    shown = [each for name, each in sorted(COMMANDS.items()) if name not in refusals.REASONS]
    width = max(len(each.name) for each in shown)
    lines += [f"   {each.name.ljust(width)}  {each.summary}" for each in shown]
    return "\n".join(
        [*lines, *WHERE, "\nUse 'help <command>' to learn more about a specific command"]
    )


WHERE: Final = (
    "\nWhere the broker is:\n",
    "   --data-dir <directory>  by its socket there, without a password; or ARNEB_DATA_DIR",
    "   --url <url>             from elsewhere, http://user:password@host:port; or ARNEB_URL",
)


def main(program: str = "rabbitmqctl") -> None:
    """Carry out the command line of this process, and leave with the exit code."""
    sys.exit(run(sys.argv[1:], write=_write, complain=_complain, program=program))


def _write(text: str) -> None:
    print(text)


def _complain(text: str) -> None:
    print(text, file=sys.stderr)
