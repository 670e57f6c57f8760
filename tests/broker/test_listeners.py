"""Listeners: all doors are bound, or none is."""

import socket

import pytest

from arneb.config import Address
from arneb.listeners import BindFailed, Listeners

ANY = Address("127.0.0.1", 0)


@pytest.mark.real_time
async def test_port_0_becomes_a_real_one() -> None:
    listeners = await Listeners.bind({"amqp": ANY, "pulsar": None})
    [address] = listeners.addresses("amqp")
    assert address.host == "127.0.0.1"
    assert address.port > 0
    assert "pulsar" not in listeners.by_door
    await listeners.close()


@pytest.mark.real_time
async def test_a_port_in_use_is_refused_and_the_others_are_let_go() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        first = Address("127.0.0.1", free.getsockname()[1])
        free.close()
        second = Address("127.0.0.1", taken.getsockname()[1])
        with pytest.raises(BindFailed) as caught:
            await Listeners.bind({"amqp": first, "http": second})
        assert str(caught.value) == f"cannot listen for http on {second}: Address already in use"
        again = await Listeners.bind({"amqp": first})
        await again.close()


@pytest.mark.real_time
async def test_a_host_that_is_not_ours_is_refused() -> None:
    with pytest.raises(BindFailed, match=r"cannot listen for amqp on 192\.0\.2\.1:0: "):
        await Listeners.bind({"amqp": Address("192.0.2.1", 0)})
    with pytest.raises(BindFailed, match=r"cannot listen for amqp on no\.such\.host\.invalid:0: "):
        await Listeners.bind({"amqp": Address("no.such.host.invalid", 0)})
