"""What hostile clients of the data API send: endless ranges, impossible positions, other clients'
leases, and writes that are begun and never ended."""

import json
import random
from collections.abc import Callable, Mapping
from struct import pack
from typing import Any, Final

from tests.attack.amqp import LARGE_QUEUE
from tests.attack.requests import get, put

TOPICS: Final = 3_002
"""Numbers that topics may have."""

LARGE_TOPIC: Final = f"persistent://public/default/{LARGE_QUEUE}"

PLACES: Final = ("0:0", "1:0", "-1:0", "0:-1", "2147483647:4294967295", "9999999999:9", "x", "")


def post(path: str, document: Any) -> bytes:
    return put(f"/data/v1{path}", json.dumps(document).encode(), "POST")


def data_blocks(chance: random.Random) -> bytes:
    """Everything that exists, a hundred times over, and what cannot exist."""
    whole = "from=0:0&to=2147483647:4294967295&bytes=1073741824"
    sizes = (0, -1, 9**19)
    odd = [
        f"from={chance.choice(PLACES)}&to={chance.choice(PLACES)}&bytes={chance.choice(sizes)}"
        for _ in range(20)
    ]
    return b"".join(
        get(f"/data/v1/blocks?id={chance.randrange(TOPICS)}&{each}") for each in [*odd, whole] * 5
    )


def data_documents(chance: random.Random) -> bytes:
    """Lists of the maximum length: of nothing, of other clients' leases, of impossible
    positions."""
    names = [f"persistent://public/default/none-{n}" for n in range(10_000)]
    subscription = {"subscription": "x" * chance.choice((1, 501)), "owner": "somebody else"}
    places = {LARGE_TOPIC: {"id": chance.randrange(TOPICS), "next": chance.choice(PLACES)}}
    never = {"stage": "s", "pieces": 9, "rows": 9}
    deep: Any = []
    for _ in range(50):
        deep = [deep]
    documents = (
        ("/extents", {"topics": names}), ("/extents", {"topics": [LARGE_TOPIC] * 10_000}),
        ("/positions", {"topics": {name: {"time_ms": 0} for name in names}}),
        ("/cursors/open", subscription | {"topics": {name: {} for name in names}}),
        ("/cursors/renew", subscription | {"topics": {LARGE_TOPIC: {"id": 1}}}),
        ("/cursors/acknowledge", subscription | {"topics": places}),
        ("/cursors/release", subscription | {"topics": [LARGE_TOPIC]}),
        ("/ledgers/trim", {"topics": {LARGE_TOPIC: {"id": -1, "before": "0:0"}}}),
        ("/commits", {"query": "q", "batch": 2**63, "stages": []}),
        ("/commits", {"query": "q", "batch": 1, "stages": [never]}),
        ("/commits", {"query": "../../q", "batch": -1, "stages": deep}),
    )  # fmt: skip
    return b"".join(post(*chance.choice(documents)) for _ in range(5)) + get("/data/v1/topics")


def data_leftovers(chance: random.Random) -> bytes:
    """Hundreds of stages that are never committed, and malformed rows."""
    document = {
        "rows": 1,
        "columns": ["value"],
        "targets": [{"topic": LARGE_TOPIC}],
        "properties": [],
    }
    head = json.dumps(document).encode()
    rows = b"ARW1" + pack("<I", len(head)) + head + pack("<i", 1) + b"x"
    bodies = (rows, rows[:-1], rows + b"x", b"ARW1" + pack("<I", 1 << 31), b"", bytes(1 << 20))
    query = chance.randrange(1 << 30)
    return b"".join(
        put(
            f"/data/v1/stages?query=left-{query}&batch={n}&stage=s&piece=0",
            rows if n % 3 else chance.choice(bodies),
            "POST",
        )
        for n in range(100)
    )


Theme = Callable[[random.Random], bytes]

THEMES: Final[Mapping[str, Theme]] = {
    each.__name__: each for each in (data_blocks, data_documents, data_leftovers)
}
