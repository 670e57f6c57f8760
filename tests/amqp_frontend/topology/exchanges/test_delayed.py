"""What an exchange kept, when it is due. Whatever the exchange remembers, every message goes where
the bindings of that moment lead."""

from dataclasses import dataclass, field
from itertools import count
from types import SimpleNamespace
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arneb_amqp.routing.exchange import Binding, Exchange
from arneb_amqp.routing.router import Router, finished
from arneb_amqp.topology.exchanges.delayed import (
    KINDS_MAX,
    UNDER_WAY_BYTES_MAX,
    UNDER_WAY_MAX,
    DelayedExchange,
)
from arneb_amqp.wire.constants import ChannelId
from arneb_amqp.wire.content import compose, payload_of, properties_of
from arneb_amqp.wire.properties import Properties, decode_properties, encode_properties
from arneb_amqp.wire.route import join_route
from arneb_amqp.wire.tables import array, longstr, signedint
from arneb_core.api.core import Unit
from arneb_core.api.entries.entry import HEADER_BYTES, EntryFlag, EntryHeader, Origin, read_header
from arneb_core.api.subscriptions.deliveries import Deliveries

NOW_MS: Final = 1_000_000
NAMES: Final = ("a", "b", "c", "kept")


@dataclass(eq=False)
class FakeTopic:
    """The topic of a queue."""

    name: str
    durable: bool = True


@dataclass
class World:
    """What a delayed exchange knows: the bindings are real, everything else only records calls."""

    kind: str = "direct"
    router: Router = field(default_factory=Router)
    topics: dict[str, Any] = field(default_factory=dict)
    expiring: list[set[str]] = field(default_factory=list)
    units: list[Unit] = field(default_factory=list)

    def __post_init__(self) -> None:
        arguments = {"x-delayed-type": longstr(self.kind)}
        self.router.declare(Exchange("e", "x-delayed-message", arguments=arguments))
        for name in NAMES:
            self.toggle(name)

    def toggle(self, queue: str) -> None:
        """Declare or delete a queue; a new queue has a new topic."""
        if queue in self.topics:
            del self.topics[queue]
            finished(self.router.removing_queue(queue))
        else:
            self.topics[queue] = FakeTopic(queue)
            self.router.add_queue(queue)

    def delayed_exchange(self) -> DelayedExchange:
        """A delayed exchange that has seen nothing yet."""
        queues: Any = SimpleNamespace(
            topic=self.topics.get, expect_expiry=self.expiring.append, refusing={}
        )
        core: Any = SimpleNamespace(commit=lambda unit, done: self.units.append(unit))
        attached = SimpleNamespace(attach=lambda spec, sink: SimpleNamespace())
        topic: Any = SimpleNamespace(name="e", subscriptions={"routing": attached})
        made = DelayedExchange("e", topic, core, self.router, queues, lambda: NOW_MS)
        made.begin()
        return made

    def due(self, delayed: DelayedExchange, entries: list[bytes]) -> tuple[list[Any], set[str]]:
        """What goes to which topic, and which topics expect expiry."""
        delayed.deliver(Deliveries([], entries))
        return self.units.pop().appends, self.expiring.pop()


def kept(key: str, properties: Properties, *, number: int = 0, persistent: bool = True) -> bytes:
    """An entry of the exchange's topic."""
    route = join_route("e", key)
    flags = EntryFlag.NONE if persistent else EntryFlag.TRANSIENT
    header = EntryHeader(
        Origin.AMQP,
        flags=flags,
        publish_time_ms=5,
        deliver_at_ms=NOW_MS,
        priority=properties.priority or 0,
        hint=len(route),
    )
    content = compose(ChannelId(1), encode_properties(properties), b"%d" % number)
    return header.pack() + route + content


def properties_of_entry(entry: bytes) -> Properties:
    return decode_properties(properties_of(entry, HEADER_BYTES + read_header(entry).hint))


headers = st.fixed_dictionaries(
    {"x-delay": st.integers(-5000, -1).map(signedint)},
    optional={
        "CC": st.sampled_from(NAMES).map(lambda each: array([longstr(each)])),
        "BCC": st.sampled_from(NAMES).map(lambda each: array([longstr(each)])),
        "wanted": st.sampled_from(NAMES).map(longstr),
        "note": st.just(longstr("CC")),
    },
)
messages = st.builds(
    Properties,
    headers=headers,
    priority=st.none() | st.integers(0, 5),
    expiration=st.sampled_from([None, None, "0", "700"]),
    correlation_id=st.none() | st.just("CC"),
)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("due"), st.lists(st.tuples(st.sampled_from(NAMES), messages))),
        st.tuples(st.just("toggle"), st.sampled_from(NAMES)),
        st.tuples(st.just("bind"), st.sampled_from(NAMES), st.sampled_from(NAMES)),
    ),
    max_size=12,
)


