"""Metrics as Prometheus itself reads them, with the queries of RabbitMQ's dashboard.

Run on both brokers. RabbitMQ's metrics of Erlang and of its own store are left out by Arneb.
"""

import json
import re
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import pika
import pytest
from conformance.brokers.arneb import PROTOCOLS, Arneb
from conformance.brokers.process import Address
from conformance.brokers.rabbitmq import RabbitMQ
from conformance.management.dashboard import PANELS, Panel
from conformance.management.prometheus import JOB, Prometheus

from arneb_core.store.reading.snapshot_environment import open_snapshot_environment

LEFT_OUT: Final = re.compile(
    r"rabbitmq_(?:erlang_(?!uptime)|raft_|io_|schema_db_|msg_store_|queue_index_|\w+_reductions_total"
    r"|queue_disk_reads_total|queue_head_message_timestamp|auth_attempts_detailed"
    r"|global_messages_dead_lettered_)"
)
"""Metrics of Erlang, Raft, Mnesia and RabbitMQ's store."""

Page = Callable[[str], str]

OURS: Final = pytest.mark.parametrize("scraped", ["arneb"], indirect=True, scope="module")
"""For tests of what only Arneb has, or of a comparison with RabbitMQ in one test."""

MONITORING: Final = Path(__file__).resolve().parents[2] / "docs" / "monitoring"

SEEN_WITHIN_S: Final = 75.0
"""How long it may take until a reader of the directory is seen: it must have read for 10 s, and the
broker looks for readers every 30 s."""

NAME: Final = re.compile(r"\b(?:arneb|rabbitmq|process)_\w+|\bup\b")


@pytest.fixture(scope="module", params=["arneb", "rabbitmq"])
def scraped(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Any, Prometheus, Page]]:
    """A broker, a Prometheus that scrapes it, and a function that returns the broker's metrics page
    at a path."""
    if not Prometheus.installed():
        pytest.skip("expected Debian's prometheus")
    directory = tmp_path_factory.mktemp(request.param)
    broker: Any
    if request.param == "arneb":
        settings = '[metrics]\nlisten = "127.0.0.1:0"\n'
        broker = Arneb(directory, listeners=(*PROTOCOLS, "metrics"), settings=settings)
    elif RabbitMQ.installed():
        broker = RabbitMQ(directory, management=True)
    else:
        pytest.skip("expected Debian's rabbitmq-server")
    broker.start()
    try:
        address: Address = broker.metrics_address

        def page(path: str) -> str:
            with urllib.request.urlopen(f"http://{address}{path}", timeout=30) as answer:
                return str(answer.read().decode())

        prometheus = Prometheus(directory / "prometheus", address).start()
        try:
            assert prometheus.wait_for(f'up{{job="{JOB}"}} == 1')
            yield broker, prometheus, page
        finally:
            prometheus.stop()
    finally:
        broker.stop()


def cluster_of(prometheus: Prometheus) -> str:
    [identity] = prometheus.wait_for("rabbitmq_identity_info")
    return str(identity["metric"]["rabbitmq_cluster"])


def asked(prometheus: Prometheus, panel: Panel, cluster: str) -> list[dict[str, Any]]:
    return prometheus.query(panel.query.replace("$cluster", cluster))


def test_every_panel_is_full_before_anything_has_happened(scraped: Any) -> None:
    _, prometheus, _ = scraped
    cluster = cluster_of(prometheus)
    assert prometheus.wait_for("rate(rabbitmq_connections_opened_total[60s])")
    empty = [each.title for each in PANELS if not asked(prometheus, each, cluster)]
    if not isinstance(scraped[0], Arneb):
        # RabbitMQ 3.10 joins the uptime under another condition.
        empty = [title for title in empty if title != "Uptime"]
    assert empty == []
    for panel in PANELS:
        for series in asked(prometheus, panel, cluster):
            assert not panel.by_node or "rabbitmq_node" in series["metric"], panel


