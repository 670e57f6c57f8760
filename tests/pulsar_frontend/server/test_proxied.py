"""Clients behind a proxy: the header says where they come from and what they reached."""

import pytest
import trio
from tests.pulsar_frontend.conftest import OpenBroker
from tests.pulsar_frontend.raw_client import RawClient

from arneb_pulsar.server.listener import PulsarServer
from arneb_pulsar.wire.proto import pulsar_pb2 as pb

pytestmark = pytest.mark.real_time

HEADER = b"PROXY TCP6 2001:db8::9 2001:db8::1 40000 6650\r\n"
MAPPED = b"PROXY TCP6 ::ffff:203.0.113.9 ::ffff:198.51.100.1 40000 6650\r\n"


@pytest.mark.parametrize(
    ("header", "reached"),
    [(HEADER, "pulsar://[2001:db8::1]:6650"), (MAPPED, "pulsar://198.51.100.1:6650")],
)
async def test_lookups_answer_with_what_the_client_reached(
    open_broker: OpenBroker, header: bytes, reached: str
) -> None:
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    address = listeners[0].socket.getsockname()
    async with open_broker(proxy_protocol=True) as running, trio.open_nursery() as nursery:
        await nursery.start(PulsarServer(running.context).serve, listeners)
        stream = await trio.open_tcp_stream(*address)
        await stream.send_all(header)
        client = await RawClient(stream).connect()
        await client.send(pb.CommandLookupTopic(topic="t", request_id=1))
        answer = await client.expect(pb.CommandLookupTopicResponse)
        assert answer.brokerServiceUrl == reached
        await stream.aclose()
        nursery.cancel_scope.cancel()


async def test_without_a_header_nobody_is_served(
    open_broker: OpenBroker, caplog: pytest.LogCaptureFixture
) -> None:
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    address = listeners[0].socket.getsockname()
    async with open_broker(proxy_protocol=True) as running, trio.open_nursery() as nursery:
        await nursery.start(PulsarServer(running.context).serve, listeners)
        stream = await trio.open_tcp_stream(*address)
        await stream.send_all(bytes(12))
        assert await stream.receive_some() == b""
        await stream.aclose()
        nursery.cancel_scope.cancel()
    assert "of the PROXY protocol" in caplog.text
