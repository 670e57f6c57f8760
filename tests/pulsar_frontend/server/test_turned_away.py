"""Connections beyond what the settings allow: they are told why, and nobody else notices."""

import pytest
import trio
import trio.testing
from tests.pulsar_frontend.conftest import OpenBroker
from tests.pulsar_frontend.raw_client import Closed, RawClient, connected

from arneb_pulsar.server.listener import serve_connection
from arneb_pulsar.services.context import BrokerContext
from arneb_pulsar.wire.commands import NO_REQUEST
from arneb_pulsar.wire.proto import pulsar_pb2 as pb

pytestmark = pytest.mark.real_time


async def turned_away(context: BrokerContext, address: str) -> str:
    """Connect from ``address`` and say hello; return why the broker closes the connection."""
    ours, theirs = trio.testing.memory_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve_connection, context, theirs, "pulsar://here:1", address)
        client = RawClient(ours)
        await client.send(pb.CommandConnect(client_version="test", protocol_version=21))
        refused = await client.expect(pb.CommandError)
        assert (refused.request_id, refused.error) == (NO_REQUEST, pb.NotAllowedError)
        await ours.send_eof()
        with pytest.raises(Closed):
            await client.reply()
        await ours.aclose()
    assert isinstance(refused.message, str)
    return refused.message


async def test_no_more_connections_are_served_than_allowed(open_broker: OpenBroker) -> None:
    async with open_broker(connections_max=2) as running:
        async with connected(running.context, 2) as clients:
            reason = await turned_away(running.context, "127.0.0.1:5")
            assert reason == "Reached the maximum number of connections"
            assert len(running.context.connections) == 2
            for client in clients:
                await client.producer(f"t{clients.index(client)}")
        async with connected(running.context, 2) as (client, _):
            await client.producer("again")


async def test_no_more_connections_of_an_address_are_served_than_allowed(
    open_broker: OpenBroker,
) -> None:
    async with open_broker(address_connections_max=1) as running:
        context = running.context

        async def held(address: str, nursery: trio.Nursery) -> RawClient:
            ours, theirs = trio.testing.memory_stream_pair()
            nursery.start_soon(serve_connection, context, theirs, "pulsar://here:1", address)
            return await RawClient(ours).connect("test")

        async with trio.open_nursery() as nursery:
            first = await held("10.0.0.1:5", nursery)
            reason = await turned_away(context, "10.0.0.1:6")
            assert reason == "Reached the maximum number of connections on address/10.0.0.1:6"
            other = await held("[::1]:5", nursery)
            assert "::1" in await turned_away(context, "[::1]:6")
            await first.stream.aclose()
            with trio.fail_after(5):
                while len(context.connections) > 1:
                    await trio.lowlevel.checkpoint()
            await (await held("10.0.0.1:7", nursery)).stream.aclose()
            await other.stream.aclose()


async def test_a_client_that_is_turned_away_and_stays_is_cut_off(open_broker: OpenBroker) -> None:
    async with open_broker(connections_max=1) as running, connected(running.context):
        ours, theirs = trio.testing.memory_stream_pair()
        with trio.fail_after(5):
            await serve_connection(running.context, theirs, "pulsar://here:1", "127.0.0.1:5")
        client = RawClient(ours)
        await client.expect(pb.CommandError)
        with pytest.raises((Closed, trio.BrokenResourceError)):
            await client.reply()
