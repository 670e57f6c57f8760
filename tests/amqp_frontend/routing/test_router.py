"""The router: routes through several exchanges, and a topology that stays consistent."""

from collections.abc import Iterator

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from arneb_amqp.errors import ChannelException, ConnectionException
from arneb_amqp.routing.exchange import ALTERNATE_EXCHANGE, Binding, DestinationKind, Exchange
from arneb_amqp.routing.router import PREDECLARED, STEPS_AT_ONCE_MAX, Removed, Router, finished
from arneb_amqp.wire.tables import longstr, signedint

QUEUE, EXCHANGE = DestinationKind.QUEUE, DestinationKind.EXCHANGE


def router(*exchanges: Exchange, queues: str = "q r s") -> Router:
    made = Router()
    for exchange in exchanges:
        made.declare(exchange)
    for queue in queues.split():
        made.add_queue(queue)
    return made


def to_exchange(source: str, destination: str, key: str = "") -> Binding:
    return Binding(source, destination, key, kind=EXCHANGE)


def test_a_vhost_begins_with_the_predeclared_exchanges() -> None:
    assert set(router().exchanges) == {
        "", "amq.direct", "amq.fanout", "amq.topic", "amq.headers", "amq.match",
        "amq.rabbitmq.trace",
    }  # fmt: skip
    assert all(exchange.durable for exchange in PREDECLARED)


def test_the_default_exchange_routes_by_queue_name() -> None:
    made = router()
    assert made.route("", "q").queues == ("q",)
    assert not made.route("", "other").queues
    finished(made.removing_queue("q"))
    assert not made.route("", "q").queues


def test_queues_are_sorted_and_appear_once() -> None:
    made = router()
    for queue in "srq":
        made.bind(Binding("amq.topic", queue, "#"))
        made.bind(Binding("amq.topic", queue, "a.*"))
    assert made.route("amq.topic", "a.b").queues == ("q", "r", "s")


def test_extra_keys_are_routed_too() -> None:
    made = router()
    assert made.route("", "q", extra_keys=["r", "nowhere", "q"]).queues == ("q", "r")


def test_exchanges_bound_to_exchanges() -> None:
    made = router(Exchange("x", "fanout"), Exchange("y", "topic"), Exchange("z", "direct"))
    made.bind(to_exchange("x", "y"))
    made.bind(to_exchange("y", "z", "a.#"))
    made.bind(Binding("z", "q", "a.b"))
    made.bind(Binding("y", "r", "*.c"))
    assert made.route("x", "a.b").queues == ("q",)
    assert made.route("x", "a.c").queues == ("r",)
    assert made.route("x", "b.d").queues == ()


def test_a_cycle_of_exchanges_ends() -> None:
    made = router(Exchange("x", "fanout"), Exchange("y", "fanout"))
    made.bind(to_exchange("x", "y"))
    made.bind(to_exchange("y", "x"))
    made.bind(to_exchange("x", "x"))
    made.bind(Binding("y", "q"))
    assert made.route("x", "").queues == ("q",)
    removed = made.delete("x")
    assert len(removed.bindings) == 3
    assert made.route("y", "").queues == ("q",)


def alternate(name: str, other: str, kind: str = "direct") -> Exchange:
    return Exchange(name, kind, arguments={ALTERNATE_EXCHANGE: longstr(other)})


def test_the_alternate_gets_what_cannot_be_routed() -> None:
    made = router(alternate("x", "y"), alternate("y", "z"), Exchange("z", "fanout"))
    made.bind(Binding("x", "q", "known"))
    made.bind(Binding("z", "r"))
    assert made.route("x", "known").queues == ("q",)
    assert made.route("x", "unknown").queues == ("r",)


def test_a_missing_alternate_is_ignored_and_a_cycle_ends() -> None:
    made = router(alternate("x", "nowhere"), alternate("y", "z"), alternate("z", "y"))
    assert not made.route("x", "k").queues
    assert not made.route("y", "k").queues


def test_the_default_exchange_is_no_alternate() -> None:
    made = router(alternate("x", ""), alternate("y", "z"), Exchange("z", "fanout"))
    made.give_alternate("x", "z")
    made.give_alternate("z", "")
    for exchange in ("x", "y"):
        assert not made.route(exchange, "q").queues


def test_an_alternate_that_is_not_a_name_is_ignored() -> None:
    exchange = Exchange("x", "direct", arguments={ALTERNATE_EXCHANGE: signedint(1)})
    assert exchange.alternate is None


