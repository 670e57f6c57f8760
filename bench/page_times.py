"""How soon each view of the management page has its first figures: ``python -m bench.page_times``.

The rule: requests are made as the page makes them, through an event stream and single calls, all at
once. The view has its figures when the last answer has arrived. Cold means the first view by
anybody after a start of the broker; warm means later ones.
"""

import argparse
import http.client
import resource
import socket
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import quote, urlsplit

import pika
from bench.operators import declare
from bench.spark_session import Report
from bench.watching import session
from conformance.brokers.arneb import PROTOCOLS, Arneb
from conformance.brokers.process import Address
from pamqp import commands, frame, header

FIRST_FIGURES_S: Final = 1.0
WARM_LOOKS: Final = 3
PAUSE_S: Final = 2.0

NODE: Final = {"node": "page/node"}
LONGEST: Final = "page/topics?page=1&page_size=5&sort=messages&sort_reverse=true"
HISTORY: Final = "overview?msg_rates_age=300&msg_rates_incr=5&lengths_age=300&lengths_incr=5"
VHOSTS: Final = "vhosts?columns=name"


def _list(path: str, sort: str, *, reverse: bool = True) -> dict[str, str]:
    text = str(reverse).lower()
    return {**NODE, "list": f"{path}?page=1&page_size=50&sort={sort}&sort_reverse={text}"}


PAGES: Final[Mapping[str, tuple[Mapping[str, str], Sequence[str]]]] = {
    "overview": ({**NODE, "overview": "overview", "top": LONGEST}, (HISTORY,)),
    "queues by messages": (_list("page/topics", "messages"), (VHOSTS,)),
    "queues by name": (_list("page/topics", "name", reverse=False), (VHOSTS,)),
    "queues by what comes in": (_list("page/topics", "in"), (VHOSTS,)),
    "queues by size": (_list("page/topics", "bytes"), (VHOSTS,)),
    "queues by consumers": (_list("page/topics", "consumers"), (VHOSTS,)),
    "queues by age": (_list("page/topics", "age"), (VHOSTS,)),
    "queues searched": (
        {**NODE, "list": _list("page/topics", "messages")["list"] + "&name=q0123"}, (VHOSTS,),
    ),
    "queues by a pattern": (
        {**NODE, "list": _list("page/topics", "messages")["list"] + "&name=7%2437$&use_regex=true"},
        (VHOSTS,),
    ),
    "queue": (
        {**NODE, "queue": "page/queues/%2F/q000007"}, ("page/queues/%2F/q000007/history",),
    ),
    "bindings": ({**NODE, "queue": "page/queues/%2F/q000007"}, ("queues/%2F/q000007/bindings",)),
    "messages": ({**NODE, "queue": "page/queues/%2F/q000007"}, ("page/messages/%2F/q000007",)),
    "exchanges": (_list("exchanges", "name", reverse=False), ()),
    "default exchange": (
        {**NODE, "exchange": "exchanges/%2F/amq.default"}, (),
    ),
    "connections": (_list("page/connections", "flow"), ()),
    "connections by name": (_list("page/connections", "name"), ()),
    "channels": (_list("channels", "messages_unacknowledged"), ()),
    "transactions": ({**NODE, "list": "page/transactions"}, ()),
    "delayed": ({**NODE, "delayed": "page/delayed"}, ()),
    "users": (NODE, ("users", "permissions", "topic-permissions", "user-limits")),
    "vhosts": (NODE, ("vhosts", "vhost-limits")),
    "policies": (NODE, ("policies", VHOSTS)),
}  # fmt: skip
"""What each view watches, and what it requests once."""


