"""What hostile clients of the management API send, who know a password or guess one."""

import json
import random
from base64 import b64encode
from collections.abc import Callable, Mapping
from typing import Any, Final

Theme = Callable[[random.Random], bytes]

GUEST: Final = "Basic " + b64encode(b"guest:guest").decode()
DEEP: Final = b"[" * 500_000
DOUBLED: Final = b'{"a": 1, "a": 2, ' * 1000 + b'"b": 1' + b"}" * 1000
PIECE: Final = 64 * 1024


def ask(method: str, path: str, body: bytes = b"", proof: str = GUEST) -> bytes:
    head = f"{method} /api/{path} HTTP/1.1\r\nhost: x\r\nauthorization: {proof}\r\n"
    return f"{head}content-length: {len(body)}\r\n\r\n".encode() + body


def opening() -> bytes:
    return b""


def hostile_json(chance: random.Random) -> bytes:
    bodies = (
        DEEP,
        DOUBLED,
        b'{"durable": NaN}',
        b'{"arguments": {"x-max-length": 1' + b"0" * 5000 + b"}}",
        b'{"arguments": {"\\ud800": 1}}',
        b'{"arguments": "' + b"\xff" * 1000 + b'"}',
        b"[" * 90 + b"]" * 90,
        b'{"arguments": {' + b",".join(b'"x%d": {}' % n for n in range(20_000)) + b"}}",
        b"null",
        b"7",
    )
    paths = (
        ("PUT", "queues/%2F/hostile"),
        ("PUT", "exchanges/%2F/hostile"),
        ("PUT", "users/hostile"),
        ("PUT", "policies/%2F/hostile"),
        ("PUT", "parameters/shovel/%2F/hostile"),
        ("PUT", "permissions/%2F/guest"),
        ("PUT", "vhosts/hostile"),
        ("POST", "definitions"),
        ("POST", "bindings/%2F/e/amq.topic/q/none"),
        ("POST", "queues/%2F/none/get"),
        ("POST", "exchanges/%2F/amq.topic/publish"),
        ("PUT", "global-parameters/hostile"),
        ("PUT", "vhost-limits/%2F/max-queues"),
        ("PUT", "user-limits/guest/max-channels"),
    )
    asked = (ask(*chance.choice(paths), chance.choice(bodies)) for _ in range(20))
    return b"".join(asked)


def huge_bodies(_: random.Random) -> bytes:
    """A hundred megabytes of definitions that never end."""
    head = "POST /api/definitions HTTP/1.1\r\nhost: x\r\n"
    head += f"authorization: {GUEST}\r\ntransfer-encoding: chunked\r\n\r\n"
    piece = b"%x\r\n" % PIECE + b'{"queues": [' + b"1," * ((PIECE - 12) // 2) + b"\r\n"
    return head.encode() + piece * 32


def large_definitions(chance: random.Random) -> bytes:
    """A few thousand objects, the last of which is invalid, so that none is created."""
    vhost = f"hostile-{chance.randrange(5)}"
    users: list[Any] = [{"name": f"h{n}", "password_hash": "", "tags": []} for n in range(5000)]
    document = {"users": users, "vhosts": [{"name": vhost}],
                "permissions": [{"user": "nobody-at-all", "vhost": vhost, "configure": "(",
                                 "write": "", "read": ""}]}  # fmt: skip
    return ask("POST", "definitions", json.dumps(document).encode())


def lists(chance: random.Random) -> bytes:
    """Every list, sorted by unusual fields, filtered by patterns that take long to match."""
    slow = "%5E(?!b)(a%7Ca)*$".replace("(", "%28").replace("?", "%3F")
    sorts = (
        "messages",
        "message_bytes",
        "message_stats.publish_details.rate",
        "arguments.x",
        "z" * 900,
    )
    queries = [f"queues?page=1&page_size=500&sort={chance.choice(sorts)}" for _ in range(10)]
    queries += [
        f"queues?page=1&name={slow}&use_regex=true",
        "queues",
        "definitions",
        "bindings",
        "queues/detailed",
        "overview?lengths_age=600&lengths_incr=5",
        "channels",
        "exchanges",
        "queues?columns=" + ",".join(f"a{n}" for n in range(500)),
        "nodes",
        "vhosts",
        "connections?page=1&page_size=500&sort=recv_oct",
    ]
    return b"".join(ask("GET", each) for each in queries)


def odd_paths(chance: random.Random) -> bytes:
    parts = (
        "%2F",
        "%00",
        "%FF",
        "%ed%a0%80",
        "..",
        "%2e%2e",
        "a" * 3000,
        "",
        "%zz",
        "%F0%9F%98%80",
    )
    paths = ("/".join(chance.choices(parts, k=chance.randrange(1, 6))) for _ in range(30))
    kinds = ("queues", "exchanges", "users", "permissions", "bindings", "connections", "vhosts")
    return b"".join(ask(chance.choice(("GET", "DELETE")), f"{chance.choice(kinds)}/none-{each}")
                    for each in paths)  # fmt: skip


def cycles(chance: random.Random) -> bytes:
    """Exchanges that are bound in cycles, and messages published to them."""
    names = [f"cycle{n}" for n in range(6)]
    body = b'{"type": "fanout", "durable": false}'
    asked = [ask("PUT", f"exchanges/%2F/{name}", body) for name in names]
    asked += [
        ask("POST", f"bindings/%2F/e/{one}/e/{other}", b"{}") for one in names for other in names
    ]
    message = (
        b'{"properties": {}, "routing_key": "k", "payload": "x", "payload_encoding": "string"}'
    )
    asked += [
        ask("POST", f"exchanges/%2F/{chance.choice(names)}/publish", message) for _ in range(20)
    ]
    return b"".join(asked)


def guesses(chance: random.Random) -> bytes:
    """Guessed passwords, hashes and tokens."""
    proofs = []
    for number in range(20):
        guessed = b"%s:%d" % (chance.choice((b"guest", b"admin", b"\xff" * 500)), number)
        proofs.append("Basic " + b64encode(guessed).decode())
    nothing = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJndWVzdCJ9."
    proofs += [f"Bearer {nothing}", "Basic !!!", "Basic", "Bearer " + "a." * 4000, "Negotiate x"]
    return b"".join(ask("GET", "whoami", proof=each) for each in proofs)


def drip(_: random.Random) -> bytes:
    """A head that never ends."""
    return b"GET /api/overview HTTP/1.1\r\nhost: x\r\nx-long: "


THEMES: Final[Mapping[str, Theme]] = {
    each.__name__: each
    for each in (
        hostile_json, huge_bodies, large_definitions, lists, odd_paths, cycles, guesses, drip,
    )
}  # fmt: skip