def test_routes_through_a_headers_exchange_depend_on_headers() -> None:
    made = router(Exchange("x", "fanout"))
    made.bind(Binding("x", "q"))
    assert not made.route("x", "").depends_on_headers
    made.bind(to_exchange("x", "amq.headers"))
    made.bind(Binding("amq.headers", "r", arguments={"a": signedint(1)}))
    result = made.route("x", "", {"a": signedint(1)})
    assert result.depends_on_headers
    assert result.queues == ("q", "r")
    assert made.route("x", "").queues == ("q",)


def test_a_route_that_begins_at_a_headers_exchange_depends_on_headers() -> None:
    made = router(Exchange("x", "fanout"))
    made.bind(to_exchange("amq.headers", "x"))
    made.bind(Binding("x", "q"))
    result = made.route("amq.headers", "")
    assert result.depends_on_headers
    assert result.queues == ("q",)


def test_the_order_of_arguments_does_not_matter_to_bindings() -> None:
    a, b = signedint(1), longstr("b")
    one = Binding("amq.headers", "q", arguments={"a": a, "b": b})
    two = Binding("amq.headers", "q", arguments={"b": b, "a": a})
    other = Binding("amq.headers", "q", arguments={"a": a})
    assert one == two
    assert hash(one) == hash(two)
    assert one != other
    made = router()
    assert made.bind(one)
    assert not made.bind(two)
    assert made.bind(other)
    assert list(made.bindings_to("q", QUEUE)) == [one, other]
    assert finished(made.unbinding(two)) == Removed((), (one,))
    assert finished(made.unbinding(two)) == Removed()


def test_a_queue_bound_twice_with_one_key_is_still_bound_after_one_unbinding() -> None:
    made = router()
    one = Binding("amq.direct", "q", "k")
    two = Binding("amq.direct", "q", "k", {"a": signedint(1)})
    made.bind(one)
    made.bind(two)
    finished(made.unbinding(one))
    assert made.route("amq.direct", "k").queues == ("q",)


def test_an_auto_delete_exchange_is_deleted_with_its_last_binding() -> None:
    made = router(Exchange("x", "direct", auto_delete=True))
    one, two = Binding("x", "q", "a"), Binding("x", "r", "a")
    made.bind(one)
    made.bind(two)
    assert not finished(made.unbinding(one)).exchanges
    removed = finished(made.unbinding(two))
    assert [exchange.name for exchange in removed.exchanges] == ["x"]
    assert "x" not in made.exchanges


def test_auto_delete_follows_chains_of_exchanges() -> None:
    made = router(*(Exchange(name, "direct", auto_delete=True) for name in "xyz"))
    made.bind(to_exchange("x", "y"))
    made.bind(to_exchange("y", "z"))
    made.bind(Binding("z", "q"))
    removed = finished(made.removing_queue("q"))
    assert [exchange.name for exchange in removed.exchanges] == ["z", "y", "x"]
    assert len(removed.bindings) == 3


def test_a_binding_to_an_auto_delete_exchange_neither_keeps_nor_deletes_it() -> None:
    made = router(Exchange("x", "direct"), Exchange("y", "direct", auto_delete=True))
    binding = to_exchange("x", "y")
    made.bind(binding)
    assert not finished(made.unbinding(binding)).exchanges


def test_missing_exchanges_give_rabbitmqs_text() -> None:
    made = router()
    text = "NOT_FOUND - no exchange 'nope' in vhost '/'"
    for attempt in (
        lambda: made.exchange("nope"),
        lambda: made.route("nope", "k"),
        lambda: made.bind(Binding("nope", "q")),
        lambda: made.bind(to_exchange("amq.direct", "nope")),
    ):
        with pytest.raises(ChannelException) as caught:
            attempt()
        assert caught.value.reply_text == text
    assert made.delete("nope") == Removed()
    assert finished(made.unbinding(Binding("nope", "q"))) == Removed()


def test_an_unknown_type_is_refused_as_rabbitmq_3_does() -> None:
    """The golden file ``exchange_unknown_type``."""
    with pytest.raises(ConnectionException) as caught:
        router().declare(Exchange("x", "wibble"))
    assert caught.value.reply_text == "COMMAND_INVALID - unknown exchange type 'wibble'"


def test_a_refused_binding_changes_nothing() -> None:
    made = router()
    generation = made.generation
    with pytest.raises(ChannelException):
        made.bind(Binding("amq.headers", "q", arguments={"x-match": longstr("wrong")}))
    assert made.generation == generation
    assert not made.bindings_from("amq.headers")


