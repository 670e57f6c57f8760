"""How hostile clients reach what they attack: a port, or a socket in a directory."""

import os
import socket
from pathlib import Path


def dial(address: str, *, blocking: bool) -> socket.socket:
    """A connection that takes little at once; ``address`` is a port, or the path of a socket."""
    is_port = address.isdecimal()
    made = socket.socket(socket.AF_INET if is_port else socket.AF_UNIX)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    made.setblocking(blocking)
    if is_port:
        made.connect_ex(("127.0.0.1", int(address)))
        return made
    path = Path(address)
    directory = os.open(path.parent, os.O_RDONLY)  # the name of a socket has 107 bytes at the most
    try:
        made.connect_ex(f"/proc/self/fd/{directory}/{path.name}")
    finally:
        os.close(directory)
    return made
