"""Moves inside the broker: a batch that fails leaves nothing behind."""

import pytest
from tests.amqp_frontend.topology.conftest import Opener, broker

from arneb_amqp.client.events import RemoteClosed
from arneb_amqp.shovels.ends import Moved
from arneb_amqp.shovels.local import LocalDestination
from arneb_amqp.wire.constants import ChannelId
from arneb_amqp.wire.content import compose
from arneb_amqp.wire.tables import long, longstr

__all__ = ["broker"]

REFUSES = {"x-max-length": long(1), "x-overflow": longstr("reject-publish")}


def moved(exchange: str, key: str) -> Moved:
    return Moved(exchange, key, compose(ChannelId(1), b"\0\0", b"x"), 1)


@pytest.mark.real_time
async def test_a_batch_that_fails_takes_up_no_room_in_queues_that_refuse(broker: Opener) -> None:
    async with broker() as place:
        await place.declare("q", arguments=REFUSES)
        destination = LocalDestination(place.engine, place.vhost)
        with pytest.raises(RemoteClosed, match="no exchange 'nowhere'"):
            await destination.put([moved("", "q"), moved("nowhere", "")], confirmed=True)
        assert not place.vhost.queues.refusing["q"].incoming
        assert await destination.put([moved("", "q"), moved("", "q")], confirmed=True) == {1}
