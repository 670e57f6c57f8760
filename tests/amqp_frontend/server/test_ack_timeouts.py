"""Acknowledgement timeouts, over a real connection without heartbeats."""

from pamqp.commands import Basic, Channel, Queue
from tests.amqp_frontend.server.conftest import Broker
from tests.amqp_frontend.server.raw import RawClient
from tests.amqp_frontend.session.playbook import publishes

from arneb_amqp.wire.tables import signedint


def test_a_queue_sets_how_long_its_deliveries_may_stay_unacknowledged(broker: Broker) -> None:
    with RawClient(broker.port) as client:
        client.open(heartbeat=0)
        arguments = {"x-consumer-timeout": signedint(200)}
        client.send(Queue.Declare, 1, queue="impatient", exclusive=True, arguments=arguments)
        client.expect(Queue.DeclareOk)
        client.socket.sendall(publishes(b"x", key="impatient").data)
        client.send(Basic.Consume, 1, queue="impatient", consumer_tag="idle", no_ack=False)
        client.expect(Basic.ConsumeOk)
        client.socket.settimeout(5)
        client.skip_delivery()
        closed = client.expect(Channel.Close)
        assert closed.reply_text.endswith("consumers doc guide to learn more")
        assert "timed out. Timeout value used: 200 ms." in closed.reply_text
