"""What hostile clients of the two HTTP listeners send."""

import json
import random
from collections.abc import Callable, Mapping
from typing import Final

from tests.attack import data
from tests.attack.requests import HOST, get, put

Theme = Callable[[random.Random], bytes]


def opening() -> bytes:
    return b""


def pages(_: random.Random) -> bytes:
    return (get("/api/topics") + get("/metrics")) * 100


def alarms(chance: random.Random) -> bytes:
    bodies = (b"[" * 500_000, b"1" * 5000, b'{"\\ud800": 1}', b'{"disk_free_min_bytes": -1}')
    return b"".join(put("/api/alarms", chance.choice(bodies)) for _ in range(5))


def endless_body(_: random.Random) -> bytes:
    return f"PUT /api/alarms HTTP/1.1\r\n{HOST}content-length: 2147483648\r\n\r\n".encode() + bytes(
        100_000
    )


def endless_pieces(_: random.Random) -> bytes:
    head = f"PUT /api/alarms HTTP/1.1\r\n{HOST}transfer-encoding: chunked\r\n\r\n"
    return head.encode() + (b"ffff\r\n" + bytes(0xFFFF) + b"\r\n") * 20


def unfinished_body(_: random.Random) -> bytes:
    return put("/api/alarms", bytes(1_000_000))[:-1]


def unfinished_head(_: random.Random) -> bytes:
    return f"GET / HTTP/1.1\r\n{HOST}".encode() + b"".join(b"x-%d: y\r\n" % n for n in range(3000))


def second_version(_: random.Random) -> bytes:
    return b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(1000)


def noise(chance: random.Random) -> bytes:
    return chance.randbytes(1000)


ROOT: Final = "/admin/v2/persistent/public/default"


def admin_lists(_: random.Random) -> bytes:
    return b"".join(
        get(path)
        for path in (
            "/admin/v2/namespaces/public/default/topics", ROOT, f"{ROOT}/attack-large/stats",
            f"{ROOT}/attack-large/internalStats", "/metrics", "/admin/v2/nothing" + "/x" * 5000,
        )
    ) * 50  # fmt: skip


def admin_messages(_: random.Random) -> bytes:
    subscription = f"{ROOT}/attack-large/subscription/amqp"
    return (
        get(f"{subscription}/position/1") + get(f"{subscription}/position/999999999999")
        + get(f"{ROOT}/attack-large/examinemessage?messagePosition=1")
    ) * 50  # fmt: skip


def admin_documents(chance: random.Random) -> bytes:
    avro = {"type": "AVRO", "schema": "[" * 200_000, "properties": {}}
    bodies = (b"[" * 300_000, b"9" * 5000, json.dumps(avro).encode(), b'{"\\ud800": {}}')
    paths = (
        ("POST", "/admin/v2/schemas/public/default/attack-large/schema"),
        ("POST", "/admin/v2/namespaces/public/default/retention"),
        ("PUT", f"{ROOT}/attack-large/properties"),
        ("POST", f"{ROOT}/attack-large/backlogQuota"),
    )
    return b"".join(
        put(path, chance.choice(bodies), method) for method, path in paths for _ in range(5)
    )


COMMON: Final = (endless_pieces, unfinished_head, second_version, noise)

THEMES: Final[Mapping[str, Theme]] = {
    each.__name__: each for each in (pages, alarms, endless_body, unfinished_body, *COMMON)
} | data.THEMES

ADMIN_THEMES: Final[Mapping[str, Theme]] = {
    each.__name__: each for each in (admin_lists, admin_messages, admin_documents, *COMMON)
}
