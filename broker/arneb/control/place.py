"""The place of the control socket: its name in the data directory, and the process that owns it.

The rule: a directory belongs to one process, from before its store is opened until the process
ends. A broker stopped by ``stop_app`` thus keeps other brokers out, while commands that work on a
store without a broker may use it. Only the socket's owner can connect: the socket has its mode
before it listens.
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
    """One process's claim of a data directory."""

    def __init__(self, path: Path, fd: int) -> None:
        self.path = path
        self._fd = fd
        self._bound = -1
        """The socket's file, held open so that no other file gets its inode number; some file
        systems reuse a number for the very next file."""

    def __repr__(self) -> str:
        return f"<ControlPlace {self.path}>"

    @classmethod
    def claim(cls, path: Path) -> Self:
        """Claim the directory for this process, and make it if absent. Blocks on the disk.

        Raises :class:`StoreLocked` and the other kinds of :class:`StoreUnusable`, with nothing
        changed.
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
        """Return the socket, which only its owner may open. Raises :class:`OSError`."""
        name = self._name
        with suppress(FileNotFoundError):
            os.unlink(name)  # left by a killed process: the directory is ours
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
        """The socket's path, through the open directory: a socket's path has at most 107 bytes."""
        return f"/proc/self/fd/{self._fd}/{CONTROL_NAME}"


def connect(path: Path, timeout_s: float) -> socket.socket:
    """Connect to the process that has the data directory ``path``. Raises :class:`OSError`."""
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
    """Return process and user at the other end."""
    found = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
    process, user, _ = CREDENTIALS.unpack(found)
    return process, user


def _holder(path: Path) -> str:
    """Return the process that has the directory, as text."""
    if found := holder_of(path):
        return found
    with suppress(OSError), connect(path, 1.0) as sock:
        return str(peer_of(sock)[0])
    return ""
