"""Listeners: either all of them are bound, or none is."""

import errno
import socket
from typing import Any

import pytest
import trio

from arneb.listening import listeners as binding
from arneb.listening.listeners import BindFailed, Listeners
from arneb.settings.config import Address, parse_listen

ANY = Address("127.0.0.1", 0)


@pytest.mark.real_time
async def test_port_0_becomes_a_real_one() -> None:
    listeners = await Listeners.bind({"amqp": ANY, "pulsar": None})
    [address] = listeners.addresses("amqp")
    assert address.host == "127.0.0.1"
    assert address.port > 0
    assert "pulsar" not in listeners.by_name
    await listeners.close()


@pytest.mark.real_time
async def test_if_a_port_is_in_use_the_others_are_released() -> None:
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


def has_ipv6() -> bool:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


needs_ipv6 = pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6")
BOTH = ("127.0.0.1", "::1")


async def reached(host: str) -> dict[str, bool]:
    """Which loopback addresses lead to a listener for ``host``, all at one port."""
    wanted = parse_listen(f"{host}:0")
    assert wanted is not None
    bound = await Listeners.bind({"amqp": wanted})
    [port] = {address.port for address in bound.addresses("amqp")}
    found = {}
    for address in BOTH:
        try:
            stream = await trio.open_tcp_stream(address, port)
            await stream.aclose()
            found[address] = True
        except OSError:
            found[address] = False
    await bound.close()
    return found


@needs_ipv6
@pytest.mark.real_time
@pytest.mark.parametrize("host", ["localhost", "*", "[::]"])
async def test_a_name_is_listened_for_at_all_its_addresses(host: str) -> None:
    assert await reached(host) == dict.fromkeys(BOTH, True)


@needs_ipv6
@pytest.mark.real_time
async def test_an_address_is_listened_for_at_that_address_only() -> None:
    assert await reached("127.0.0.1") == {"127.0.0.1": True, "::1": False}
    assert await reached("0.0.0.0") == {"127.0.0.1": True, "::1": False}
    assert await reached("[::1]") == {"127.0.0.1": False, "::1": True}


@pytest.mark.real_time
@pytest.mark.parametrize("refusal", [errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL])
@pytest.mark.parametrize("host", ["localhost", "*", "[::]"])
async def test_a_machine_without_ipv6_listens_on_ipv4(
    host: str, refusal: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_one = binding._socket

    def without_ipv6(family: int, *place: Any) -> socket.socket:
        if family == socket.AF_INET6:
            raise OSError(refusal, "no IPv6 here")
        return open_one(family, *place)

    monkeypatch.setattr(binding, "_socket", without_ipv6)
    assert await reached(host) == {"127.0.0.1": True, "::1": False}
    with pytest.raises(BindFailed, match=r"on \[::1\]:0: "):
        await reached("[::1]")


@needs_ipv6
@pytest.mark.real_time
async def test_a_port_in_use_at_one_of_the_addresses_is_refused() -> None:
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as taken:
        wanted = Address("localhost", taken.getsockname()[1])
        with pytest.raises(BindFailed, match="Address already in use"):
            await Listeners.bind({"amqp": wanted})
        with socket.create_server(("127.0.0.1", wanted.port)):
            """No listener is left."""
