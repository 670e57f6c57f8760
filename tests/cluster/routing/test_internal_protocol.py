"""The internal protocol: two sides that know the secret understand each other however the bytes are
split, and nobody else gets anywhere."""

from contextlib import suppress

import hypothesis.strategies as st
import pytest
from hypothesis import given
from tests.cluster.routing.nodes import SECRET
from tests.cluster.routing.test_frame_heads import cut

from arneb_cluster.routing.internal_protocol import (
    NONCE_BYTES,
    RECORD,
    REQUEST_BYTES_MAX,
    Answering,
    Asking,
    CallRefused,
    Kind,
    ProtocolBroken,
    Request,
    Secret,
    pack,
    record,
    refusal,
    unpack,
)

ONE, TWO, THREE = (bytes([number]) * NONCE_BYTES for number in (1, 2, 3))
OTHER = Secret(b"another secret, which is just as long")
REQUEST = Request("amqp", "public/default", b"what is known of the client")

names = st.text(max_size=60).filter(lambda text: text.isprintable())
requests = st.builds(Request, names, names, st.binary(max_size=3000))
cuts = st.lists(st.integers(0, 5000), max_size=10)


def sides(
    request: Request = REQUEST, mine: Secret = SECRET, theirs: Secret = SECRET
) -> tuple[Asking, Answering]:
    """Both sides of a connection."""
    return Asking(mine, "asker", ONE, request), Answering(theirs, "leader", TWO)


@given(requests, cuts, cuts, cuts, st.binary(max_size=50))
def test_both_sides_understand_each_other(
    request: Request, at: list[int], there: list[int], back: list[int], early: bytes
) -> None:
    asking, answering = sides(request)
    proof = b"".join(answering.receive(each) for each in cut(asking.hello(), at))
    asked = b"".join(asking.receive(each) for each in cut(proof, back))
    assert asking.leader == "leader"
    assert b"".join(answering.receive(each) for each in cut(asked, there)) == b""
    assert answering.request == request
    assert answering.node == "asker"
    assert asking.accepted() is None
    for each in cut(answering.accept() + early, back):
        assert asking.receive(each) == b""
    assert asking.accepted() == early


@given(st.binary(min_size=1, max_size=60))
def test_data_after_a_request_is_kept(unread: bytes) -> None:
    asking, answering = sides()
    asked = asking.receive(answering.receive(asking.hello()))
    answering.receive(asked + unread)
    assert answering.rest == unread


def test_a_side_that_does_not_know_the_secret_learns_nothing_of_the_client() -> None:
    asking, answering = sides(theirs=OTHER)
    proof = answering.receive(asking.hello())
    with pytest.raises(ProtocolBroken, match="expected a proof"):
        asking.receive(proof)


def test_a_side_that_does_not_know_the_secret_is_not_believed() -> None:
    asking, answering = sides()
    asking.receive(answering.receive(asking.hello()))
    stranger, _ = sides(mine=OTHER)
    asked = stranger.receive(Answering(OTHER, "leader", TWO).receive(stranger.hello()))
    with pytest.raises(ProtocolBroken, match="expected a proof"):
        answering.receive(asked)
    assert answering.request is None
    assert answering.node == ""


def test_recorded_messages_cannot_be_used_again() -> None:
    asking, answering = sides()
    hello = asking.hello()
    asked = asking.receive(answering.receive(hello))
    again = Answering(SECRET, "leader", THREE)
    again.receive(hello)
    with pytest.raises(ProtocolBroken, match="expected a proof"):
        again.receive(asked)


def test_a_proof_cannot_be_used_as_an_answer() -> None:
    """An attacker who knows nothing reflects what it received, to a node that both asks and is
    asked."""
    asking, answering = sides()
    proof = answering.receive(asking.hello())
    nonce, name, mine = unpack(proof[RECORD.size :], ["number", "name", "proof"])
    mirror = Answering(SECRET, "leader", TWO)
    mirror.receive(record(Kind.HELLO, b"ARNEB/1", nonce, name))
    with pytest.raises(ProtocolBroken, match="expected a proof"):
        mirror.receive(record(Kind.REQUEST, mine, b"amqp", b"public/default", b""))


