"""Exit codes: RabbitMQ's, which are those of ``sysexits.h``.

The rule: every failure is raised with its exit code and a text for the user.
"""

from enum import IntEnum


class ExitCode(IntEnum):
    """The exit status of a command."""

    OK = 0
    USAGE = 64
    """An unknown command, column or option; a stopped broker."""
    DATA = 65
    """A vhost that does not exist, a wrong password, a value out of range."""
    NO_USER = 67
    UNAVAILABLE = 69
    """Nobody answers, or the broker refuses."""
    SOFTWARE = 70
    """The user exists already; an error of ours."""
    CANNOT_CREATE = 73
    """A file that cannot be written."""
    TIMED_OUT = 75
    NO_PERMISSION = 77
    """The socket or the login is refused."""
    CONFIG = 78
    """It is not known where the broker is."""


class Failed(Exception):
    """A command that did not do what it should."""

    def __init__(self, code: ExitCode, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


def error(code: ExitCode, text: str) -> Failed:
    """Return a failure in RabbitMQ's form."""
    return Failed(code, f"Error:\n{text}")


def no_vhost(name: str) -> Failed:
    """Return the error for a missing vhost."""
    return Failed(ExitCode.DATA, f"Virtual host '{name}' does not exist")


def no_user(name: str) -> Failed:
    """Return the error for a missing user."""
    return error(ExitCode.NO_USER, f'User "{name}" does not exist')
