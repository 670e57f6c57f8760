"""A web server of a test: an issuer of tokens, and a broker that sends everybody to another."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qs


@dataclass
class Web:
    """Where it is, and what it was asked."""

    url: str = ""
    redirect_to: str = ""
    """Where everybody is sent who does not ask for a token."""
    give: Callable[[], str] = lambda: ""
    """Makes the next token."""
    expires_s: float = 3_600.0
    status: int = 200
    asked: list[dict[str, str]] = field(default_factory=list)
    """The forms of those who asked for a token."""
    redirected: list[str] = field(default_factory=list)


@contextmanager
def web() -> Iterator[Web]:
    """One that runs."""
    found = Web()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path.endswith("/openid-configuration"):
                self._say(200, {"token_endpoint": f"{found.url}/token"})
                return
            found.redirected.append(self.path)
            self.send_response(307)
            self.send_header("Location", found.redirect_to + self.path)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def do_POST(self) -> None:
            form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
            found.asked.append({name: values[0] for name, values in form.items()})
            token = {"access_token": found.give(), "expires_in": found.expires_s}
            self._say(found.status, token if found.status == 200 else {"error": "no"})

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            pass

        def _say(self, status: int, document: dict[str, Any]) -> None:
            body = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield found
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
