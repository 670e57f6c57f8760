"""Traces: a message with ``traceparent`` creates spans of its trace, and delays nobody."""

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import Queue
from threading import Thread
from typing import Any, Self

import pika
import pytest
import trio
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from tests.amqp_frontend.server.conftest import Broker, serve_in_thread

from arneb.monitoring.traces import traced
from arneb.settings.process import TracesTable

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"
SAMPLED = f"00-{TRACE}-{PARENT}-01"


class Collector:
    """Receives spans as a collector does."""

    def __init__(self) -> None:
        self.spans: Queue[tuple[str, Any]] = Queue()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                request = ExportTraceServiceRequest.FromString(body)
                for resource in request.resource_spans:
                    [service] = [
                        each.value.string_value
                        for each in resource.resource.attributes
                        if each.key == "service.name"
                    ]
                    for scope in resource.scope_spans:
                        for span in scope.spans:
                            outer.spans.put((service, span))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1/traces"
        self._thread = Thread(target=self._server.serve_forever)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def next(self) -> tuple[str, Any]:
        return self.spans.get(timeout=20)


def tracing(broker: Broker, table: TracesTable) -> Callable[[], None]:
    """Begin; the returned function ends it."""
    ended, done = trio.Event(), trio.Event()

    async def run() -> None:
        async with traced(table) as tracing:
            tracing.see(broker.topology)
            await ended.wait()
        for vhost in broker.topology.vhosts:
            vhost._observer = None
            vhost._look()
        done.set()

    async def begin() -> None:
        trio.lowlevel.spawn_system_task(run)
        while broker.topology.vhost("/").tracing is None:  # type: ignore[union-attr]
            await trio.lowlevel.checkpoint()

    async def end() -> None:
        ended.set()
        await done.wait()

    broker.call(begin)
    return lambda: broker.call(end)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    yield from serve_in_thread(tmp_path_factory.mktemp("traces") / "data")


@pytest.fixture
def channel(broker: Broker) -> Iterator[Any]:
    with broker.connect() as connection:
        yield connection.channel()


def published(channel: Any, exchange: str, key: str, body: bytes, parent: str | None) -> None:
    headers = {"other": 1} | ({} if parent is None else {"traceparent": parent})
    properties = pika.BasicProperties(headers=headers, message_id="m1")
    channel.basic_publish(exchange, key, body, properties)


def attributes(span: Any) -> dict[str, Any]:
    return {each.key: each.value.string_value or each.value.int_value for each in span.attributes}


def test_a_message_is_traced_when_it_arrives_and_when_it_leaves(
    broker: Broker, channel: Any
) -> None:
    with Collector() as collector:
        end = tracing(broker, TracesTable(collector.url, "shop", delay_s=0.01))
        channel.queue_declare("traced")
        published(channel, "", "traced", b"no trace", None)
        published(channel, "", "traced", b"traceparent", f"00-{TRACE}-{PARENT}-00")
        published(channel, "", "traced", b"body", SAMPLED)
        for expected in (b"no trace", b"traceparent", b"body"):
            assert channel.basic_get("traced", auto_ack=True)[2] == expected
        (service, came), (_, went) = collector.next(), collector.next()
        end()
        assert collector.spans.empty()
    assert service == "shop"
    for span in (came, went):
        assert (span.trace_id.hex(), span.parent_span_id.hex()) == (TRACE, PARENT)
    assert (came.name, went.name) == ("publish amq.default", "deliver traced")
    assert came.start_time_unix_nano == came.end_time_unix_nano
    # It was in the queue from its arrival until its delivery.
    assert abs(went.start_time_unix_nano - came.start_time_unix_nano) < 10**9
    assert went.end_time_unix_nano >= came.end_time_unix_nano
    shown = attributes(came)
    assert shown["messaging.destination.name"] == "amq.default"
    assert shown["messaging.rabbitmq.destination.routing_key"] == "traced"
    assert (shown["messaging.message.id"], shown["messaging.message.body.size"]) == ("m1", 4)
    assert (shown["arneb.vhost"], shown["arneb.user"]) == ("/", "guest")
    assert attributes(went)["messaging.destination.name"] == "traced"


def test_a_consumers_deliveries_and_lost_messages_are_traced(broker: Broker, channel: Any) -> None:
    with Collector() as collector:
        end = tracing(broker, TracesTable(collector.url, delay_s=0.01))
        channel.queue_declare("consumed")
        published(channel, "amq.direct", "nobody", b"lost", SAMPLED)
        published(channel, "", "consumed", b"a", SAMPLED)
        for method, _, _ in channel.consume("consumed"):
            channel.basic_ack(method.delivery_tag)
            break
        channel.cancel()
        names = [collector.next()[1].name for _ in range(3)]
        end()
    assert names == ["publish amq.direct", "publish amq.default", "deliver consumed"]


def test_an_unreachable_collector_delays_nobody(
    broker: Broker, channel: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    end = tracing(broker, TracesTable("http://127.0.0.1:9/v1/traces", queued_max=10, delay_s=0.01))
    channel.confirm_delivery()
    channel.queue_declare("away")
    for _ in range(200):
        published(channel, "", "away", b"x", SAMPLED)
    assert channel.queue_purge("away").method.message_count == 200
    end()
    # The library's threads keep trying, with the random numbers of whichever test comes next.
    for thread in threading.enumerate():
        if thread.name.startswith("Otel"):
            thread.join(10)
            assert not thread.is_alive(), thread


def test_other_observers_continue(broker: Broker, channel: Any) -> None:
    async def switch(node: str | None) -> None:
        broker.topology.vhost("/").trace(node)  # type: ignore[union-attr]

    with Collector() as collector:
        end = tracing(broker, TracesTable(collector.url, delay_s=0.01))
        queue = channel.queue_declare("", exclusive=True).method.queue
        channel.queue_bind(queue, "amq.rabbitmq.trace", "publish.#")
        broker.call(switch, "here")
        published(channel, "amq.direct", "nobody", b"both", SAMPLED)
        assert collector.next()[1].name == "publish amq.direct"
        broker.call(switch, None)
        published(channel, "amq.direct", "nobody", b"one", SAMPLED)
        assert collector.next()[1].name == "publish amq.direct"
        end()
    assert channel.basic_get(queue, auto_ack=True)[2] == b"both"
    assert channel.basic_get(queue, auto_ack=True)[0] is None


def test_the_library_is_not_imported_while_it_is_off() -> None:
    loaded = "{name.partition('.')[0] for name in sys.modules}"
    code = f"import sys, arneb.servers.run, arneb_amqp.server; print('opentelemetry' in {loaded})"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


@pytest.mark.parametrize(
    "settings",
    [{"endpoint": "localhost:4318"}, {"queued_max": 0}, {"delay_s": 0.0}, {"delay_s": 61.0}],
)
def test_impossible_settings_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="expected"):
        TracesTable(**settings)
