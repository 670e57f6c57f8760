"""What an operator's questions cost with very many queues: ``python -m bench.management``.

The rule: a page of 50,000 queues, sorted by each field, is timed by whoever asks for it, each time
another page size, so that no order which was found out before is used again; and 100,000 queues are
imported in one request. Somebody publishes all the while and waits for each confirm: the longest
that took stands beside.
"""

import argparse
import json
import statistics
import tempfile
import threading
import time
import urllib.request
from pathlib import Path
from typing import Final, Self

import pika
from bench.polling import declare, queue_definitions
from bench.spark_session import Report
from conformance.brokers.arneb import Arneb
from conformance.management.client import Client

FIELDS: Final = (
    "name", "vhost", "type", "durable", "auto_delete", "exclusive", "node", "state", "policy",
    "messages", "messages_ready", "messages_unacknowledged", "messages_persistent", "consumers",
    "consumer_capacity", "message_bytes", "message_bytes_ready", "memory", "arguments",
    "idle_since", "messages_details.rate", "message_stats.publish",
    "message_stats.publish_details.rate", "message_stats.deliver_get_details.rate",
    "backing_queue_status.len", "effective_policy_definition",
)  # fmt: skip
PAGE_MS_MAX: Final = 200.0
IMPORT_S_MAX: Final = 60.0
ASKED: Final = 5
"""Times for each field."""
PAUSE_S: Final = 0.002
LOGIN: Final = "Basic Z3Vlc3Q6Z3Vlc3Q="


class Canary:
    """Publishes a durable message after the other, and waits for each."""

    def __init__(self, broker: Arneb) -> None:
        self._broker = broker
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.took_ms: list[float] = []

    def __repr__(self) -> str:
        return f"<Canary, {len(self.took_ms)} messages>"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        connection = pika.BlockingConnection(pika.URLParameters(self._broker.url))
        channel = connection.channel()
        channel.queue_declare("canary", durable=True)
        channel.confirm_delivery()
        while not self._over.is_set():
            began = time.perf_counter()
            channel.basic_publish("", "canary", b"x", pika.BasicProperties(delivery_mode=2))
            self.took_ms.append((time.perf_counter() - began) * 1000)
            time.sleep(PAUSE_S)
        connection.close()

    def share_ms(self, share: float) -> float:
        """So many of all messages took no longer."""
        return sorted(self.took_ms)[min(int(share * len(self.took_ms)), len(self.took_ms) - 1)]


def pages(report: Report, broker: Arneb, queues: int) -> None:
    """One page by each field."""
    client = Client(broker.http_address)
    part = f"a page of {queues:,} queues"
    slowest = 0.0
    with Canary(broker) as canary:
        for field in FIELDS:
            took = []
            for number in range(ASKED):
                size = 100 + number
                path = f"queues?page=1&page_size={size}&sort={field}&sort_reverse=true"
                began = time.perf_counter()
                answer = client.call("GET", f"{path}&columns=name,messages")
                took.append((time.perf_counter() - began) * 1000)
                assert len(answer.json["items"]) == size, answer
            slowest = max(slowest, statistics.median(took))
            report.add(part, f"by {field}, median", statistics.median(took), "ms")
    report.add(part, "by the slowest field, median", slowest, "ms", most=PAGE_MS_MAX)
    report.add(part, "a message meanwhile, 99 of 100", canary.share_ms(0.99), "ms")
    report.add(part, "a message meanwhile, the slowest", canary.share_ms(1), "ms")


def importing(report: Report, broker: Arneb, queues: int) -> None:
    """So many in one request."""
    body = json.dumps(queue_definitions(range(queues))).encode()
    part = f"{queues:,} queues imported"
    before, cpu_s = broker.memory().anonymous, broker.cpu_s()
    headers = {"content-type": "application/json", "authorization": LOGIN}
    request = urllib.request.Request(
        f"http://{broker.http_address}/api/definitions", body, headers, method="POST"
    )
    with Canary(broker) as canary:
        time.sleep(0.5)
        began = time.perf_counter()
        with urllib.request.urlopen(request, timeout=600) as answer:
            assert answer.status == 204, answer
        report.add(part, "in", time.perf_counter() - began, "s", most=IMPORT_S_MAX)
    report.add(part, "CPU", broker.cpu_s() - cpu_s, "s")
    for share, words in ((0.5, "median"), (0.99, "99 of 100"), (1, "the slowest")):
        report.add(part, f"a message meanwhile, {words}", canary.share_ms(share), "ms")
    kib = (broker.memory().anonymous - before) / queues / 1024
    report.add(part, "memory of each afterwards", kib, "KiB")


def main() -> None:
    """Print and keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queues", type=int, default=50_000)
    parser.add_argument("--imported", type=int, default=100_000)
    parser.add_argument("--no-write", action="store_true")
    options = parser.parse_args()
    report = Report("management", "Walls of one machine; a message is published and confirmed.")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
        for name in ("pages", "importing"):
            broker = Arneb(Path(directory) / name).start()
            try:
                if name == "pages":
                    declare(broker, options.queues)
                    pages(report, broker, options.queues)
                else:
                    importing(report, broker, options.imported)
            finally:
                broker.kill()
    if not options.no_write:
        print(report.write())
    raise SystemExit(not report.is_good)


if __name__ == "__main__":
    main()
