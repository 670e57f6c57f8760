"""Sends every body to one broker, and compares the answers of two."""

import http.client
import json
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from conformance.pulsar.bodies.endpoints import ENDPOINTS, SHOWN, Endpoint
from conformance.pulsar.bodies.mutations import JSON, Body, bodies

ANSWER_WITHIN_S: Final = 30.0
SETTLES_S: Final = 2.0
"""How many seconds Apache Pulsar takes until a topic's policies are visible."""

LATEST: Final = {"ledgerId": -1, "entryId": -1, "partitionIndex": -1}
TENANT: Final = {"adminRoles": [], "allowedClusters": ["standalone"]}


@dataclass(frozen=True, slots=True)
class Said:
    """What one broker answered to one body, and what it showed afterwards."""

    endpoint: str
    body: Body
    status: int
    reason: str
    shown: Any = None


class Broker:
    """One broker's admin API."""

    def __init__(self, url: str) -> None:
        self._where = urlsplit(url).netloc
        self._connection = http.client.HTTPConnection(self._where, timeout=ANSWER_WITHIN_S)

    def __repr__(self) -> str:
        return f"<Broker {self._where}>"

    def ask(
        self, method: str, path: str, content: bytes | None = None, kind: str = ""
    ) -> tuple[int, bytes]:
        """The status and body of an answer. A request whose connection was closed is repeated on a
        new one, up to three times; the result then is 0 and a text."""
        headers = {"Content-Type": kind} if kind else {}
        for _ in range(3):
            try:
                self._connection.request(method, path, content, headers)
                answer = self._connection.getresponse()
                return answer.status, answer.read()
            except (http.client.HTTPException, OSError):
                self._connection.close()
        return 0, b"the connection was closed"

    def do(self, method: str, path: str, right: Any) -> None:
        """Make a preparatory call, which must succeed or find its object existing."""
        status, answer = self.ask(method, path, json.dumps(right).encode(), JSON)
        assert 200 <= status < 300 or status == 409, f"{method} {path}: {status} {answer!r:.300}"


def play(url: str, endpoints: Sequence[Endpoint] = ENDPOINTS) -> list[Said]:
    """Send every body of every call. The n-th body of each call uses the n-th namespace and topic.
    Calls for the same topic are far enough apart for Apache Pulsar, which knows a topic's policies
    only after it has read them back."""
    broker = Broker(url)
    all_bodies = {each.name: list(bodies(each.right)) for each in endpoints}
    broker.do("PUT", "/admin/v2/namespaces/public/bodies", {})
    for number in range(max(map(len, all_bodies.values()))):
        broker.do("PUT", f"/admin/v2/namespaces/public/bodies-{number}", {})
        below = "/admin/v2/persistent/public/bodies"
        broker.do("PUT", f"{below}/t-{number}", {})
        broker.do("PUT", f"{below}/more-{number}/partitions", 2)
        broker.do("PUT", f"{below}/t-{number}/subscription/s", LATEST)
        broker.do("PUT", f"/admin/v2/tenants/changed-{number}", TENANT)
    for endpoint in endpoints:
        if endpoint.first:
            for number in range(len(all_bodies[endpoint.name])):
                path = endpoint.path.format(n=number)
                broker.ask(endpoint.method, path, json.dumps(endpoint.right).encode(), JSON)
    time.sleep(SETTLES_S)
    answers: list[tuple[Endpoint, int, Body, int, bytes]] = []
    for endpoint in endpoints:
        for number, body in enumerate(all_bodies[endpoint.name]):
            path = endpoint.path.format(n=number)
            content = body.content or None
            status, answer = broker.ask(endpoint.method, path, content, body.type)
            answers.append((endpoint, number, body, status, answer))
    time.sleep(SETTLES_S)
    return [
        Said(endpoint.name, body, status, _reason(status, answer), _shown(broker, endpoint, number))
        for endpoint, number, body, status, answer in answers
    ]


def _reason(status: int, answer: bytes) -> str:
    """The broker's reason, without the JSON around it."""
    try:
        found = json.loads(answer)
    except ValueError:
        return answer.decode(errors="replace") if status >= 300 else ""
    if status < 300:
        return json.dumps(found, sort_keys=True)
    return str(found.get("reason", found) if isinstance(found, dict) else found)


def _shown(broker: Broker, endpoint: Endpoint, number: int) -> Any:
    path = endpoint.path if endpoint.shown == SHOWN else endpoint.shown
    if not path:
        return None
    status, answer = broker.ask("GET", path.format(n=number))
    try:
        found = json.loads(answer) if answer else None
    except ValueError:
        found = None
    return (status, found if status < 300 else None)


JACKSON: Final = re.compile(r"com\.fasterxml|java\.lang|org\.apache|<html|Unrecognized|JSON")


@dataclass(frozen=True, slots=True)
class Difference:
    """One body to which two brokers reacted differently."""

    pulsar: Said
    arneb: Said
    of: str
    """What differs: ``status``, ``shown`` or ``reason``."""

    def __str__(self) -> str:
        one, other = self.pulsar, self.arneb
        where = f"{one.endpoint} <- {one.body.name} ({one.body.type})"
        values = [(each.status, each.reason[:160], each.shown) for each in (one, other)]
        return f"{self.of:7} {where}\n    Pulsar {values[0]}\n    Arneb  {values[1]}"


def differences(pulsar: Sequence[Said], arneb: Sequence[Said]) -> list[Difference]:
    """The differences: in the status, otherwise in what is shown afterwards, otherwise in the
    reason. Reasons that Apache Pulsar takes from its JSON library, which name Java classes, are not
    compared."""
    found: list[Difference] = []
    for one, other in zip(pulsar, arneb, strict=True):
        if one.status != other.status:
            found.append(Difference(one, other, "status"))
        elif one.shown != other.shown:
            found.append(Difference(one, other, "shown"))
        elif one.reason != other.reason and not JACKSON.search(one.reason):
            found.append(Difference(one, other, "reason"))
    return found