class Page:
    """A browser with the page open."""

    def __init__(self, address: str, cookie: str) -> None:
        self._address = address
        self._headers = {"cookie": cookie, "accept-encoding": "gzip"}

    def __repr__(self) -> str:
        return f"<Page of {self._address}>"

    def first_figures_s(self, watched: Mapping[str, str], once: Sequence[str]) -> float:
        """The seconds until all figures have arrived."""
        began = time.perf_counter()
        asked = "&".join(f"{name}={quote(call, safe='')}" for name, call in watched.items())
        calls = [self._ask(f"page/stream?{asked}"), *map(self._ask, once)]
        stream = calls[0].getresponse()
        assert stream.status == 200, stream.read()
        missing, text = set(watched), b""
        while missing:
            text += stream.read1(65536)
            missing = {name for name in missing if f"event: {name}\n".encode() not in text}
        for each, path in zip(calls[1:], once, strict=True):
            answer = each.getresponse()
            answer.read()
            assert answer.status == 200, (path, answer.status)
        took_s = time.perf_counter() - began
        for each in calls:
            each.close()
        return took_s

    def _ask(self, path: str) -> http.client.HTTPConnection:
        connection = http.client.HTTPConnection(self._address, timeout=60)
        connection.request("GET", f"/api/{path}", headers=self._headers)
        return connection


@contextmanager
def clients(address: Address, count: int) -> Iterator[None]:
    """This many AMQP connections with one channel each, without heartbeats."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, soft + count), hard))
    made = [_client(address) for _ in range(count)]
    try:
        yield
    finally:
        for each in made:
            each.close()


def _client(address: Address) -> socket.socket:
    link = socket.create_connection((address.host, address.port), timeout=60)
    link.sendall(header.ProtocolHeader().marshal())
    start = commands.Connection.StartOk(mechanism="PLAIN", response="\0guest\0guest")
    tune = commands.Connection.TuneOk(channel_max=10, frame_max=131_072, heartbeat=0)
    _until(link, "Connection.Start")
    link.sendall(frame.marshal(start, 0))
    _until(link, "Connection.Tune")
    link.sendall(frame.marshal(tune, 0) + frame.marshal(commands.Connection.Open(), 0))
    _until(link, "Connection.OpenOk")
    link.sendall(frame.marshal(commands.Channel.Open(), 1))
    _until(link, "Channel.OpenOk")
    return link


def _until(link: socket.socket, name: str) -> None:
    """Read one method, which must be the named one."""
    data = b""
    while True:
        data += link.recv(65536)
        if len(data) >= 7 and len(data) >= 8 + int.from_bytes(data[3:7], "big"):
            _, _, method = frame.unmarshal(data)
            assert method.name == name, f"expected {name}, got {method.name}"
            return


def publish(broker: Arneb, queues: int) -> None:
    """Publish a few messages into every tenth queue."""
    with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        durable = pika.BasicProperties(delivery_mode=2)
        for number in range(0, queues, 10):
            for _ in range(1 + number % 3):
                channel.basic_publish("", f"q{number:06}", b"x" * 100, durable)


def main() -> None:
    """Print and keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queues", type=int, default=50_000)
    parser.add_argument("--connections", type=int, default=5_000)
    parser.add_argument("--only", nargs="*", default=list(PAGES), choices=list(PAGES))
    parser.add_argument("--no-write", action="store_true")
    parser.add_argument(
        "--kept", type=Path, help="a file with the figures of an earlier run with --only"
    )
    options = parser.parse_args()
    about = f"{options.queues:,} queues, {options.connections:,} connections with a channel each."
    report = Report("page-times", about)
    if options.kept:
        report.go_on(options.kept)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
        broker = Arneb(Path(directory) / "store", listeners=PROTOCOLS)
        broker.start()
        try:
            declare(broker, options.queues)
            publish(broker, options.queues)
            broker.kill()
            broker.start()
            address = urlsplit(f"http://{broker.http_address}").netloc
            with clients(broker.address, options.connections):
                measure(report, Page(address, session(address)), options.only)
        finally:
            broker.kill()
    if options.kept:
        report.leave(options.kept)
    if not options.no_write:
        print(report.write())
    raise SystemExit(not report.is_good)


def measure(report: Report, page: Page, names: Sequence[str]) -> None:
    """Time each view, first cold and then warm."""
    for name in names:
        watched, once = PAGES[name]
        cold_s = page.first_figures_s(watched, once)
        warm_s: list[float] = []
        for _ in range(WARM_LOOKS):
            time.sleep(PAUSE_S)
            warm_s.append(page.first_figures_s(watched, once))
        report.add(name, "cold", cold_s, "s", most=FIRST_FIGURES_S)
        report.add(name, "warm, median", statistics.median(warm_s), "s", most=FIRST_FIGURES_S)


if __name__ == "__main__":
    main()
