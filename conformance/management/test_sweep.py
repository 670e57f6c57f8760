"""The sweep, run on both brokers: status, error, reason and headers of every answer are the same,
except where stated here.
"""

import http.client
import json
import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import pika
import pytest
from conformance.brokers.process import Address
from conformance.management import sweep
from conformance.management.conftest import Managed
from conformance.management.fields import by_name, differences
from conformance.management.sweep import Names, Request

PASSWORDS: Final = {"guest": "guest", sweep.WRONG: "wrong"}
CONNECTION: Final = "of the sweep"
SHOWN_WITHIN_S: Final = 30.0
COUNTED_WITHIN_S: Final = 15.0
"""How long fields may still differ, in seconds: RabbitMQ samples every five seconds, and shows
little about a new queue before that."""

ANSWERED_WITHIN_S: Final = 90.0
"""RabbitMQ asks its own processes, which have timeouts of their own."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The parts of an answer that are compared."""

    status: int
    error: str = ""
    reason: Any = None
    allow: str = ""
    location: str = ""
    asks: bool = False
    """Whether it asks for a login."""
    kind: str = ""
    """The content type of the body."""


class Line:
    """A persistent connection to a broker."""

    def __init__(self, address: Address) -> None:
        self._connection = http.client.HTTPConnection(
            address.host, address.port, timeout=ANSWERED_WITHIN_S
        )

    def __repr__(self) -> str:
        return f"<Line to {self._connection.host}:{self._connection.port}>"

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def play(self, request: Request) -> tuple[Outcome, bytes]:
        """Send a request; the result is its outcome and the body of the answer."""
        headers = {"content-type": "application/json", **request.headers}
        if request.user:
            name = "guest" if request.user == sweep.WRONG else request.user
            proof = f"{name}:{PASSWORDS.get(request.user, 'p')}"
            headers["authorization"] = f"Basic {b64encode(proof.encode()).decode()}"
        given = request.body
        body = given if isinstance(given, bytes | None) else json.dumps(given).encode()
        for again in (True, False):
            try:
                self._connection.request(request.method, f"/api/{request.path}", body, headers)
                got = self._connection.getresponse()
                break
            except (http.client.RemoteDisconnected, ConnectionError):
                self._connection.close()  # RabbitMQ closes the connection after an internal error
                assert again, request
            except TimeoutError:
                self._connection.close()
                raise AssertionError(f"expected an answer to {request}") from None
        data = got.read()
        error, reason = "", None
        if got.status >= 400 and data:
            document = json.loads(data)
            error, reason = document.get("error", document.get("status")), document["reason"]
        location, tilde, _ = (got.getheader("location") or "").partition("~")
        outcome = Outcome(
            got.status, error, reason, got.getheader("allow") or "", location + tilde,
            got.getheader("www-authenticate") is not None, got.getheader("content-type") or "",
        )  # fmt: skip
        return outcome, data


def is_named(request: Request, ours: Outcome, theirs: Outcome) -> bool:
    """Whether DIFFERENCES.md names this difference."""
    if theirs.status == 500:
        return ours.status < 500  # RabbitMQ fails with an internal error
    if request.user == sweep.WRONG and theirs.reason == "Login failed":
        if ours.status == 401:
            return (ours.reason, ours.asks) == ("Not_Authorized", theirs.asks)
        return ours.status == 405
    if request.about in NEWER:
        return theirs.status == 404
    if not request.about:  # there is no such path, so RabbitMQ looks for a file of that name
        return ours.status == 404
    if request.about == "login":
        return (ours.reason, theirs.reason) == ("Not_Authorized", "Login failed")
    if request.about == "feature-flags":
        return ours.status == 200
    if (request.about, ours.status, theirs.status) in OTHERWISE:
        return True
    if request.about in MORE_METHODS or "limits" in request.about:
        if ours.status == theirs.status == 405 or request.method in ("OPTIONS", "HEAD", "DELETE"):
            return True
        return ours.status == 405 and request.about in MORE_METHODS
    return False


NEWER: Final = frozenset(each.path for each in sweep.PATHS if each.newer)

MORE_METHODS: Final = frozenset(
    {
        "federation-links", "federation-links/:vhost", "auth/attempts/:node",
        "auth/attempts/:node/source", "shovels", "shovels/:vhost", "shovels/vhost/:vhost/:name",
        "shovels/vhost/:vhost/:name/restart",
    }
)  # fmt: skip
"""RabbitMQ claims that they have methods that end in an internal error, or that reset
statistics."""

