"""An atomic directory that is made beside its place and gets its name when it is whole.

The rule: under its name there is nothing, or all of it, on disk. It is made beside its place under
a longer name, by one process at a time; the next maker removes what a killed one left.
"""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from arneb_core.api.errors import StoreLocked, StoreUnusable
from arneb_core.store.directory.directory import sync_names


@contextmanager
def atomic_directory(target: Path, suffix: str) -> Iterator[Path]:
    """Yield an empty directory beside ``target``, put in its place if the block ends without an
    error, and removed otherwise. The block itself flushes what it writes there.

    Raises :class:`.StoreUnusable` when ``target`` holds something, :class:`.StoreLocked` when
    another process is making it, and :class:`OSError`.
    """
    target = Path(os.path.abspath(target))
    _expect_nothing(target)
    making = target.with_name(target.name + suffix)
    making.parent.mkdir(parents=True, exist_ok=True)
    fd = _claim(making)
    try:
        _empty(making)
        yield making
        _expect_nothing(target)
        os.rename(making, target)
        sync_names(target)
    except BaseException:
        shutil.rmtree(making, ignore_errors=True)
        raise
    finally:
        os.close(fd)


def _expect_nothing(target: Path) -> None:
    if target.is_symlink() or (target.exists() and (not target.is_dir() or any(target.iterdir()))):
        raise StoreUnusable(f"{target} already exists: expected a directory that does not")


def _claim(making: Path) -> int:
    """Make the directory and lock it; the lock goes with the process."""
    while True:
        making.mkdir(mode=0o750, exist_ok=True)
        fd = os.open(making, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(fd), os.stat(making)):
                return fd
        except BlockingIOError as error:
            os.close(fd)
            raise StoreLocked(f"{making} is being written by another process") from error
        except FileNotFoundError:
            pass  # its maker has just put it in its place
        os.close(fd)


def _empty(making: Path) -> None:
    for each in making.iterdir():
        if each.is_dir() and not each.is_symlink():
            shutil.rmtree(each)
        else:
            each.unlink()
