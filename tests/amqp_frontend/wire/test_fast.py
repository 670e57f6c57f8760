"""The fast reader, compared with pamqp and with the assembler, however the bytes are split."""

from dataclasses import replace
from itertools import chain, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pamqp import base, commands
from tests.amqp_frontend.wire.slow_reader import SlowReader
from tests.amqp_frontend.wire.streams import (
    FRAME_BYTES_MAX,
    HEARTBEAT_BYTES,
    MESSAGE_BYTES_MAX,
    PLAIN,
    Fact,
    PamqpReader,
    ack,
    broken_streams,
    cuts,
    facts_of,
    nack,
    publish,
    reject,
    streams,
)
from tests.counting import calls_of

from arneb_amqp.wire.constants import BASIC_NACK, BASIC_REJECT, ChannelId
from arneb_amqp.wire.content import is_body, payload_of, properties_of
from arneb_amqp.wire.fast import FastReader
from arneb_amqp.wire.items import (
    Ack,
    AckRun,
    Item,
    Method,
    Publish,
    PublishRun,
    RejectRun,
    VariedRun,
)
from arneb_amqp.wire.methods import encode_method
from arneb_amqp.wire.properties import (
    Properties,
    PropertyFlag,
    decode_properties,
    encode_properties,
)
from arneb_amqp.wire.publishes import ITEMS_MAX, LOOKUPS_MAX
from arneb_amqp.wire.route import split_route

SHORT_METHODS = [
    commands.Tx.Commit(),
    commands.Channel.Close(200, "", 0, 0),
    commands.Basic.Get(queue="orde"),  # as long as the publish before it
]


def read(reader: FastReader | SlowReader, pieces: list[bytes]) -> list[Item]:
    items: list[Item] = []
    for piece in pieces:
        items += reader.receive(piece)
        while reader.has_more:
            items += reader.receive(b"")
    return items


def new_reader() -> FastReader:
    return FastReader(FRAME_BYTES_MAX, message_bytes_max=MESSAGE_BYTES_MAX)


def as_pamqp_sees(fact: Fact) -> Fact:
    """Our facts with the publishes split as the reference splits them."""
    if fact.what != "publish":
        return fact
    route, persistent, mandatory, immediate, body = fact.details  # type: ignore[misc]
    assert is_body(body)
    names = split_route(route)
    return Fact(
        "publish", fact.channel, (*names, persistent, mandatory, immediate, payload_of(body))
    )


def utf8_only(frames: list[bytes]) -> bool:
    """pamqp cannot read a routing key that is not text, nor property lists with such strings."""
    try:
        PamqpReader().receive(b"".join(frames))
    except Exception:
        return False
    return True


@given(streams().filter(utf8_only), st.data())
def test_it_finds_what_pamqp_finds(frames: list[bytes], data: st.DataObject) -> None:
    raw = b"".join(frames)
    found = facts_of(read(new_reader(), data.draw(cuts(raw))))
    expected = PamqpReader().receive(raw)
    assert list(map(simplified, map(as_pamqp_sees, found))) == list(map(simplified, expected))


def simplified(fact: Fact) -> Fact:
    """Without tables and string types, which pamqp represents differently."""
    if fact.what in {"publish", "ack", "heartbeat"}:
        return fact
    fields, content = fact.details  # type: ignore[misc]
    plain = {name: value for name, value in fields.items() if isinstance(value, str | int)}
    return Fact(fact.what, fact.channel, (plain, content))


@given(streams())
def test_reading_byte_by_byte_gives_the_same(frames: list[bytes]) -> None:
    raw = b"".join(frames)
    pieces = [raw[at : at + 1] for at in range(len(raw))]
    assert facts_of(read(new_reader(), pieces)) == facts_of(read(new_reader(), [raw]))


