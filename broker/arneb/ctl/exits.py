"""Exit codes: RabbitMQ's, which are those of ``sysexits.h``.

The rule: whatever goes wrong is raised with the code it ends in, and its text is for the user.
"""

from enum import IntEnum


class ExitCode(IntEnum):
    """What a command ends with."""

    OK = 0
    USAGE = 64
    """A command, a column or an option that is not known; a broker that is stopped."""
    DATA = 65
    """A vhost that does not exist, a wrong password, a value out of range."""
    NO_USER = 67
    UNAVAILABLE = 69
    """Nobody answers, or the broker refuses."""
    SOFTWARE = 70
    """A user who exists already; an error of ours."""
    CANNOT_CREATE = 73
    """A file that cannot be written."""
    TIMED_OUT = 75
    NO_PERMISSION = 77
    """The socket or the login is refused."""
    CONFIG = 78
    """No way to the broker is known."""


class Failed(Exception):
    """A command that did not do what it should."""

    def __init__(self, code: ExitCode, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


def error(code: ExitCode, text: str) -> Failed:
    """A failure in RabbitMQ's form."""
    return Failed(code, f"Error:\n{text}")


def no_vhost(name: str) -> Failed:
    """There is no such vhost."""
    return Failed(ExitCode.DATA, f"Virtual host '{name}' does not exist")


def no_user(name: str) -> Failed:
    """There is no such user."""
    return error(ExitCode.NO_USER, f'User "{name}" does not exist')
