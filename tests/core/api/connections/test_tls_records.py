"""TLS records: bytes come out as they went in, however they are cut; an end is an end."""

import ssl
from pathlib import Path

import pytest
from conformance.brokers.certificates import make_certificate
from hypothesis import given
from hypothesis import strategies as st

from arneb_core.api.connections.tls_records import TlsRecords


@pytest.fixture(scope="module")
def contexts(tmp_path_factory: pytest.TempPathFactory) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Of a server and of its clients."""
    directory: Path = tmp_path_factory.mktemp("tls")
    make_certificate(directory, "server", make_certificate(directory, "root"))
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.load_cert_chain(directory / "server.crt", directory / "server.key")
    client = ssl.create_default_context(cafile=directory / "root.crt")
    client.check_hostname = False
    return server, client


class Pair:
    """A server's records, and a client in memory."""

    def __init__(self, contexts: tuple[ssl.SSLContext, ssl.SSLContext]) -> None:
        ends: list[tuple[ssl.SSLObject, ssl.MemoryBIO, ssl.MemoryBIO]] = []
        for context, is_server in zip(contexts, (True, False), strict=True):
            incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
            ends.append((context.wrap_bio(incoming, outgoing, is_server), incoming, outgoing))
        (server, to_server, from_server), (self.tls, self.incoming, self.outgoing) = ends
        done = 0
        while done < 2:
            done = 0
            for tls in (self.tls, server):
                try:
                    tls.do_handshake()
                    done += 1
                except ssl.SSLWantReadError:
                    pass
                to_server.write(self.outgoing.read())
                self.incoming.write(from_server.read())
        self.records = TlsRecords(server, to_server, from_server)

    def says(self, message: bytes) -> bytes:
        """A record of the client's."""
        self.tls.write(message)
        return self.outgoing.read()

    def hears(self, wire: bytes) -> bytes:
        """What the client reads of it."""
        self.incoming.write(wire)
        heard = b""
        while True:
            try:
                piece = self.tls.read(1 << 20)
            except (ssl.SSLWantReadError, ssl.SSLZeroReturnError):
                return heard
            if not piece:
                return heard
            heard += piece


MESSAGES = st.lists(st.binary(min_size=1, max_size=40_000), max_size=6)


@given(messages=MESSAGES, cuts=st.lists(st.integers(1, 5_000), min_size=1, max_size=8))
def test_what_is_said_is_opened_as_it_was_said_however_it_is_cut(
    contexts: tuple[ssl.SSLContext, ssl.SSLContext], messages: list[bytes], cuts: list[int]
) -> None:
    pair = Pair(contexts)
    wire = b"".join(map(pair.says, messages))
    opened, at, turn = b"", 0, 0
    while at < len(wire):
        size = cuts[turn % len(cuts)]
        opened += pair.records.opened(wire[at : at + size])
        at, turn = at + size, turn + 1
    assert opened == b"".join(messages)
    assert not pair.records.ended


@given(messages=MESSAGES)
def test_all_that_has_come_is_opened_at_once_and_all_that_is_said_is_sealed(
    contexts: tuple[ssl.SSLContext, ssl.SSLContext], messages: list[bytes]
) -> None:
    pair = Pair(contexts)
    plain = b"".join(messages)
    assert pair.records.opened(b"".join(map(pair.says, messages))) == plain
    assert pair.hears(pair.records.sealed(plain)) == plain


@pytest.mark.parametrize("rest", [b"", b"no record at all, but long enough to be looked at"])
def test_what_was_said_before_the_end_counts(
    contexts: tuple[ssl.SSLContext, ssl.SSLContext], rest: bytes
) -> None:
    """The client says goodbye, or goes on in something else than TLS."""
    pair = Pair(contexts)
    wire = pair.says(b"one") + pair.says(b"two")
    if not rest:
        with pytest.raises(ssl.SSLWantReadError):
            pair.tls.unwrap()
        rest = pair.outgoing.read()
    assert pair.records.opened(wire + rest) == b"onetwo"
    assert pair.records.ended
    assert "ended" in repr(pair.records)


def test_an_end_is_reported(contexts: tuple[ssl.SSLContext, ssl.SSLContext]) -> None:
    pair = Pair(contexts)
    assert pair.hears(pair.records.sealed(b"last") + pair.records.farewell()) == b"last"
    with pytest.raises(ssl.SSLError):
        pair.records.sealed(b"one more")
    assert pair.records.cipher[1].startswith("TLS")
    assert pair.records.certificate is None
