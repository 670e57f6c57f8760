"""Asking: sends one request to the HTTP port of a running broker.

The rule: every error is one line for the user. Users other than ``guest`` authenticate by
``http://USER:PASSWORD@HOST:PORT``, or by a token in the environment, where others cannot see it.
"""

import json
import os
from base64 import b64encode
from http.client import HTTPException
from typing import Any, Final
from urllib.error import HTTPError, URLError
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit
from urllib.request import Request, urlopen

from arneb.cli import Refused
from arneb_amqp.config import GUEST

TIMEOUT_S: Final = 10.0

TOKEN: Final = "ARNEB_TOKEN"
"""The environment variable that holds a token."""

UNAUTHORIZED: Final = 401


def ask(url: str, path: str, body: Any = None) -> Any:
    """Return what the broker at ``url`` answers at ``path``: to a PUT of ``body`` if there is one,
    else to a GET. Raises :class:`Refused`."""
    try:
        parts = urlsplit(url)
        known = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        known = False
    if not known:
        raise Refused(f"expected http://HOST:PORT, got {url}")
    base_url = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
    request = Request(
        base_url.rstrip("/").removesuffix(path) + path,
        data=None if body is None else json.dumps(body).encode(),
        method="GET" if body is None else "PUT",
        headers={"content-type": "application/json"} | _proof(parts),
    )
    try:
        with urlopen(request, timeout=TIMEOUT_S) as answer:
            return json.load(answer)
    except HTTPError as error:
        raise Refused(_refusal(base_url, error)) from error
    except URLError as error:
        reason = getattr(error.reason, "strerror", None) or error.reason
        raise Refused(f"cannot reach {base_url}: {reason}") from error
    except (OSError, HTTPException, ValueError) as error:
        raise unlike(base_url) from error


def unlike(url: str) -> Refused:
    """Return the error for an answer that is not an Arneb broker's."""
    return Refused(f"{url} does not answer as an Arneb broker does")


def _proof(parts: SplitResult) -> dict[str, str]:
    if parts.username is not None:
        user = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    elif token := os.environ.get(TOKEN, ""):
        return {"authorization": f"Bearer {token}"}
    else:
        user = f"{GUEST.name}:{GUEST.password}"
    return {"authorization": f"Basic {b64encode(user.encode()).decode()}"}


def _refusal(url: str, error: HTTPError) -> str:
    if error.code == UNAUTHORIZED:
        how = f"http://USER:PASSWORD@HOST:PORT, or a token in {TOKEN}"
        return f"{url} requires authentication: {how}"
    try:
        return str(json.load(error)["reason"])
    except (OSError, ValueError, KeyError, TypeError):
        return f"{url} answers {error.code} {error.reason}: no Arneb broker?"