OTHERWISE: Final = frozenset(
    {
        ("exchanges/:vhost/:exchange/publish", 404, 400),
        ("exchanges/:vhost/:exchange/publish", 404, 401),
        ("exchanges/:vhost/:exchange/publish", 401, 400),
        ("queues/:vhost/:queue/get", 404, 401),
        ("queues/:vhost/:queue/get", 401, 401),
        ("aliveness-test/:vhost", 401, 401),
        ("shovels/vhost/:vhost/:name", 200, 404),
        ("queues/:vhost/:queue/get", 404, 404),
        ("exchanges/:vhost/:exchange/bindings/source", 404, 200),
        ("exchanges/:vhost/:exchange/bindings/destination", 404, 200),
        ("queues/:vhost/:queue/bindings", 404, 200),
        ("bindings/:vhost/e/:exchange/q/:queue", 404, 200),
        ("bindings/:vhost/e/:exchange/e/:destination", 404, 200),
        ("vhosts/:vhost/start/:node", 404, 400),
    }
)
"""The path, our status and RabbitMQ's status."""


def is_named_of_bodies(request: Request, ours: Outcome, theirs: Outcome) -> bool:
    """Whether this difference is allowed for invalid bodies: reasons may be worded differently, and
    Arneb may refuse values of the wrong type."""
    if (ours.status, ours.error) == (theirs.status, theirs.error):
        alike = (ours.allow, ours.asks) == (theirs.allow, theirs.asks)
        return alike and ours.location == theirs.location.replace("/null~", "/~")
    if theirs.status == 415:
        return ours.status in (200, 201, 204, 415)
    if isinstance(request.body, dict) and request.body.get("type", "") is None:
        return True  # null is not a type
    if theirs.status in (200, 201, 204) and ours.status == 400:
        return isinstance(request.body, dict)
    return is_named(request, ours, theirs)


def connected(managed: Managed) -> pika.BlockingConnection:
    """A client that consumes in the vhost of the sweep."""
    parameters = pika.URLParameters(f"amqp://sweep:p@{managed.amqp}/v%2Fs?heartbeat=0")
    parameters.client_properties = {"connection_name": CONNECTION}
    connection = pika.BlockingConnection(parameters)
    connection.channel().basic_consume("empty", lambda *_: None)
    return connection


def names_at(managed: Managed) -> Names:
    """The names that differ between the brokers: of the node, the connection and the channel."""
    node, end = managed.api.call("GET", "overview").json["node"], time.monotonic() + SHOWN_WITHIN_S
    while time.monotonic() < end:
        for each in managed.api.call("GET", "channels").json:
            name = each.get("connection_details", {}).get("name", "")
            shown = managed.api.call("GET", "connections").json
            named = {row["name"]: row.get("client_properties", {}) for row in shown}
            if named.get(name, {}).get("connection_name") == CONNECTION:
                return {"node": node, "connection": name, "channel": each["name"]}
        time.sleep(0.2)
    raise AssertionError(f"expected the connection of the sweep at {managed.name}")


@pytest.fixture(scope="module")
def lines(
    pair: tuple[Managed, Managed],
) -> Iterator[tuple[tuple[Line, Names], tuple[Line, Names]]]:
    made, kept = [], []
    for managed in pair:
        line = Line(managed.http)
        for request in sweep.setting_up():
            assert line.play(request)[0].status in (201, 204), request
        kept.append(connected(managed))
        made.append((line, names_at(managed)))
    yield made[0], made[1]
    for connection in kept:
        connection.close()
    for line, _ in made:
        line.close()


Requests = Callable[[Names], Iterator[Request]]
Judge = Callable[[Request, Outcome, Outcome], bool]


def compared(request: Request, our_body: bytes, their_body: bytes) -> list[object]:
    """The differences between two answers to a GET."""
    shown, wanted = json.loads(our_body), json.loads(their_body)
    in_list, path = isinstance(wanted, list), f"/{request.about}"
    return list(differences(by_name(shown), by_name(wanted), path, in_list=in_list))


@pytest.mark.parametrize(
    ("requests", "is_named"),
    [
        pytest.param(sweep.by_methods, is_named, id="methods"),
        pytest.param(sweep.of_missing, is_named, id="missing"),
        pytest.param(sweep.by_everybody, is_named, id="everybody"),
        pytest.param(sweep.of_bodies, is_named_of_bodies, id="bodies"),
    ],
)
def test_every_request_of_the_sweep_has_the_same_answer(
    lines: tuple[tuple[Line, Names], tuple[Line, Names]], requests: Requests, is_named: Judge
) -> None:
    (our_line, our_names), (their_line, their_names) = lines
    different, played = list[object](), 0
    for request, other in zip(requests(our_names), requests(their_names), strict=True):
        played += 1
        (ours, our_body), (theirs, their_body) = our_line.play(request), their_line.play(other)
        assert ours.status != 500, request
        if (
            requests is sweep.by_methods
            and ours.status == theirs.status == 200
            and request.method == "GET"
        ):
            found = compared(request, our_body, their_body)
            end = time.monotonic() + COUNTED_WITHIN_S
            while found and time.monotonic() < end:
                time.sleep(0.5)
                bodies = our_line.play(request)[1], their_line.play(other)[1]
                found = compared(request, *bodies)
            different += found
        if ours != theirs and not is_named(request, ours, theirs):
            different.append((request, ours, theirs))
    assert played > 100
    assert not different, "\n".join(map(str, different))