NAMES = ["x", "y", "z"]
QUEUES = ["q", "r"]
KEYS = ["", "a", "a.b"]
names, queues, keys = st.sampled_from(NAMES), st.sampled_from(QUEUES), st.sampled_from(KEYS)
bindings = st.one_of(
    st.builds(Binding, names, queues, keys),
    st.builds(to_exchange, names, names, keys),
)


class Topology(RuleBasedStateMachine):
    """Any operations in any order, compared with a router that is rebuilt each time."""

    @initialize()
    def begin(self) -> None:
        self.router = router(queues="")
        self.queues: set[str] = set()
        self.exchanges: dict[str, Exchange] = {}
        self.bindings: list[Binding] = []

    @rule(
        name=names,
        kind=st.sampled_from(["direct", "fanout", "topic", "headers"]),
        auto_delete=st.booleans(),
        other=st.none() | names,
    )
    def declare(self, name: str, kind: str, auto_delete: bool, other: str | None) -> None:
        if name not in self.exchanges:
            arguments = {} if other is None else {ALTERNATE_EXCHANGE: longstr(other)}
            exchange = Exchange(name, kind, auto_delete=auto_delete, arguments=arguments)
            self.exchanges[name] = exchange
            self.changes(lambda: self.router.declare(exchange))

    @rule(queue=queues)
    def add_queue(self, queue: str) -> None:
        if queue not in self.queues:
            self.queues.add(queue)
            self.changes(lambda: self.router.add_queue(queue))

    @rule(binding=bindings)
    def bind(self, binding: Binding) -> None:
        known = self.exchanges if binding.kind is EXCHANGE else self.queues
        new = binding not in self.bindings
        if binding.source in self.exchanges and binding.destination in known:
            assert self.router.bind(binding) == new
            self.bindings += [binding] * new

    @rule(binding=bindings)
    def unbind(self, binding: Binding) -> None:
        self.removed(finished(self.router.unbinding(binding)))

    @rule(name=names)
    def delete(self, name: str) -> None:
        self.removed(self.router.delete(name))
        assert name not in self.router.exchanges

    @rule(queue=queues)
    def remove_queue(self, queue: str) -> None:
        self.queues.discard(queue)
        self.removed(finished(self.router.removing_queue(queue)))
        assert not self.router.bindings_to(queue, QUEUE)

    def changes(self, change: object) -> None:
        before = self.router.generation
        change()  # type: ignore[operator]
        assert self.router.generation > before

    def removed(self, removed: Removed) -> None:
        for exchange in removed.exchanges:
            assert self.exchanges.pop(exchange.name) is exchange
        for binding in removed.bindings:
            self.bindings.remove(binding)

    @invariant()
    def nothing_dangles(self) -> None:
        made = self.router
        assert set(made.exchanges) - {each.name for each in PREDECLARED} == set(self.exchanges)
        from_all = [each for name in NAMES for each in made.bindings_from(name)]
        to_all = [
            *(each for name in NAMES for each in made.bindings_to(name, EXCHANGE)),
            *(each for name in QUEUES for each in made.bindings_to(name, QUEUE)),
        ]
        assert set(from_all) == set(to_all) == set(self.bindings)
        for binding in self.bindings:
            assert binding.source in self.exchanges
            known = self.exchanges if binding.kind is EXCHANGE else self.queues
            assert binding.destination in known

    @invariant()
    def routes_are_those_of_a_fresh_router(self) -> None:
        fresh = router(*self.exchanges.values(), queues=" ".join(self.queues))
        for binding in self.bindings:
            fresh.bind(binding)
        for name in self.exchanges:
            for key in KEYS:
                assert self.router.route(name, key) == fresh.route(name, key)


TestTopology = Topology.TestCase


def test_a_search_that_must_finish_in_one_turn_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for a dead letter, so hostile bindings of its exchange must not block the
    loop."""
    made = router(Exchange("wide", "fanout"))
    steps = 0

    def endless(*_: object) -> Iterator[None]:
        nonlocal steps
        while True:
            steps += 1
            assert steps <= 2 * STEPS_AT_ONCE_MAX
            yield None

    monkeypatch.setattr(made, "search", endless)
    with pytest.raises(ChannelException, match="took too long") as refused:
        made.route("wide", "key")
    assert refused.value.reply_code == 406
    assert steps == STEPS_AT_ONCE_MAX
