"""Files of a data directory are regular files.

The rule: whatever else has the name of one is refused at once. Opening a FIFO would wait for
another process, which never comes, and a device may have no end.
"""

import errno
import os
import stat


def open_regular(path: str | os.PathLike[str], flags: int, mode: int = 0o777) -> int:
    """Return a descriptor of a regular file, which exec closes. Raises :class:`OSError`, for
    anything else too."""
    # Without O_NONBLOCK, opening a FIFO waits. Reads of regular files do not care.
    fd = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK, mode)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "not a regular file", os.fspath(path))
    return fd
