"""The cost of an operator's requests with very many queues: ``python -m bench.management``.

The rule: a page of 50,000 queues, sorted by each field, is timed by the client. Each request uses
another page size, so that a cached order cannot be used again. Then 100,000 queues are imported in
one request. Meanwhile a client publishes messages and waits for each confirm; the longest waits are
reported beside.
"""

import argparse
import json
import statistics
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Final

from bench.operators import Canary, declare, queue_definitions
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
"""Requests per field."""
LOGIN: Final = "Basic Z3Vlc3Q6Z3Vlc3Q="


def pages(report: Report, broker: Arneb, queues: int) -> None:
    """Time one page for each field."""
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
    """Import all queues in one request."""
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
