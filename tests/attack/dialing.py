"""How hostile clients connect to their target: a port, or a socket in a directory."""

import os
import socket
from pathlib import Path


def dial(address: str, *, blocking: bool) -> socket.socket:
    """A connection with a small receive buffer; ``address`` is a port, or the path of a socket."""
    is_port = address.isdecimal()
    made = socket.socket(socket.AF_INET if is_port else socket.AF_UNIX)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    made.setblocking(blocking)
    if is_port:
        made.connect_ex(("127.0.0.1", int(address)))
        return made
    path = Path(address)
    directory = os.open(path.parent, os.O_RDONLY)  # a socket's path may have at most 107 bytes
    try:
        made.connect_ex(f"/proc/self/fd/{directory}/{path.name}")
    finally:
        os.close(directory)
    return made