@given(st.integers(0, 200), st.integers(1, 255))
def test_a_request_that_was_changed_in_transit_is_not_believed(place: int, other: int) -> None:
    asking, answering = sides()
    asked = bytearray(asking.receive(answering.receive(asking.hello())))
    asked[place % len(asked)] ^= other
    with suppress(ProtocolBroken):
        answering.receive(bytes(asked))
    assert answering.request is None


@given(st.binary(max_size=400), cuts)
def test_garbage_breaks_the_protocol_or_is_incomplete(data: bytes, at: list[int]) -> None:
    _, answering = sides()
    with suppress(ProtocolBroken):
        for each in cut(data, at):
            assert answering.receive(each) == b""
    assert answering.request is None


@given(st.data())
def test_a_hello_with_one_changed_byte_gets_the_same_result_however_it_is_split(
    data: st.DataObject,
) -> None:
    hello = bytearray(sides()[0].hello())
    hello[data.draw(st.integers(0, len(hello) - 1))] ^= data.draw(st.integers(1, 255))

    def outcome(pieces: list[bytes]) -> object:
        _, answering = sides()
        try:
            return b"".join(answering.receive(each) for each in pieces)
        except ProtocolBroken:
            return "broken"

    whole = outcome([bytes(hello)])
    assert outcome([bytes([each]) for each in hello]) == whole


@pytest.mark.parametrize(
    ("kind", "size"), [(Kind.HELLO, 1025), (Kind.REQUEST, 10), (Kind.ACCEPTED, 4), (77, 4)]
)
def test_an_impossible_header_is_refused_before_what_follows(kind: int, size: int) -> None:
    _, answering = sides()
    with pytest.raises(ProtocolBroken, match="expected HELLO"):
        answering.receive(RECORD.pack(size, kind))


def test_a_request_that_is_too_large_is_refused_by_its_header() -> None:
    asking, answering = sides()
    answering.receive(asking.hello())
    with pytest.raises(ProtocolBroken, match=f"at most {REQUEST_BYTES_MAX}"):
        answering.receive(RECORD.pack(REQUEST_BYTES_MAX + 1, Kind.REQUEST))


@given(st.text(max_size=2000))
def test_a_refusal_is_noticed_whenever_it_comes(text: str) -> None:
    asking, _ = sides()
    with pytest.raises(CallRefused):
        asking.receive(refusal(text))
    later, answering = sides()
    later.receive(answering.receive(later.hello()))
    later.receive(refusal("not the leader"))
    with pytest.raises(CallRefused, match="not the leader"):
        later.accepted()


def test_versions_and_numbers_must_be_ours() -> None:
    for hello in (
        record(Kind.HELLO, b"ARNEB/2", ONE, b"name"),
        record(Kind.HELLO, b"ARNEB/1", ONE[1:], b"name"),
        record(Kind.HELLO, b"ARNEB/1", ONE, b"n" * 256),
        record(Kind.HELLO, b"ARNEB/1", ONE, b"\xff"),
        record(Kind.HELLO, b"ARNEB/1", ONE, b"name", b"more"),
    ):
        with pytest.raises(ProtocolBroken):
            Answering(SECRET, "leader", TWO).receive(hello)


def test_a_short_secret_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 32 bytes, got 31"):
        Secret(b"x" * 31)
    assert "x" not in repr(Secret(b"x" * 40))


@given(st.lists(st.binary(max_size=30), min_size=1, max_size=6))
def test_fields_are_packed_in_one_way_only(fields: list[bytes]) -> None:
    assert unpack(pack(*fields), [str(each) for each in range(len(fields))]) == fields
    with pytest.raises(ProtocolBroken):
        unpack(pack(*fields) + b"\0", [str(each) for each in range(len(fields))])
