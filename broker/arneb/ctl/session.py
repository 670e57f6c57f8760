"""A session: one running command, its arguments, and the broker that it asks.

The rule: commands use :meth:`Session.get`, :meth:`Session.put` and the like, which raise the
broker's refusals in RabbitMQ's form; a command looks at a status itself only where it needs its own
error for it.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from html import unescape
from typing import Any, Final
from urllib.parse import urlencode

from arneb.ctl.calling import Answer, Body, Caller, path_of
from arneb.ctl.exits import ExitCode, Failed, error, no_vhost
from arneb.ctl.output import Output, Row
from arneb.logs.visible import visible

NOT_RUNNING: Final = "not_running"

VHOST: Final = "vhost"

TABLE_OPTIONS: Final = frozenset({"no-table-headers"})


@dataclass(frozen=True, slots=True)
class Command:
    """One command of the command line."""

    name: str
    usage: str
    """Its arguments and options, as the help shows them."""
    summary: str
    run: Callable[["Session"], None]
    least: int = 0
    most: int | None = None
    """The most arguments; None: any number."""
    options: frozenset[str] = frozenset()
    """The long names of its own options, besides the general ones."""
    runs_stopped: bool = False
    """Whether it may run while the broker is stopped."""
    asks: bool = True
    """Whether it needs a broker."""


class Session:
    """One command while it is carried out."""

    def __init__(
        self,
        caller: Caller,
        output: Output,
        arguments: Sequence[str] = (),
        options: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
        program: str = "rabbitmqctl",
    ) -> None:
        self._caller = caller
        self.output = output
        self.arguments = list(arguments)
        self.options = dict(options or {})
        self.timeout_s = timeout_s
        self.program = program
        self._about: dict[str, Any] = {}

    def __repr__(self) -> str:
        return f"<Session {self.arguments}>"

    @property
    def vhost(self) -> str:
        """The named vhost; ``/`` if none is."""
        return self.options.get(VHOST, "/")

    @property
    def is_trusted(self) -> bool:
        """Whether it uses the control socket."""
        return self._caller.is_trusted

    @property
    def node(self) -> str:
        """The node's name, asked for once. Raises :class:`Failed` and :class:`.Unreachable`."""
        if not self._about:
            if self.is_trusted:
                self._about = {"node": self.ask("GET", "/ctl/about").value["node"]}
            else:
                self._about = {"node": self.get("overview").get("node", "arneb@elsewhere")}
        return str(self._about["node"])

    def expect_running(self) -> None:
        """Raise the error for a stopped broker, before anything is written."""
        if self.is_trusted and self.steer("GET", "about")["state"] in ("stopped", "stopping"):
            raise not_running()

    def says(self, banner: str) -> None:
        """Write a banner that says what is being done, unless the output is to be quiet or for
        programs."""
        self.output.banner(banner)

    # Asking

    def ask(
        self, method: str, path: str, body: Body = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """Send one request, and return the answer even if it is a refusal. Raises
        :class:`Misused` if the broker is stopped."""
        answer = self._caller.call(method, path, body, dict(headers or {}))
        if answer.status == 503 and (answer.value or {}).get("error") == NOT_RUNNING:
            raise not_running()
        return answer

    def api(
        self,
        method: str,
        *parts: str,
        body: Body = None,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send one request to the management API, and return the answer even if it is a refusal.
        Raises :class:`Failed` if the login is refused."""
        path = path_of(*parts) + (f"?{urlencode(query)}" if query else "")
        answer = self.ask(method, path, body, headers)
        if answer.status == 401 and not self.is_trusted:
            raise error(ExitCode.NO_PERMISSION, f"access refused: {answer.reason}")
        return answer

    def get(self, *parts: str, **query: str) -> Any:
        """Return the document at a path. Raises :class:`Failed`."""
        return self.checked(self.api("GET", *parts, query=query)).value

    def of(self, missing: Failed, method: str, *parts: str) -> Any:
        """Send a request about an object and return the answer's document. Raises ``missing`` if
        the object does not exist, and :class:`Failed`."""
        answer = self.api(method, *parts)
        if answer.status == 404:
            raise missing
        return self.checked(answer).value

    def put(self, *parts: str, body: Body = None) -> Answer:
        """Make or change an object. Raises :class:`Failed`."""
        return self.checked(self.api("PUT", *parts, body={} if body is None else body))

    def delete(self, *parts: str, **query: str) -> Answer:
        """Remove an object. Raises :class:`Failed`."""
        return self.checked(self.api("DELETE", *parts, query=query))

    def steer(self, method: str, path: str, body: Body = None) -> Any:
        """Send a request to the broker's process by the control socket. Raises :class:`Failed`."""
        if not self.is_trusted:
            where = "the data directory's machine, by its socket"
            raise error(ExitCode.UNAVAILABLE, f"this is done from {where}: --data-dir DIR")
        return self.checked(self.ask(method, f"/ctl/{path}", body)).value

    def checked(self, answer: Answer) -> Answer:
        """Return the answer if the request succeeded. Raises :class:`Failed` if it did not."""
        if not answer.is_done:
            raise error(
                ExitCode.UNAVAILABLE,
                "\n".join(map(visible, unescape(answer.reason).rstrip().split("\n"))),
            )
        return answer

    def expect_vhost(self, name: str | None = None) -> None:
        """Raise the error for a missing vhost."""
        wanted = self.vhost if name is None else name
        if self.api("GET", "vhosts", wanted).status == 404:
            raise no_vhost(wanted)

    # Arguments

    def secret(self, index: int, prompt: str = "Password: ") -> str:
        """Return a password: the argument at ``index``, or else a line of standard input. Raises
        :class:`Failed` if neither is given."""
        if len(self.arguments) > index:
            return self.arguments[index]
        self.says(prompt)
        line = sys.stdin.readline()
        if not line.rstrip("\n"):
            raise error(ExitCode.DATA, "Password is not provided via argument or stdin")
        return line.rstrip("\n")

    def listed(
        self, known: Mapping[str, Callable[[Any], Any]], default: Sequence[str],
        rows: Callable[[], Sequence[Any]], banner: str = "",
    ) -> None:  # fmt: skip
        """Write a table with the columns that the arguments name."""
        wanted = [part for each in self.arguments for part in each.split(",") if part.strip()]
        columns = [each.strip() for each in wanted] or list(default)
        if unknown := [each for each in columns if each not in known]:
            raise unknown_columns(unknown)
        if banner:
            self.says(banner)
        found: list[Row] = [[known[name](row) for name in columns] for row in rows()]
        self.output.rows(columns, found)


@dataclass(frozen=True, slots=True)
class Misused(Exception):
    """A wrong command line; the usage is shown with it."""

    text: str
    code: ExitCode = ExitCode.USAGE
    heading: str = field(default="Error (argument validation)")


def unknown_columns(names: Sequence[str]) -> Misused:
    """Return the error for columns that a list does not have."""
    return Misused(f"Info key(s) {','.join(names)} are not supported")


def not_running() -> Misused:
    """Return the error for a stopped broker."""
    text = (
        "this command requires the 'rabbit' app to be running on the target node. "
        "Start it with 'rabbitmqctl start_app'."
    )
    return Misused(text, heading="Error")


def running() -> Misused:
    """Return the error for a broker that is not stopped."""
    text = (
        "this command requires the 'rabbit' app to be stopped on the target node. "
        "Stop it with 'rabbitmqctl stop_app'."
    )
    return Misused(text, heading="Error")
