"""Served: when a topic can be used again, seen by who has no state and no back-off.

The rule: it shares nothing with the client that is looked at: raw frames on plain sockets.
"""

import socket
import time
from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

import httpx
from conformance.wire.protobuf import data_of, decode, integer
from conformance.wire.pulsar import SIZE, Command, connect_frame, simple_frame

TRY_S: Final = 1.0
PAUSE_S: Final = 0.05
PROBE_ID: Final = 1


def wait_until_served(http_urls: Sequence[str], topic: str, within_s: float) -> float:
    """Until a new producer is let in, asked for again and again; the time of ``time.monotonic``
    then. Raises :class:`TimeoutError`."""
    end = time.monotonic() + within_s
    last: Exception | None = None
    while time.monotonic() < end:
        for http_url in http_urls:
            try:
                if _lets_a_producer_in(broker_of(http_url, topic), topic):
                    return time.monotonic()
            except (OSError, httpx.HTTPError, ValueError) as error:
                last = error
        time.sleep(PAUSE_S)
    raise TimeoutError(f"expected {topic} to be served within {within_s} s: {last!r}")


def broker_of(http_url: str, topic: str) -> tuple[str, int]:
    """Who serves a topic, as one broker knows."""
    path = topic.replace("://", "/")
    answer = httpx.get(
        f"{http_url}/lookup/v2/topic/{path}", timeout=TRY_S, follow_redirects=True
    ).raise_for_status()
    found = urlsplit(answer.json()["brokerUrl"])
    return found.hostname or "", found.port or 0


def _lets_a_producer_in(broker: tuple[str, int], topic: str) -> bool:
    with socket.create_connection(broker, timeout=TRY_S) as stream:
        stream.settimeout(TRY_S)
        producer = [(1, topic), (2, PROBE_ID), (3, PROBE_ID)]
        stream.sendall(connect_frame() + simple_frame(Command.PRODUCER, producer))  # type: ignore[arg-type]
        with stream.makefile("rb") as frames:
            while head := frames.read(SIZE.size):
                frame = frames.read(SIZE.unpack(head)[0])
                base = decode(frame[SIZE.size : SIZE.size + SIZE.unpack_from(frame)[0]])
                kind = Command(integer(base, 1))
                if kind is Command.PRODUCER_SUCCESS:
                    return integer(decode(data_of(base, kind)), 1) == PROBE_ID
                if kind is Command.ERROR:
                    return False
    return False
