"""Endpoints: one client has one address, however its socket writes it."""

import socket
from ipaddress import IPv4Address, IPv6Address

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from arneb_core.api.connections.endpoints import Endpoint, Endpoints, address_of, endpoints_of


@given(st.ip_addresses(v=4))
def test_ipv4_is_the_same_inside_ipv6(address: IPv4Address) -> None:
    assert address_of(str(address)) == address_of(f"::ffff:{address}") == address


@given(st.ip_addresses(v=6), st.sampled_from(["", "%eth0", "%2"]))
def test_ipv6_has_no_zone(address: IPv6Address, zone: str) -> None:
    assert address_of(f"{address}{zone}") == (address.ipv4_mapped or address)


@pytest.mark.parametrize("text", ["", "localhost", "1.2.3", "uid 0"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="does not appear to be"):
        address_of(text)


def test_an_ipv4_client_of_a_dual_stack_port_is_known_by_its_ipv4_address() -> None:
    with socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True) as listener:
        port = listener.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as client:
            accepted, raw = listener.accept()
            assert raw[0] == "::ffff:127.0.0.1"
            with accepted:
                ends = endpoints_of(trio.socket.from_stdlib_socket(accepted))
            own = client.getsockname()[1]
    here = IPv4Address("127.0.0.1")
    assert ends == Endpoints(Endpoint(here, own), Endpoint(here, port))
    assert (str(ends.source), str(Endpoint(IPv6Address("::1"), 5))) == (
        f"127.0.0.1:{own}",
        "[::1]:5",
    )
