"""Routes remembered for combinations of headers, compared with a search for each message."""

from hypothesis import given
from hypothesis import strategies as st
from tests.amqp_frontend.raw_lists import lists
from tests.counting import calls_of

from arneb_amqp.routing.consistent_hash import PROPERTY_PREFIX, seen_by_exchanges
from arneb_amqp.routing.exchange import Binding, DestinationKind, Exchange
from arneb_amqp.routing.header_routes import (
    BINDINGS_MAX,
    FIELDS_BYTES_MAX,
    RESULTS_MAX,
    HeaderRoutes,
    names_read,
)
from arneb_amqp.routing.router import Router, RouteResult
from arneb_amqp.routing.routes import Routes
from arneb_amqp.wire.properties import Properties, decode_properties, encode_properties
from arneb_amqp.wire.route import join_route, shortstr, split_route
from arneb_amqp.wire.tables import Field, FieldType, array, boolean, long, longstr

wanted = st.sampled_from(
    [
        longstr("text"), longstr(""), Field(FieldType.VOID, None), long(0), long(7),
        boolean(True), boolean(False), Field(FieldType.DOUBLE, 0.0), Field(FieldType.TABLE, {}),
        array([boolean(True)]),
    ]
)  # fmt: skip
arguments = st.builds(
    lambda fields, match: fields | ({"x-match": longstr(match)} if match else {}),
    st.dictionaries(st.sampled_from(["a", "b", "x-delay", "x-death", "CC"]), wanted, max_size=3),
    st.sampled_from(["", "all", "any", "all-with-x", "any-with-x"]),
)
KINDS = ["headers", "direct", "topic", "fanout"]
bindings = st.builds(
    lambda source, target, key, args: Binding(
        source, target, key, args,
        kind=DestinationKind.EXCHANGE if target in "xyz" else DestinationKind.QUEUE,
    ),
    st.sampled_from("xyz"), st.sampled_from(["q1", "q2", "q3", "y", "z", "x"]),
    st.sampled_from(["k", "l", "#"]), arguments,
)  # fmt: skip


@st.composite
def routers(draw: st.DrawFn) -> Router:
    router = Router()
    for name in ("q1", "q2", "q3"):
        router.add_queue(name)
    for name in "xyz":
        kind = "headers" if name == "x" else draw(st.sampled_from(KINDS))
        alternate = draw(st.sampled_from([{}, {"alternate-exchange": longstr("z")}]))
        router.declare(Exchange(name, kind, arguments=alternate))
    for binding in draw(st.lists(bindings, max_size=6)):
        router.bind(binding)
    if draw(st.booleans()):
        router.give_alternate("y", "amq.headers")
        router.bind(Binding("amq.headers", "q3", "", draw(arguments)))
    return router


ROUTES = [join_route(exchange, key) for exchange in "xy" for key in "kl"]


@given(routers(), st.lists(st.tuples(st.sampled_from(ROUTES), lists()), max_size=8))
def test_a_remembered_route_equals_a_search(
    router: Router, messages: list[tuple[bytes, bytes]]
) -> None:
    remembered = HeaderRoutes(router)
    for route, properties in messages:
        exchange, key = split_route(route)
        headers = seen_by_exchanges(decode_properties(properties))
        result = router.route(exchange, key, headers)
        found = remembered.find(route, properties)
        assert found is None or found == result
        remembered.learn(route, properties, result)
        if names_read(router, exchange) is not None:
            assert remembered.find(route, properties) == result


def headers_exchange(*wants: dict[str, Field]) -> Router:
    router = Router()
    router.add_queue("q")
    router.declare(Exchange("x", "headers"))
    for number, each in enumerate(wants):
        router.bind(Binding("x", "q", f"{number}", each))
    return router


def listed(**headers: Field) -> bytes:
    return encode_properties(Properties(headers=headers, message_id="m"))


def test_headers_that_no_binding_names_do_not_matter() -> None:
    router = headers_exchange({"a": longstr("text")})
    remembered = HeaderRoutes(router)
    route = join_route("x", "")
    result = router.route("x", "", {"a": longstr("text")})
    remembered.learn(route, listed(a=longstr("text"), n=long(1)), result)
    assert remembered.find(route, listed(a=longstr("text"), n=long(2), o=long(3))) == result
    assert remembered.find(route, listed(a=longstr("other"), n=long(1))) is None
    again = listed(a=longstr("text"), n=long(2))
    assert calls_of(lambda: remembered.find(route, again)) < 40


def test_a_route_that_depends_on_something_else_is_not_remembered() -> None:
    named = headers_exchange({PROPERTY_PREFIX + "message_id": longstr("m")})
    assert names_read(named, "x") is None
    hashed = headers_exchange({})
    hashed.declare(Exchange("h", "x-consistent-hash"))
    hashed.bind(Binding("x", "h", kind=DestinationKind.EXCHANGE))
    assert names_read(hashed, "x") is None
    many = headers_exchange(*[{"a": long(number)} for number in range(BINDINGS_MAX)])
    assert names_read(many, "x") == {shortstr("a")}
    many.bind(Binding("x", "q", "one more", {"b": long(1)}))
    assert names_read(many, "x") is None


def test_the_number_of_remembered_routes_is_bounded() -> None:
    router = headers_exchange({"a": Field(FieldType.VOID, None)})
    remembered = HeaderRoutes(router)
    result = router.route("x", "", {"a": long(1)})
    for number in range(2 * RESULTS_MAX):
        remembered.learn(join_route("x", ""), listed(a=long(number)), result)
        assert len(remembered._found) == remembered._targets <= RESULTS_MAX


def test_a_message_with_large_headers_is_not_remembered() -> None:
    router = headers_exchange({"a": Field(FieldType.VOID, None)})
    remembered = HeaderRoutes(router)
    route, around = join_route("x", ""), len(shortstr("a")) + 1 + 4
    for more in (0, 1):
        header = longstr("m" * (FIELDS_BYTES_MAX - around + more))
        result = router.route("x", "", {"a": header})
        remembered.learn(route, listed(a=header), result)
        assert (remembered.find(route, listed(a=header)) is None) == bool(more)
        assert len(remembered._found) == 1


def test_remembered_routes_are_forgotten_when_the_topology_changes() -> None:
    router = headers_exchange({"a": longstr("text")})
    routes = Routes(router)
    raw, properties = join_route("x", ""), listed(b=long(1))
    routes.find(raw)
    routes.by_headers.learn(raw, properties, router.route("x", "", {"b": long(1)}))
    assert routes.by_headers.find(raw, properties) == RouteResult((), True, (), True)
    router.bind(Binding("x", "q", "", {"b": long(1)}))
    routes.find(raw)
    assert routes.by_headers.find(raw, properties) is None
