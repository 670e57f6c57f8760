"""AMQP over TLS, on the broker whose Pulsar port requires authentication; the certificates are the
same."""

import ssl
from pathlib import Path

import pika
import pytest
from conformance.brokers.arneb import Arneb
from conformance.brokers.certificates import make_certificate


@pytest.mark.parametrize("listeners", [["amqp", "amqp-tls"], ["amqp-tls"]])
def test_messages_go_through_tls(tmp_path: Path, listeners: list[str]) -> None:
    root = make_certificate(tmp_path, "root")
    make_certificate(tmp_path, "server", root)
    settings = f"""
[amqp.tls]
listen = "127.0.0.1:0"
certificate = "{tmp_path}/server.crt"
key = "{tmp_path}/server.key"
"""
    broker = Arneb(tmp_path / "broker", listeners=listeners, settings=settings)
    broker.start()
    try:
        context = ssl.create_default_context(cafile=str(tmp_path / "root.crt"))
        context.check_hostname = False
        address = broker.amqps_address
        parameters = pika.ConnectionParameters(
            address.host, address.port, ssl_options=pika.SSLOptions(context)
        )
        with pika.BlockingConnection(parameters) as connection:
            channel = connection.channel()
            channel.queue_declare("q", durable=True)
            channel.confirm_delivery()
            body = bytes(range(256)) * 1000
            for _ in range(50):
                channel.basic_publish("", "q", body)
            found = [channel.basic_get("q", auto_ack=True)[2] for _ in range(50)]
            assert found == [body] * 50
        with pytest.raises(pika.exceptions.AMQPError):
            pika.BlockingConnection(pika.ConnectionParameters(address.host, address.port))
    finally:
        broker.stop()
