"""The splitter that stands before a cluster: bytes as they are, ends as ends, breaks as breaks."""

import socket
from collections.abc import Iterator
from contextlib import suppress
from threading import Thread

import pytest
from conformance.brokers.process import Address, free_port
from conformance.brokers.splitter import Splitter

WITHIN_S = 10.0


class Echo:
    """A server that says its name and then what it hears, until that ends."""

    def __init__(self, name: bytes) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = Address(*self._listener.getsockname())
        self._name = name
        Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)  # or the thread goes on accepting
        self._listener.close()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                accepted, _ = self._listener.accept()
                Thread(target=self._echo, args=(accepted,), daemon=True).start()

    def _echo(self, accepted: socket.socket) -> None:
        with accepted, suppress(OSError):
            accepted.sendall(self._name)
            while data := accepted.recv(1 << 16):
                accepted.sendall(data)


@pytest.fixture
def servers() -> Iterator[list[Echo]]:
    made = [Echo(b"1"), Echo(b"2")]
    yield made
    for each in made:
        with suppress(OSError):
            each.close()


@pytest.fixture
def splitter(servers: list[Echo]) -> Iterator[Splitter]:
    made = Splitter(lambda: [each.address for each in servers], owner=lambda _: "mine").start()
    yield made
    made.close()


def opened(splitter: Splitter) -> socket.socket:
    at = splitter.address
    return socket.create_connection((at.host, at.port), timeout=WITHIN_S)


def read_all(client: socket.socket) -> bytes:
    data = b""
    while piece := client.recv(1 << 16):
        data += piece
    return data


def test_each_connection_goes_to_the_next_and_ends_are_passed_on(splitter: Splitter) -> None:
    sent = bytes(range(256)) * 2_000
    names = []
    for _ in range(4):
        with opened(splitter) as client:
            writing = Thread(target=client.sendall, args=(sent,))
            writing.start()
            names.append(client.recv(1))
            data = b""
            while len(data) < len(sent):
                data += client.recv(1 << 16)
            writing.join(WITHIN_S)
            client.shutdown(socket.SHUT_WR)
            assert (data, read_all(client)) == (sent, b"")
    assert sorted(names) == [b"1", b"1", b"2", b"2"]


def test_a_server_that_accepts_no_connection_is_skipped(
    splitter: Splitter, servers: list[Echo]
) -> None:
    servers.insert(0, Echo(b"3"))
    gone = servers[0].address
    servers[0].close()
    names = set()
    for _ in range(3):
        with opened(splitter) as client:
            names.add(client.recv(1))
    assert names <= {b"1", b"2"}, gone


def test_a_cut_is_a_break(splitter: Splitter) -> None:
    with opened(splitter) as client:
        client.recv(1)
        splitter.cut("mine")
        with pytest.raises(ConnectionResetError):
            client.recv(1)


def test_a_refused_client_gets_nothing_until_all_is_well(splitter: Splitter) -> None:
    splitter.refuse("mine")
    with opened(splitter) as client, suppress(ConnectionResetError):
        assert client.recv(1) == b""
    splitter.heal("mine")
    with opened(splitter) as client:
        assert client.recv(1) in (b"1", b"2")


def test_existing_clients_continue_while_more_are_refused(splitter: Splitter) -> None:
    with opened(splitter) as client:
        client.recv(1)
        splitter.refuse_more("mine")
        client.sendall(b"on")
        assert client.recv(2) == b"on"
        with opened(splitter) as other, suppress(ConnectionResetError):
            assert other.recv(1) == b""


def test_what_stands_still_goes_on_where_it_was(splitter: Splitter) -> None:
    with opened(splitter) as client:
        client.recv(1)
        splitter.still("mine")
        client.sendall(b"late")
        client.settimeout(0.2)
        with pytest.raises(TimeoutError):
            client.recv(4)
        client.settimeout(WITHIN_S)
        splitter.heal("mine")
        assert client.recv(4) == b"late"


def test_no_connection_is_accepted_once_it_is_closed() -> None:
    made = Splitter(list, at=Address("127.0.0.1", free_port())).start()
    made.close()
    with pytest.raises(ConnectionRefusedError):
        opened(made)
