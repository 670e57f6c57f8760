"""A client of the management API that returns answers as they are."""

import http.client
import json
from base64 import b64encode
from dataclasses import dataclass
from typing import Any

from conformance.brokers.process import Address


@dataclass(frozen=True, slots=True)
class Answer:
    """A broker's answer."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body as a value; None if there is none."""
        return json.loads(self.body) if self.body else None


class Client:
    """Makes calls as one user."""

    def __init__(self, address: Address, user: str = "guest", password: str = "guest") -> None:
        self.address = address
        self.user = user
        self._password = password

    def __repr__(self) -> str:
        return f"<Client {self.user} of {self.address}>"

    def call(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> Answer:
        """Make one request; a body that is not bytes is sent as JSON."""
        proof = b64encode(f"{self.user}:{self._password}".encode()).decode()
        sent = {"content-type": "application/json", **(headers or {})}
        if self.user:
            sent["authorization"] = f"Basic {proof}"
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        connection = http.client.HTTPConnection(self.address.host, self.address.port, timeout=30)
        try:
            connection.request(method, f"/api/{path}", data, sent)
            got = connection.getresponse()
            named = {name.lower(): value for name, value in got.getheaders()}
            return Answer(got.status, named, got.read())
        finally:
            connection.close()
