"""AMQP clients at a node that does not lead: real sockets, pika, two brokers."""

from collections.abc import Callable, Iterator

import pika
import pytest
from pika.exceptions import (
    ConnectionClosedByBroker,
    ProbableAccessDeniedError,
    ProbableAuthenticationError,
)
from tests.cluster.routing.nodes import SHARD, Nodes, in_thread, two_nodes

from arneb_core.api.nodes.placement import UNHEARD


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    with in_thread(two_nodes(), tmp_path_factory.mktemp("nodes")) as nodes:
        yield nodes


@pytest.fixture
def nodes(both: Nodes) -> Nodes:
    both.lead(both.first)
    return both


@pytest.mark.parametrize("which", ["first", "second"])
def test_clients_publish_and_consume_through_any_node(nodes: Nodes, which: str) -> None:
    node, name = getattr(nodes, which), f"orders-{which}"
    connection = node.connect()
    channel = connection.channel()
    channel.queue_declare(name, durable=True)
    channel.confirm_delivery()
    bodies = [bytes([number % 251]) * (number * 997 % 300_000) for number in range(60)]
    for body in bodies:
        channel.basic_publish("", name, body)
    heard = []
    for method, _, body in channel.consume(name, inactivity_timeout=10):
        heard.append(body)
        channel.basic_ack(method.delivery_tag)
        if len(heard) == len(bodies):
            break
    assert heard == bodies
    assert nodes.first.topology.vhost("/").has_queue(name)
    assert not nodes.second.topology.vhost("/").has_queue(name)
    connection.close()


def test_the_leader_lists_a_relayed_client_as_if_it_had_connected_directly(nodes: Nodes) -> None:
    connection = nodes.second.connect(
        client_properties={"connection_name": "from afar"}, heartbeat=17
    )
    ours = connection._impl._transport._sock.getsockname()
    (shown,) = nodes.do(lambda: list(nodes.first.roster.connections()))
    assert (shown.peer.address, shown.peer.port) == ours
    assert shown.peer.local == ("127.0.0.1", nodes.second.port)
    assert (shown.user, shown.vhost) == ("guest", "/")
    assert shown.terms.heartbeat_s == 17
    assert shown.terms.client_properties["connection_name"].text == "from afar"
    assert not nodes.do(lambda: list(nodes.second.roster.connections()))
    connection.close()


def test_a_change_of_leader_closes_with_320(nodes: Nodes) -> None:
    connection = nodes.second.connect()
    channel = connection.channel()
    nodes.lead(nodes.second)
    with pytest.raises(ConnectionClosedByBroker) as closed:
        channel.queue_declare("q")
    assert closed.value.reply_code == 320
    assert "another node serves it now" in closed.value.reply_text
    again = nodes.second.connect()
    again.channel().queue_declare("made at the second", durable=True)
    assert nodes.second.topology.vhost("/").has_queue("made at the second")
    again.close()


def test_without_a_leader_clients_wait_and_are_then_told_why(nodes: Nodes) -> None:
    nodes.lead(None)
    reason = r"\(320\) \"CONNECTION_FORCED - no node leads virtual host '/' at the moment"
    with pytest.raises(ProbableAccessDeniedError, match=reason):
        nodes.second.connect()


def test_a_leader_that_cannot_be_reached_is_reported_to_new_clients(nodes: Nodes) -> None:
    nodes.lead(None)
    nodes.do(nodes.first.leaders.say, SHARD, UNHEARD)
    reason = r"\(320\) \"CONNECTION_FORCED - the log of virtual host '/' does not answer"
    with pytest.raises(ProbableAccessDeniedError, match=reason):
        nodes.first.connect()


def test_a_leader_that_comes_in_time_serves_waiting_clients(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes.lead(None)
    leaders = nodes.second.leaders
    listen = leaders.listen

    def waits(changed: Callable[[], None]) -> None:
        listen(changed)
        nodes.token.run_sync_soon(nodes.say, nodes.first)

    monkeypatch.setattr(leaders, "listen", waits)
    connection = nodes.second.connect()
    assert connection.is_open
    connection.close()


def test_the_password_is_checked_by_the_node_that_the_client_reaches(nodes: Nodes) -> None:
    before = nodes.first.internal.accepted_total
    with pytest.raises(ProbableAuthenticationError, match="ACCESS_REFUSED"):
        nodes.second.connect(credentials=pika.PlainCredentials("guest", "wrong"))
    assert nodes.first.internal.accepted_total == before


def test_the_leader_refuses_an_unknown_vhost(nodes: Nodes) -> None:
    reason = r"\(530\) .NOT_ALLOWED - vhost nowhere not found"
    with pytest.raises(ProbableAccessDeniedError, match=reason):
        nodes.second.connect(virtual_host="nowhere")


def test_channel_and_connection_errors_are_those_of_the_leader(nodes: Nodes) -> None:
    connection = nodes.second.connect()
    channel = connection.channel()
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="no queue 'none'") as closed:
        channel.queue_declare("none", passive=True)
    assert closed.value.reply_code == 404
    other = connection.channel()
    with pytest.raises(ConnectionClosedByBroker) as ended:
        other.exchange_declare("x", exchange_type="no-such-type")
    assert ended.value.reply_code == 503
