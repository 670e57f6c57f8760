"""The place of the control socket: a name in the data directory, and whose process it is.

The rule: a directory has one process, from before its store is opened until the process ends; so a
broker that is stopped by ``stop_app`` keeps others out that would be a broker there, and commands
that work on a store without a broker may come in meanwhile. Nobody but the owner of the socket can
connect: it has its mode before it listens.
"""

import errno
import fcntl
import os
import socket
import struct
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

import trio

from arneb_core.api.errors import StoreUnusable
from arneb_core.store.directory.directory import (
    CONTROL_NAME,
    holder_of,
    in_use,
    look_at,
    make_directory,
)

MODE: Final = 0o600

BACKLOG: Final = 128

CREDENTIALS: Final = struct.Struct("3i")
"""``struct ucred``: process, user, group."""


class ControlPlace:
    """The data directory as one process has it. Belongs to whoever claimed it."""

    def __init__(self, path: Path, fd: int) -> None:
        self.path = path
        self._fd = fd
        self._bound = -1
        """The socket's file, held open: its number is nobody else's meanwhile, which some file
        systems would give to the very next file."""

    def __repr__(self) -> str:
        return f"<ControlPlace {self.path}>"

    @classmethod
    def claim(cls, path: Path) -> Self:
        """Take the directory for this process, making it if it is not there. Blocks as a disk does.

        Raises :class:`StoreLocked` and the other kinds of :class:`StoreUnusable`, and then nothing
        was touched.
        """
        try:
            look_at(path)
            make_directory(path)
            fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise StoreUnusable(f"cannot use {path}: {error.strerror}") from error
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(fd)
            if error.errno != errno.EWOULDBLOCK:
                raise StoreUnusable(f"cannot lock {path}: {error.strerror}") from error
            raise in_use(path, _holder(path)) from error
        return cls(path, fd)

    def listen(self) -> socket.socket:
        """The socket, which nobody but its owner may open. Raises :class:`OSError`."""
        name = self._name
        with suppress(FileNotFoundError):
            os.unlink(name)  # of a process that was killed: the directory is ours
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.bind(name)
            os.chmod(name, MODE)
            self._bound = os.open(name, os.O_PATH | os.O_CLOEXEC)
            sock.listen(BACKLOG)
        except BaseException:
            sock.close()
            raise
        return sock

    def leave(self) -> None:
        """Remove the socket's name and let another process in. Idempotent."""
        if self._fd < 0:
            return
        if self._bound >= 0:
            with suppress(OSError):
                if os.path.samestat(os.stat(self._name), os.fstat(self._bound)):
                    os.unlink(self._name)
            os.close(self._bound)
            self._bound = -1
        os.close(self._fd)
        self._fd = -1

    @property
    def _name(self) -> str:
        """By the open directory: the name of a socket has 107 bytes at the most."""
        return f"/proc/self/fd/{self._fd}/{CONTROL_NAME}"


def connect(path: Path, timeout_s: float) -> socket.socket:
    """A connection to the process that has the data directory ``path``. Raises
    :class:`OSError`."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.settimeout(timeout_s)
        sock.connect(f"/proc/self/fd/{fd}/{CONTROL_NAME}")
    except BaseException:
        sock.close()
        raise
    finally:
        os.close(fd)
    return sock


def peer_of(sock: socket.socket | trio.socket.SocketType) -> tuple[int, int]:
    """Process and user at the other end."""
    found = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
    process, user, _ = CREDENTIALS.unpack(found)
    return process, user


def _holder(path: Path) -> str:
    """The process that has the directory, for people."""
    if found := holder_of(path):
        return found
    with suppress(OSError), connect(path, 1.0) as sock:
        return str(peer_of(sock)[0])
    return ""
