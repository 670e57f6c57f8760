"""The firehose tracer: enabled over HTTP, observed by a real client, the same on both brokers."""

from typing import Any

import pika
from conformance.management.conftest import Managed

VHOST = "traced"


def test_what_is_seen_of_a_message_is_the_same(pair: tuple[Managed, Managed]) -> None:
    ours, theirs = (seen_at(broker) for broker in pair)
    assert ours == theirs
    assert [key for key, _, _ in ours] == ["publish.amq.direct", "publish.", "deliver.q"]


def seen_at(broker: Managed) -> list[tuple[str, Any, str]]:
    broker.api.call("PUT", f"vhosts/{VHOST}", {})
    parameters = pika.ConnectionParameters(broker.amqp.host, broker.amqp.port, VHOST)
    connection = pika.BlockingConnection(parameters)
    try:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("q")
        channel.queue_declare("traces")
        channel.queue_bind("traces", "amq.rabbitmq.trace", "#")
        assert broker.api.call("GET", f"vhosts/{VHOST}").json["tracing"] is False
        broker.api.call("PUT", f"vhosts/{VHOST}", {"tracing": True})
        assert broker.api.call("GET", f"vhosts/{VHOST}").json["tracing"] is True
        properties = pika.BasicProperties(content_type="a/b", headers={"n": 1}, timestamp=5)
        channel.basic_publish("amq.direct", "nobody", b"lost", properties)
        channel.basic_publish("", "q", b"taken", properties)
        for method, _, _ in channel.consume("q"):
            channel.basic_ack(method.delivery_tag)
            break
        channel.cancel()
        got = []
        for method, found, body in channel.consume("traces", auto_ack=True, inactivity_timeout=5):
            if method is None:
                break
            headers = dict(found.headers)
            for name in ("connection", "node"):
                headers[name] = type(headers[name]).__name__
            got.append((method.routing_key, headers, body.decode()))
        broker.api.call("PUT", f"vhosts/{VHOST}", {"tracing": False})
        channel.basic_publish("", "q", b"unseen")
        channel.cancel()
        return got
    finally:
        connection.close()
        broker.api.call("DELETE", f"vhosts/{VHOST}")
