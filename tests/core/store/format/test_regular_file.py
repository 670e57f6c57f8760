"""Only regular files are opened, and nothing else is waited for."""

import os
import socket
from pathlib import Path

import pytest

from arneb_core.store.format.regular_file import open_regular


def test_a_regular_file_is_opened_or_made(tmp_path: Path) -> None:
    made = open_regular(tmp_path / "file", os.O_RDWR | os.O_CREAT, 0o640)
    os.write(made, b"x")
    os.close(made)
    (tmp_path / "link").symlink_to("file")
    opened = open_regular(tmp_path / "link", os.O_RDONLY)
    assert os.read(opened, 2) == b"x"
    assert not os.get_inheritable(opened)
    os.close(opened)


@pytest.mark.parametrize("flags", [os.O_RDONLY, os.O_RDWR])
@pytest.mark.parametrize("kind", ["fifo", "directory", "device", "socket", "nothing"])
def test_nothing_else_is_opened(tmp_path: Path, kind: str, flags: int) -> None:
    path = tmp_path / "file"
    match kind:
        case "fifo":
            os.mkfifo(path)
        case "directory":
            path.mkdir()
        case "device":
            path.symlink_to("/dev/zero")
        case "socket":
            with socket.socket(socket.AF_UNIX) as listener:
                listener.bind(str(path))
    before = os.listdir("/proc/self/fd")
    with pytest.raises(OSError):
        open_regular(path, flags)
    assert len(os.listdir("/proc/self/fd")) == len(before)