def fast_and_slow_agree(raw: bytes, data: st.DataObject) -> None:
    """Heartbeats follow, so that neither reader waits for more."""
    whole = raw + HEARTBEAT_BYTES * (FRAME_BYTES_MAX // 4)
    reader = SlowReader(FRAME_BYTES_MAX, message_bytes_max=MESSAGE_BYTES_MAX)
    slow = facts_of(read(reader, [whole]))
    assert facts_of(read(new_reader(), [whole])) == slow
    assert facts_of(read(new_reader(), data.draw(cuts(whole)))) == slow


@given(broken_streams(), st.data())
def test_wrong_frames_give_the_same_fast_and_slow(frames: list[bytes], data: st.DataObject) -> None:
    fast_and_slow_agree(b"".join(frames), data)


@given(streams(), st.data())
def test_wrong_octets_give_the_same_fast_and_slow(frames: list[bytes], data: st.DataObject) -> None:
    """Octets are changed, missing or added, and the end is cut off."""
    raw = bytearray(b"".join(frames))
    for _ in range(data.draw(st.integers(0, 3))):
        at = data.draw(st.integers(0, len(raw)))
        length = data.draw(st.sampled_from([0, 1, 1, 1, 7]))
        raw[at : at + length] = data.draw(st.binary(max_size=3))
    del raw[data.draw(st.integers(0, len(raw))) :]
    fast_and_slow_agree(bytes(raw), data)


@given(st.binary(max_size=200))
def test_random_bytes_never_raise(raw: bytes) -> None:
    new_reader().receive(raw)


def key_of(run: PublishRun | VariedRun) -> tuple[object, ...]:
    return run.channel, run.persistent, run.mandatory, run.priority, run.expiration_ms


def starts_like(run: PublishRun | VariedRun, before: Item) -> bool:
    """Whether its first message has the route of the run before it."""
    first = run.route if isinstance(run, PublishRun) else run.routes[0]
    return isinstance(before, PublishRun) and first == before.route


@given(streams())
def test_neighbouring_runs_could_not_be_one_run(frames: list[bytes]) -> None:
    items = new_reader().receive(b"".join(frames))
    for one, two in pairwise(items):
        if isinstance(one, PublishRun | VariedRun) and isinstance(two, PublishRun | VariedRun):
            # A run with one route ends at another route if it has two messages or more by then.
            ends = isinstance(one, PublishRun) and len(one.bodies) > 1
            assert key_of(one) != key_of(two) or (ends and not starts_like(two, one))
        if isinstance(one, AckRun) and isinstance(two, AckRun):
            assert one.channel != two.channel
        if isinstance(one, RejectRun) and isinstance(two, RejectRun):
            assert replace(one, tags=[]) != replace(two, tags=[])
    for item in items:
        assert not isinstance(item, PublishRun) or item.bodies
        assert not isinstance(item, VariedRun) or len(item.bodies) == len(item.routes) > 1


@given(streams())
def test_single_publishes_are_those_with_interesting_properties(frames: list[bytes]) -> None:
    mask = PropertyFlag.EXPIRATION
    reader = FastReader(FRAME_BYTES_MAX, interesting=mask)
    for item in reader.receive(b"".join(frames)):
        if isinstance(item, Publish):
            assert item.properties == properties_of(item.body)
            found = decode_properties(item.properties)
            assert (
                item.immediate
                or found.expiration is not None
                or found.delivery_mode not in {None, 1, 2}
                or "CC" in (found.headers or {})
                or "BCC" in (found.headers or {})
            )
            assert item.persistent == (found.delivery_mode == 2)
        elif isinstance(item, PublishRun | VariedRun):
            for body in item.bodies:
                found = decode_properties(properties_of(body))
                assert found.expiration is None
                assert item.persistent == (found.delivery_mode == 2)


@given(streams())
def test_a_run_has_the_priority_and_the_expiration_of_each_of_its_messages(
    frames: list[bytes],
) -> None:
    for item in new_reader().receive(b"".join(frames)):
        if isinstance(item, PublishRun | VariedRun):
            for body in item.bodies:
                found = decode_properties(properties_of(body))
                assert item.priority == (found.priority or 0)
                expiration = None if found.expiration is None else int(found.expiration)
                assert item.expiration_ms == expiration


def test_a_run_ends_at_another_priority_or_expiration() -> None:
    wanted = [(0, None), (0, None), (3, None), (3, 5), (3, 5), (3, 6), (4, 6), (0, 0)]
    frames = [
        publish(1, list_=encode_properties(Properties(priority=priority, expiration=text)))
        for priority, text in (
            (priority, None if ms is None else str(ms)) for priority, ms in wanted
        )
    ]
    items = new_reader().receive(b"".join(chain.from_iterable(frames)))
    found = []
    for item in items:
        assert isinstance(item, PublishRun)
        found += [(item.priority, item.expiration_ms)] * len(item.bodies)
    assert found == wanted
    assert len(items) == len(set(wanted))


@pytest.mark.parametrize("count", [1, 2, 3, 9, 10, 11, 42, 1100, 1200])
@pytest.mark.parametrize("size", [0, 1, 256])
def test_a_run_of_any_length_is_one_item(count: int, size: int) -> None:
    raw = b"".join(publish(1, payload=b"x" * size)) * count
    (run,) = new_reader().receive(raw)
    assert isinstance(run, PublishRun)
    assert len(run.bodies) == count
    assert {payload_of(body) for body in run.bodies} == {b"x" * size}


def test_a_run_ends_at_another_channel_or_delivery_mode_and_may_have_several_routes() -> None:
    transient = PLAIN[:-1] + b"\x01"
    frames = [
        *publish(1, key=b"a"),
        *publish(1, key=b"b"),
        *publish(1, key=b"a"),
        *publish(1, key=b"b", list_=transient),
        *publish(2, key=b"b"),
        *publish(2, key=b"b"),
        *publish(2, key=b"a"),
        *publish(2, key=b"b", list_=transient),
    ]
    varied, light, same, other, changed = new_reader().receive(b"".join(frames))
    assert isinstance(varied, VariedRun)
    assert (varied.channel, varied.persistent) == (1, True)
    assert [route[2:] for route in varied.routes] == [b"a", b"b", b"a"]
    runs = [light, same, other, changed]
    assert [(run.channel, run.route[2:], run.persistent, len(run.bodies)) for run in runs] == [  # type: ignore[union-attr]
        (1, b"b", False, 1),
        (2, b"b", True, 2),
        (2, b"a", True, 1),
        (2, b"b", False, 1),
    ]


def by_many_keys(count: int) -> bytes:
    numbers = range(count)
    messages = (publish(1, key=b"%d" % (each % 7), payload=b"%d" % each) for each in numbers)
    return b"".join(chain.from_iterable(messages))


def test_many_messages_with_several_routes_are_read_in_several_turns() -> None:
    reader, count = new_reader(), 3 * LOOKUPS_MAX
    items = reader.receive(by_many_keys(count))
    assert reader.has_more
    (first,) = items
    assert isinstance(first, VariedRun)
    assert len(first.bodies) <= LOOKUPS_MAX
    turns = 1
    while reader.has_more:
        items += reader.receive(b"")
        turns += 1
    assert turns in {3, 4}
    bodies = [body for item in items for body in item.bodies]  # type: ignore[union-attr]
    assert [payload_of(body) for body in bodies] == [b"%d" % number for number in range(count)]


@pytest.mark.parametrize("cut", range(1, 60))
def test_an_incomplete_message_with_another_route_is_waited_for(cut: int) -> None:
    raw = by_many_keys(20)
    reader = new_reader()
    items = reader.receive(raw[:-cut])
    items += reader.receive(raw[-cut:])
    bodies = [body for item in items for body in item.bodies]  # type: ignore[union-attr]
    assert [payload_of(body) for body in bodies] == [b"%d" % number for number in range(20)]
    assert reader._assembler.waiting == {}


@pytest.mark.parametrize("other", [False, True])
def test_it_waits_for_no_more_than_the_message_has(other: bool) -> None:
    """Because of its properties, the last one is shorter than those before it. It arrives in two
    pieces."""
    longer = PLAIN[:2] + b"\x28" + b"t" * 40 + PLAIN[-1:]
    plain = publish(1, key=b"b" if other else b"a", payload=b"x")
    before = publish(1, key=b"a", payload=b"x", list_=longer) * 3
    last = b"".join(plain)
    for cut in range(1, len(last)):
        reader = new_reader()
        raw = b"".join(before) + last
        items = reader.receive(raw[:-cut])
        items += reader.receive(raw[-cut:])
        assert sum(len(item.bodies) for item in items) == 4  # type: ignore[union-attr]


@pytest.mark.parametrize("method", SHORT_METHODS, ids=lambda each: str(each.name))
def test_a_short_method_after_publishes_is_found_wherever_it_is_cut(
    method: base.Frame,
) -> None:
    """It begins like a publish. A client may go on after a publish, but here it waits for the
    answer."""
    frame = encode_method(ChannelId(1), method)
    for cut in range(1, len(frame)):
        reader = new_reader()
        items = reader.receive(b"".join(publish(1)) * 2 + frame[:cut])
        items += reader.receive(frame[cut:])
        assert [fact.what for fact in facts_of(items)] == ["publish", "publish", method.name]


def test_acks_form_runs_and_multiple_ones_are_single() -> None:
    raw = ack(1, 1) + ack(1, 2) + ack(1, 9, 1) + ack(1, 10) + ack(2, (1 << 64) - 1) + ack(2, 0, 1)
    assert new_reader().receive(raw) == [
        AckRun(1, [1, 2]),  # type: ignore[arg-type]
        Ack(1, 9),  # type: ignore[arg-type]
        AckRun(1, [10]),  # type: ignore[arg-type]
        AckRun(2, [(1 << 64) - 1]),  # type: ignore[arg-type]
        Ack(2, 0),  # type: ignore[arg-type]
    ]


def test_mandatory_publishes_form_runs_of_their_own() -> None:
    keys = [(b"a", 0), (b"b", 0), (b"a", 1), (b"b", 1), (b"b", 1), (b"b", 0)]
    raw = b"".join(chain.from_iterable(publish(1, key=key, bits=bits) for key, bits in keys))
    items = new_reader().receive(raw)
    assert [type(item) for item in items] == [VariedRun, VariedRun, PublishRun]
    counted = [(item.mandatory, len(item.bodies)) for item in items]  # type: ignore[union-attr]
    assert counted == [(False, 2), (True, 3), (False, 1)]


def test_rejects_and_nacks_form_runs_of_those_that_are_alike() -> None:
    raw = reject(1, 1) + reject(1, 2) + reject(1, 3, 1) + nack(1, 4) + nack(1, 5, 2) + nack(2, 6, 2)
    multiple = nack(2, 7, 3)
    items = new_reader().receive(raw + multiple)
    one, two = ChannelId(1), ChannelId(2)
    assert items[:-1] == [
        RejectRun(one, [1, 2], False, BASIC_REJECT),
        RejectRun(one, [3], True, BASIC_REJECT),
        RejectRun(one, [4], False, BASIC_NACK),
        RejectRun(one, [5], True, BASIC_NACK),
        RejectRun(two, [6], True, BASIC_NACK),
    ]
    assert isinstance(items[-1], Method)
    assert items[-1].method.multiple


def test_a_long_run_of_rejects_takes_no_more_calls_than_a_short_one() -> None:
    reader = new_reader()
    few = calls_of(lambda: reader.receive(reject(1, 1) * 10))
    many = calls_of(lambda: reader.receive(reject(1, 1) * 1000))
    assert many < few + 10


def test_a_publish_is_not_waited_for_longer_than_its_frames() -> None:
    """While its body is due, another channel's request must get through."""
    declare = encode_method(ChannelId(2), commands.Queue.Declare(queue="q"))
    frames = publish(1, payload=b"x" * 1000)
    reader = new_reader()
    assert reader.receive(frames[0] + frames[1]) == []
    (method,) = reader.receive(declare)
    assert method.channel == 2  # type: ignore[union-attr]
    (run,) = reader.receive(frames[2])
    assert payload_of(run.bodies[0]) == b"x" * 1000  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "frames",
    [
        [HEARTBEAT_BYTES],
        [ack(1, 1), ack(2, 1)],
        [*publish(1, payload=b"x", bits=2)],
        [*publish(1, payload=b"x"), *publish(2, payload=b"x")],
        [*publish(1, payload=b"xy", part=1)],
    ],
    ids=["heartbeats", "acks by turns", "single publishes", "publishes by turns", "tiny frames"],
)
def test_much_input_that_forms_no_run_is_read_in_pieces(frames: list[bytes]) -> None:
    raw = b"".join(frames) * 2000
    reader = FastReader(FRAME_BYTES_MAX)
    items, most = reader.receive(raw), 0
    while reader.has_more:
        most = max(most, calls_of(lambda: items.extend(reader.receive(b""))))
    assert facts_of(items) == facts_of(read(FastReader(FRAME_BYTES_MAX), [raw[:-1], raw[-1:]]))
    assert most < ITEMS_MAX * 60


def test_a_run_is_read_in_one_piece() -> None:
    raw = b"".join(publish(1, payload=bytes(128)) * 1500)
    reader = FastReader(FRAME_BYTES_MAX)
    (run,) = reader.receive(raw)
    assert not reader.has_more
    assert isinstance(run, PublishRun)
    assert len(run.bodies) == 1500


def test_what_arrives_during_a_pause_comes_after_the_rest() -> None:
    reader = FastReader(FRAME_BYTES_MAX)
    items = reader.receive(HEARTBEAT_BYTES * 3 * ITEMS_MAX)
    assert reader.has_more
    items += read(reader, [ack(1, 7)])
    assert len(items) == 3 * ITEMS_MAX + 1
    assert items[-1] == AckRun(ChannelId(1), [7])
