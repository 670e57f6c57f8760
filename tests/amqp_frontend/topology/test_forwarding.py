"""Forwarding: each message that is moved goes where its kind goes, and each kind is routed once."""

from typing import Any

from arneb_amqp.topology.forwarding import Forwarding, MessageKind, forward, head_of
from arneb_amqp.topology.overflow import Admission
from arneb_amqp.wire.constants import ChannelId
from arneb_amqp.wire.content import compose, payload_of, properties_of
from arneb_amqp.wire.properties import Properties, decode_properties, encode_properties
from arneb_amqp.wire.route import join_route
from arneb_core.api.entries.entry import HEADER_BYTES, EntryFlag, EntryHeader, Origin, read_header

ROUTE = join_route("x", "k")
OTHER = encode_properties(Properties(app_id="moved"))


class Topic:
    """Only its name is used."""


def entry(payload: bytes, priority: int = 0) -> bytes:
    head = EntryHeader(
        Origin.AMQP, flags=EntryFlag.TRANSIENT, hint=len(ROUTE), priority=priority
    ).pack()
    return head + ROUTE + compose(ChannelId(1), encode_properties(Properties()), payload)


def payloads(entries: list[bytes]) -> list[bytes]:
    return [payload_of(each, HEADER_BYTES + read_header(each).hint) for each in entries]


def test_each_kind_is_routed_once_and_every_message_follows_its_kind() -> None:
    first, second, later = Topic(), Topic(), Topic()
    kinds: list[MessageKind] = []

    def resolve(kind: MessageKind) -> Forwarding | None:
        kinds.append(kind)
        word, route, _ = kind
        head = head_of(route, int.from_bytes(word, "big"))
        if not word[0]:
            return None
        delayed = Forwarding(head(5, 9, 0), None, [later], ())  # type: ignore[list-item]
        return Forwarding(head(5, 0, 7), OTHER, [first, second], (), delayed)  # type: ignore[list-item]

    admission, known = Admission(), dict[MessageKind, Forwarding | None]()
    for payload, priority in ((b"a", 3), (b"b", 3), (b"nowhere", 0), (b"c", 3), (b"nowhere", 0)):
        forward(entry(payload, priority=priority), known, resolve, admission)
    assert len(kinds) == 2
    appends: dict[Any, list[bytes]] = dict(admission.close())
    assert [*appends] == [first, second, later]
    for moved in appends.values():
        assert payloads(moved) == [b"a", b"b", b"c"]
    for each in (*appends[first], *appends[second]):
        header = read_header(each)
        assert (header.publish_time_ms, header.deliver_at_ms, header.expires_at_ms) == (5, 0, 7)
        assert (header.priority, header.flags) == (3, EntryFlag.TRANSIENT)
        start = HEADER_BYTES + header.hint
        assert each[HEADER_BYTES:start] == ROUTE
        assert decode_properties(properties_of(each, start)).app_id == "moved"
    assert {read_header(each).deliver_at_ms for each in appends[later]} == {9}
