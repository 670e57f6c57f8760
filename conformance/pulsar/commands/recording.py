"""Records the statuses of HTTP answers between a tool and a broker.

The rule: everything is passed on unchanged. This is needed because ``pulsar-admin`` shows the
reason of a refusal but not its status.
"""

import http.client
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Final
from urllib.parse import urlsplit

ANSWER_WITHIN_S: Final = 60.0
OWN: Final = frozenset({"connection", "transfer-encoding", "content-length", "server", "date"})
"""Headers that belong to a single connection."""


class Recorder:
    """A proxy in front of one broker."""

    def __init__(self, server: ThreadingHTTPServer) -> None:
        self._server = server
        self._statuses: list[int] = []

    def __repr__(self) -> str:
        return f"<Recorder {self.url}>"

    @property
    def url(self) -> str:
        """The URL of the proxy."""
        host, port = self._server.server_address[:2]
        return f"http://{host!s}:{port}"

    def record(self, status: int) -> None:
        """Record the status of an answer."""
        self._statuses.append(status)

    def taken(self) -> list[int]:
        """The statuses since the last call."""
        found, self._statuses = self._statuses, []
        return found


@contextmanager
def recorded(url: str) -> Iterator[Recorder]:
    """Run a proxy in front of the broker at ``url``."""
    broker = urlsplit(url)
    assert broker.hostname is not None

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def pass_on(self) -> None:
            assert broker.hostname is not None
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            connection = http.client.HTTPConnection(
                broker.hostname, broker.port, timeout=ANSWER_WITHIN_S
            )
            headers = {key: value for key, value in self.headers.items() if key.lower() not in OWN}
            try:
                connection.request(self.command, self.path, body, headers)
                answer = connection.getresponse()
                found = answer.read()
            finally:
                connection.close()
            recorder.record(answer.status)
            self.send_response_only(answer.status)
            for key, value in answer.getheaders():
                if key.lower() not in OWN:
                    self.send_header(key, value)
            if answer.status != http.client.NO_CONTENT:
                self.send_header("Content-Length", str(len(found)))
            self.end_headers()
            self.wfile.write(found)

        def log_message(self, *arguments: object) -> None:
            """Log nothing."""

    for method in ("GET", "PUT", "POST", "DELETE", "HEAD"):
        setattr(Handler, f"do_{method}", Handler.pass_on)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    recorder = Recorder(server)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield recorder
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