def test_the_panels_show_what_happens(scraped: Any) -> None:
    broker, prometheus, _ = scraped
    cluster = cluster_of(prometheus)
    with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("shown", durable=True)
        channel.queue_declare("shown", durable=True)
        channel.queue_declare("gone")
        end = time.monotonic() + 6
        while time.monotonic() < end:
            for _ in range(10):
                channel.basic_publish("", "shown", b"x" * 10)
            channel.basic_publish("", "nowhere", b"x")
            with pytest.raises(pika.exceptions.UnroutableError):
                channel.basic_publish("", "nowhere", b"x", mandatory=True)
            method, _, _ = channel.basic_get("shown")
            channel.basic_nack(method.delivery_tag)
            channel.basic_get("shown", auto_ack=True)
            method, _, _ = channel.basic_get("shown")
            channel.basic_ack(method.delivery_tag)
            channel.basic_get("gone")
            connection.process_data_events(0.2)
        channel.queue_delete("gone")
        consumer = connection.channel()
        consumer.basic_qos(prefetch_count=5)
        consumer.basic_consume("shown", lambda *_: None)
        connection.process_data_events(0.5)
        connection.channel().close()
        values = {
            "Ready messages": 1, "Unacknowledged messages": 1, "Publishers": 1, "Consumers": 1,
            "Connections": 1, "Channels": 2, "Queues": 1, "Nodes": 1,
        }  # fmt: skip
        if not isinstance(broker, Arneb):
            del values["Publishers"]  # RabbitMQ 3.10 counts below 0
        grown = {
            "Incoming messages / s", "Outgoing messages / s", "Messages published / s",
            "Messages confirmed to publishers / s", "Messages routed to queues / s",
            "Unroutable messages dropped / s", "Unroutable messages returned to publishers / s",
            "Messages redelivered / s", "Messages delivered with manual ack / s",
            "Messages acknowledged / s", "Polling operations with auto ack / s",
            "Polling operations with manual ack / s",
            "Polling operations that yield no result / s", "Queues declared / s",
            "Queues created / s", "Queues deleted / s", "Channels opened / s",
            "Channels closed / s", "Connections opened / s", "Messages delivered / s",
        }  # fmt: skip
        end = time.monotonic() + 15
        while True:
            shown = {
                each.title: float(asked(prometheus, each, cluster)[0]["value"][1])
                for each in PANELS
                if each.title in values or each.title in grown
            }
            low = [name for name, least in values.items() if shown[name] < least]
            still = [name for name in grown if not shown[name] > 0]
            if not (low or still) or time.monotonic() > end:
                break
            time.sleep(0.5)
            connection.process_data_events(0)
        assert (low, still) == ([], []), shown


@OURS
def test_prometheus_own_tool_finds_nothing_wrong(scraped: Any) -> None:
    """Only for Arneb: RabbitMQ's page has samples with the same name in two families."""
    _, _, page = scraped
    for path in ("/metrics", "/metrics/per-object", "/metrics/detailed?family=queue_metrics"):
        checked = subprocess.run(
            ["promtool", "check", "metrics"], input=page(path), capture_output=True, text=True,
            timeout=30, check=False,
        )  # fmt: skip
        # It also dislikes some suffixes of names, which are RabbitMQ's and Pulsar's.
        wrong = [line for line in checked.stderr.splitlines() if "error" in line.lower()]
        assert checked.returncode in (0, 3), checked.stderr
        assert wrong == []


@OURS
def test_our_own_dashboard_is_full_and_every_alert_has_something_to_look_at(scraped: Any) -> None:
    """A reader keeps the directory open meanwhile, because only then are there series about
    readers."""
    broker, prometheus, page = scraped
    dashboard = json.loads((MONITORING / "arneb-dashboard.json").read_text())
    queries = {
        f"{panel['title']}: {target['expr']}": target["expr"]
        .replace("$__rate_interval", "10s")
        .replace("$instance", ".*")
        for panel in dashboard["panels"]
        for target in panel.get("targets", [])
    }
    rules = (MONITORING / "arneb-alerts.yml").read_text()
    alerts = re.findall(r"expr: (.+)$", rules, re.MULTILINE)
    named = {each for expr in alerts for each in NAME.findall(expr)}
    of_objects = {each for each in named if each.startswith("arneb_subscription_")}
    queries |= {f"an alert's {each}": each for each in named - of_objects}
    assert len(queries) > 50 and len(of_objects) == 3
    with (
        pika.BlockingConnection(pika.URLParameters(broker.url)) as connection,
        open_snapshot_environment(broker.data) as environment,
        environment.snapshot(),
    ):
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("looked-at", durable=True)
        persistent = pika.BasicProperties(delivery_mode=2)
        channel.basic_publish("", "looked-at", b"x", persistent)
        wait = partial(prometheus.wait_for, within_s=SEEN_WITHIN_S)
        empty = [name for name, query in queries.items() if not wait(query)]
        objects = page("/metrics/per-object")
    assert empty == []
    for each in of_objects:  # the rules state that they need this page
        assert f'{each}{{topic="' in objects
    for each in alerts:
        prometheus.query(each)  # it must not refuse any of them


def names_in(page: str) -> set[str]:
    return {line.split(" ")[2] for line in page.splitlines() if line.startswith("# TYPE rabbitmq")}


@OURS
def test_every_metric_of_rabbitmq_is_there_or_left_out_by_name(
    scraped: Any, tmp_path: Path
) -> None:
    _, _, page = scraped
    theirs = RabbitMQ(tmp_path / "rabbitmq", management=True).start()
    try:
        for path in ("/metrics", "/metrics/per-object"):
            with urllib.request.urlopen(f"http://{theirs.metrics_address}{path}") as answer:
                wanted = names_in(answer.read().decode())
            missing = {each for each in wanted - names_in(page(path)) if not LEFT_OUT.match(each)}
            assert missing == set()
    finally:
        theirs.stop()
