"""Calls of Pulsar's admin API, made as by any HTTP client."""

import json
import urllib.error
import urllib.request
from typing import Any, Final
from urllib.parse import urlencode

PERSISTENT: Final = "/admin/v2/persistent/public/default/"
NAMESPACE: Final = "/admin/v2/namespaces/public/default"
TIMEOUT_S: Final = 30.0


class Refused(Exception):
    """The call was answered with an error."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(f"{status}: {reason}")
        self.status = status
        self.reason = reason


class Admin:
    """The admin API of one broker. Paths that do not begin with a slash are below
    ``persistent/public/default``."""

    def __init__(self, url: str, token: str = "") -> None:
        """``token`` says who calls, where that is asked."""
        self._url = url
        self._headers = {"Content-Type": "application/json"}
        if token:
            self._headers["Authorization"] = f"Bearer {token}"

    def __repr__(self) -> str:
        return f"<Admin {self._url}>"

    def get(self, path: str, **query: str) -> Any:
        return self.call("GET", path, **query)

    def get_if_there(self, path: str) -> Any:
        """The document, or None if the path does not exist."""
        try:
            return self.get(path)
        except Refused as refused:
            if refused.status == 404:
                return None
            raise

    def read(self, path: str) -> bytes:
        """The body of an answer that is not JSON."""
        return self._call("GET", path)

    def put(self, path: str, body: Any = None, **query: str) -> Any:
        return self.call("PUT", path, body, **query)

    def post(self, path: str, body: Any = None, **query: str) -> Any:
        return self.call("POST", path, body, **query)

    def delete(self, path: str, **query: str) -> Any:
        return self.call("DELETE", path, **query)

    def call(self, method: str, path: str, body: Any = None, **query: str) -> Any:
        """The answer's document, or None if it has none. Raises :class:`Refused`."""
        found = self._call(method, path, body, **query)
        return json.loads(found) if found else None

    def _call(self, method: str, path: str, body: Any = None, **query: str) -> bytes:
        path = path if path.startswith("/") else PERSISTENT + path
        request = urllib.request.Request(
            f"{self._url}{path}" + (f"?{urlencode(query)}" if query else ""),
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers=self._headers,
        )
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
                found: bytes = answer.read()
                return found
        except urllib.error.HTTPError as error:
            with error:
                raise Refused(error.code, _reason(error.read())) from None


def local(topic: str) -> str:
    """A topic's local name, without tenant and namespace."""
    return topic.rpartition("/")[2]


def _reason(body: bytes) -> str:
    try:
        return str(json.loads(body)["reason"])
    except (ValueError, KeyError):
        return body.decode(errors="replace")