@given(st.sampled_from(["direct", "fanout", "topic", "headers"]), steps)
def test_an_exchange_that_remembers_routes_like_a_new_one(
    kind: str, does: list[tuple[Any, ...]]
) -> None:
    world, numbers = World(kind), count()
    delayed = world.delayed_exchange()
    for step in does:
        match step:
            case ("due", found):
                entries = [kept(key, each, number=next(numbers)) for key, each in found]
                got, expiring = world.due(delayed, entries)
                plain: dict[str, list[bytes]] = {}
                for entry in entries:
                    appends, some = world.due(world.delayed_exchange(), [entry])
                    expiring -= some
                    for topic, its in appends:
                        plain.setdefault(topic.name, []).extend(its)
                assert {topic.name: its for topic, its in got} == plain
                assert not expiring, "expiries must be announced for the same topics as one by one"
            case ("toggle", queue):
                world.toggle(queue)
            case ("bind", queue, key) if queue in world.topics:
                arguments = {"wanted": longstr(key)} if kind == "headers" else {}
                world.router.bind(Binding("e", queue, key, arguments=arguments))


def test_what_is_due_is_unchanged_but_counts_as_published_now() -> None:
    world = World()
    world.router.bind(Binding("e", "a", "k"))
    sent = Properties(headers={"x-delay": signedint(-7)}, priority=3, message_id="m")
    entry = kept("k", sent, number=42, persistent=False)
    [(topic, [found])], _ = world.due(world.delayed_exchange(), [entry])
    header = read_header(found)
    assert topic is world.topics["a"]
    assert (header.publish_time_ms, header.deliver_at_ms, header.expires_at_ms) == (NOW_MS, 0, 0)
    assert (header.priority, header.flags) == (3, EntryFlag.TRANSIENT)
    assert properties_of_entry(found) == sent
    assert payload_of(found, HEADER_BYTES + header.hint) == b"42"


@pytest.mark.parametrize("key", ["CC", "BCC"])
def test_copies_go_to_their_keys_and_only_cc_is_visible(key: str) -> None:
    world = World()
    for queue in ("a", "b"):
        world.router.bind(Binding("e", queue, queue))
    entry = kept("a", Properties(headers={key: array([longstr("b")]), "x-delay": signedint(-1)}))
    got, _ = world.due(world.delayed_exchange(), [kept("a", Properties()), entry])
    assert {topic.name: len(its) for topic, its in got} == {"a": 2, "b": 1}
    seen = properties_of_entry(got[-1][1][-1]).headers
    assert seen is not None and (key in seen) is (key == "CC")


def test_lifetimes_begin_when_a_message_is_due() -> None:
    world = World()
    world.router.bind(Binding("e", "a", "k"))
    got, expiring = world.due(
        world.delayed_exchange(), [kept("k", Properties(expiration="700")), kept("k", Properties())]
    )
    assert [read_header(each).expires_at_ms for each in got[0][1]] == [NOW_MS + 700, 0]
    assert expiring == {"a"}


def test_what_is_remembered_is_bounded() -> None:
    world = World()
    delayed = world.delayed_exchange()
    for number in range(KINDS_MAX + 10):
        world.due(delayed, [kept(f"key {number}", Properties())])
        assert len(delayed._routes) <= KINDS_MAX


@pytest.mark.parametrize(
    ("payload_bytes", "expected"),
    [
        (10, range(UNDER_WAY_MAX, UNDER_WAY_MAX + 1)),
        (64 * 1024, range(60, 65)),
        (1 << 23, range(1, 2)),
    ],
)
def test_what_is_in_flight_is_bounded_by_the_size_of_messages(
    payload_bytes: int, expected: range
) -> None:
    """If messages are large the window is small, so that few of them are in memory."""
    world = World()
    given_windows: list[Any] = []
    delayed = world.delayed_exchange()
    attached = SimpleNamespace(attach=lambda spec, sink: given_windows.extend(spec.windows))
    delayed.topic.subscriptions["routing"] = attached  # type: ignore[index]
    delayed._consumer = None
    delayed.begin()
    (window,) = given_windows
    delayed._consumer = SimpleNamespace()  # type: ignore[assignment]
    assert window.limit == UNDER_WAY_MAX
    entry = kept("a", Properties()) + bytes(payload_bytes)
    world.due(delayed, [entry, entry])
    assert window.limit in expected
    assert window.limit * len(entry) <= max(UNDER_WAY_BYTES_MAX, len(entry))
